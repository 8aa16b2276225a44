"""What model calls cost, the limits that stop them, and what may still be spent.

``limits`` in the configuration::

    "limits": {
      "steps": 40, "calls": 1000, "failures": 3, "turn": {"minutes": 60},
      "session": {"tokens": 2000000, "cost": 5.0}, "day": {"cost": 20.0},
      "heartbeat": {"tokens": 200000}, "cause": {"title": {"cost": 0.5}}
    }

``tokens`` are all tokens in and out, ``cost`` US dollars; ``docs/guides/models.md`` says what each of them counts. Of
ceilings, what is left out has no limit.

The calls under way, those made in a row and the providers that refuse are kept by process and database, so that
sessions of several instances count together; what was spent stands in the store. Two processes on one file may each
go one call over. On a server each tells the others what its calls may come to, where a ceiling holds for them.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from instar.api.stats import Sum
from instar.message import Origin, Tokens
from instar.provider.protocol import Model, ModelCost, ProviderError
from instar.store import DropReserved, PutUsage, Reservation, Share, StoreError, Usage, Write
from instar.store.store import Store
from instar.wire import ids

DAY: Final = 24 * 60 * 60 * 1000
"""Milliseconds that the limits of a day look back, from a full hour on."""
CALLS: Final = 1000
"""Model calls in a row without a person, where ``limits.calls`` says nothing."""
FAILURES: Final = 3
"""Failures in a row after which what nobody asked for waits, where ``limits.failures`` says nothing."""


class LimitsError(ValueError):
    """A limit that is not a number above zero; the text names its path in the configuration."""


class Ceiling(msgspec.Struct, frozen=True):
    """The largest number of tokens and US dollars that something may use; None means no limit."""

    tokens: int | None = None
    cost: float | None = None


class CallLimits(msgspec.Struct, frozen=True):
    """All limits: of a turn (`steps` and `minutes`), a session's tree, a beat, 24 hours, and what goes on by itself."""

    steps: int = 40
    session: Ceiling = Ceiling()
    day: Ceiling = Ceiling()
    heartbeat: Ceiling = Ceiling()
    cause: Mapping[str, Ceiling] = msgspec.field(default_factory=dict)
    minutes: float | None = None
    calls: int = CALLS
    failures: int = FAILURES
    own: Ceiling = Ceiling()
    """What the session set for itself, held in `session` already: no setting raises that."""

    @classmethod
    def of(cls, block: Mapping[str, Any], max_iterations: int = 40) -> "CallLimits":
        """Read the configuration's ``limits``. Raises `LimitsError` at the first value that is none."""
        known = ("steps", "session", "day", "heartbeat", "cause", "turn", "calls", "failures")
        _only(block, known, "limits")
        turn = _block(block.get("turn"), "limits.turn", '{"minutes": 30}')
        _only(turn, ("minutes",), "limits.turn")
        causes = _block(block.get("cause"), "limits.cause", '{"title": {"tokens": 100000}}')
        return cls(
            steps=_count(block, "steps", max_iterations),
            session=_ceiling(block.get("session"), "limits.session"),
            day=_ceiling(block.get("day"), "limits.day"),
            heartbeat=_ceiling(block.get("heartbeat"), "limits.heartbeat"),
            cause={name: _ceiling(given, f"limits.cause.{name}") for name, given in causes.items()},
            minutes=_number(turn.get("minutes"), "limits.turn.minutes"),
            calls=_count(block, "calls", CALLS),
            failures=_count(block, "failures", FAILURES),
        )


class CallOwner:
    """Whose a model call is: its purpose (``turn``, ``title`` …), its origin, and the root of its session's tree.

    `causes` are the names that ``limits.cause`` may know it by, `shares` the sums that it adds to. `chain` is what its
    calls in a row are counted by: its origin's chain, or its session's where that has no id.
    """

    def __init__(self, cause: str = "turn", origin: Origin | None = None, root_id: str = "") -> None:
        """`origin` is a person, unless it is given."""
        origin = origin or Origin()
        self.cause, self.origin, self.root_id = cause, origin, root_id
        self.causes = tuple(dict.fromkeys(filter(None, (origin.name, origin.source, cause))))
        self.shares = [Share("day"), *[Share("cause", name) for name in self.causes]]
        if root_id:
            self.shares.append(Share("session", root_id))
        if origin.id:
            self.shares.append(Share("origin", origin.chain))
        self.chain = origin.chain if origin.id else f"{origin.name}:{root_id}"


class HeldCeiling(msgspec.Struct, frozen=True):
    """A ceiling that holds for a call: its path in the configuration, and the share of calls that it counts.

    `own` is what of it the session set for itself.
    """

    path: str
    ceiling: Ceiling
    share: Share
    own: Ceiling = Ceiling()


class CallSituation(msgspec.Struct, frozen=True):
    """Where a call stands before it is made: it would be step number `step` (from 1) of its turn.

    `calls` were made in a row without a person; `used` is what each of `bounds` counted so far; `priced`, whether
    the price of the model about to be called is known.
    """

    step: int = 1
    calls: int = 0
    bounds: Sequence[HeldCeiling] = ()
    used: Sequence[Sum] = ()
    cause: str = "turn"
    priced: bool = True


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit that forbids the next call: its path in the configuration, whose work it was, why, and what to do."""

    limit: str
    cause: str
    message: str
    advice: str = "Send another message to go on, or raise the limit."


def tighter(one: Ceiling, other: Ceiling) -> Ceiling:
    """Return the ceiling that both hold."""
    tokens = [given for given in (one.tokens, other.tokens) if given is not None]
    cost = [given for given in (one.cost, other.cost) if given is not None]
    return Ceiling(min(tokens, default=None), min(cost, default=None))


def bounds(limits: CallLimits, whose: CallOwner, now: int) -> list[HeldCeiling]:
    """Return the ceilings that hold for a call at the time `now` (ms)."""
    since = now - DAY
    found = [
        HeldCeiling("limits.session", limits.session, Share("session", whose.root_id), limits.own),
        HeldCeiling("limits.day", limits.day, Share("day", "", since)),
    ]
    if whose.origin.name == "heartbeat":
        found.append(HeldCeiling("limits.heartbeat", limits.heartbeat, Share("origin", whose.origin.chain)))
    for name in whose.causes:
        if name in limits.cause:
            found.append(HeldCeiling(f"limits.cause.{name}", limits.cause[name], Share("cause", name, since)))
    return [bound for bound in found if bound.ceiling != Ceiling() and (bound.share.key or bound.share.since)]


def check(limits: CallLimits, situation: CallSituation) -> ReachedLimit | None:
    """Return the first limit that forbids another model call, or None.

    Law: a call is refused once what was used has reached a limit, so that at most one call goes over. A
    limit on cost cannot be held where a price is unknown: the call is refused (gates fail closed).
    """
    if situation.step > limits.steps:
        message = (
            f"this turn has made {limits.steps} model calls, as many as max_iterations or limits.steps allows"
        )
        return ReachedLimit("limits.steps", situation.cause, message)
    if situation.calls >= limits.calls:
        message = f"{situation.calls:,} model calls were made without a person, limits.calls allows {limits.calls:,}"
        return ReachedLimit("limits.calls", situation.cause, message)
    for bound, used in zip(situation.bounds, situation.used, strict=True):
        reached = _over(bound, used, situation)
        if reached is not None:
            return reached
    return None


def must_wait(ceiling: Ceiling, used: Sum, under_way: Sum) -> bool:
    """Whether calls under way may reach a ceiling: then the next one waits for them, so that one goes over, not all.

    `under_way` is the most that they may come to.
    """
    if not under_way.calls:
        return False
    if ceiling.tokens is not None and used.tokens + under_way.tokens >= ceiling.tokens:
        return True
    return ceiling.cost is not None and (under_way.unpriced > 0 or used.cost + under_way.cost >= ceiling.cost)


def most(model: Model, unknown_window: int) -> Sum:
    """Return the largest possible cost of one call; `unknown_window` replaces an unknown context window."""
    window = model.limit.context or unknown_window
    prices = model.cost
    if prices.input is None or prices.output is None:
        return Sum(1, window + model.limit.output, 0.0, 1)
    given = max(prices.input, prices.cache_write or 0.0, prices.cache_read or 0.0)
    answer = model.limit.output or window
    return Sum(1, window + model.limit.output, (window * given + answer * prices.output) / 1_000_000)


def add(one: Sum, other: Sum, sign: int = 1) -> Sum:
    """Return both sums in one; with a `sign` of -1 the difference."""
    return Sum(
        one.calls + sign * other.calls,
        one.tokens + sign * other.tokens,
        one.cost + sign * other.cost,
        one.unpriced + sign * other.unpriced,
    )


def cost(tokens: Tokens, prices: ModelCost) -> float | None:
    """Return what a call cost in US dollars; None when a price that it needs is unknown.

    Reasoning is billed as output. Cached input without a price of its own is billed as input.
    """
    cached = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    bill = (
        (tokens.input, prices.input),
        (tokens.output + tokens.reasoning, prices.output),
        (tokens.cache.read, cached),
        (tokens.cache.write, written),
    )
    amount = 0.0
    for count, price in bill:
        if count and price is None:
            return None
        amount += count * (price or 0.0)
    return amount / 1_000_000


def is_priced(prices: ModelCost) -> bool:
    """Whether the price of the model is known."""
    return prices.input is not None and prices.output is not None


def total(tokens: Tokens) -> int:
    """Return all tokens of a call, cached ones and reasoning included."""
    return tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write


_ADVICE: Final = {
    "session": "Begin a new session, or raise {path}.{kind}.",
    "origin": "The next heartbeat begins anew; raise {path}.{kind} if it needs more.",
}
_OWN: Final = "Begin a new session: this one set {path}.{kind} for itself, and no setting raises that."
_WAIT: Final = "Wait until what was used is a day old, or raise {path}.{kind}."


def _over(bound: HeldCeiling, used: Sum, situation: CallSituation) -> ReachedLimit | None:
    path, ceiling = bound.path, bound.ceiling
    if ceiling.tokens is not None and used.tokens >= ceiling.tokens:
        message = f"{used.tokens:,} tokens were used, {path}.tokens allows {ceiling.tokens:,}"
        return _reached(bound, "tokens", situation, message)
    if ceiling.cost is None:
        return None
    if used.cost >= ceiling.cost:
        message = f"{used.cost:.2f} US dollars were spent, {path}.cost allows {ceiling.cost:.2f}"
        return _reached(bound, "cost", situation, message)
    if used.unpriced or not situation.priced:
        message = (
            f"{path}.cost cannot be held, since a model's price is unknown: set provider.ID.models.NAME.cost, "
            "or limit tokens instead"
        )
        return _reached(bound, "cost", situation, message)
    return None


def _reached(bound: HeldCeiling, kind: str, situation: CallSituation, message: str) -> ReachedLimit:
    most, own = getattr(bound.ceiling, kind), getattr(bound.own, kind)
    advice = _OWN if own == most else _ADVICE.get(bound.share.scope, _WAIT)
    advice = advice.format(path=bound.path, kind=kind)
    return ReachedLimit(f"{bound.path}.{kind}", situation.cause, message, advice)


def _ceiling(block: Any, path: str) -> Ceiling:
    block = _block(block, path, '{"tokens": 100000, "cost": 1.5}')
    _only(block, ("tokens", "cost"), path)
    tokens = _number(block.get("tokens"), f"{path}.tokens")
    return Ceiling(None if tokens is None else int(tokens), _number(block.get("cost"), f"{path}.cost"))


def _block(block: Any, path: str, example: str) -> Mapping[str, Any]:
    if block is None:
        return {}
    if not isinstance(block, Mapping):
        raise LimitsError(f"{path} must be an object such as {example}")
    return block


def _count(block: Mapping[str, Any], key: str, otherwise: int) -> int:
    number = _number(block.get(key), f"limits.{key}")
    return otherwise if number is None else max(1, int(number))


def _only(block: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    """A limit that is misspelt would be no limit: refuse it."""
    for key in block:
        if key not in known:
            raise LimitsError(f"{path}.{key} is no limit; there are {', '.join(known)}")


def _number(value: Any, path: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise LimitsError(f"{path} must be a number above 0; it is {value!r}")
    return value


_LOOK: Final = 0.3
"""Seconds between two looks whether calls of other processes have ended."""
_CHAINS: Final = 10_000
"""Chains whose calls in a row are remembered; the oldest is forgotten first."""
FIRST: Final = 300.0
"""Seconds of the first pause; each further one in a row is twice as long."""
LONGEST: Final = 6 * 3600.0
"""Seconds of the longest pause."""


class Breaker(msgspec.Struct, frozen=True):
    """Failures in a row, pauses in a row, and until when the last one lasts (seconds of a monotonic clock).

    A failure is a call that the provider refused for its key (401, 403), or one that it refused as too many until
    the retries ran out (429). After some in a row, what no person asked for waits. A person's own calls are always
    made, and an answer to one ends the pause.
    """

    failures: int = 0
    pauses: int = 0
    until: float = 0.0


def count_failure(state: Breaker, now: float, most: int) -> Breaker:
    """Return the state after one more failure: failure number `most`, and each after it, begins a pause."""
    failures = state.failures + 1
    if failures < most:
        return Breaker(failures)
    pauses = state.pauses + 1
    return Breaker(failures, pauses, now + min(FIRST * 2.0 ** min(pauses - 1, 30), LONGEST))


def pause_left(state: Breaker, now: float) -> float:
    """Return the seconds of the pause that are left; 0 when there is none."""
    return max(0.0, state.until - now) if state.pauses else 0.0


def tried(state: Breaker, now: float) -> Breaker:
    """Return the state once a call is made after a pause: the others wait until it is known what came of it."""
    return msgspec.structs.replace(state, until=now + FIRST) if state.pauses else state


class RunningCalls:
    """The running calls of this process on one database: their largest possible cost, by scope and key."""

    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.reserved: dict[tuple[str, str], Sum] = {}
        self.chains: dict[str, int] = {}
        self.roots: dict[str, set[str]] = {}
        self.breakers: dict[str, Breaker] = {}

    def add(self, shares: Sequence[Share], bound: Sum, sign: int = 1) -> None:
        """A call of at most `bound` begins, or ends with a `sign` of -1."""
        for share in shares:
            place = (share.scope, share.key)
            left = add(self.reserved.pop(place, Sum()), bound, sign)
            if left.calls:
                self.reserved[place] = left

    def of(self, share: Share) -> Sum:
        """Return the largest possible cost of the calls of a share."""
        return self.reserved.get((share.scope, share.key), Sum())

    def tried(self, provider_id: str, failures: int) -> bool:
        """Count a failure, of which so many in a row make a pause, or (0) an answer; whether that changed anything."""
        state = self.breakers.pop(provider_id, None)
        if failures:
            self.breakers[provider_id] = count_failure(state or Breaker(), time.monotonic(), failures)
        return failures > 0 or state is not None


_KNOWN: WeakValueDictionary[tuple[Path | str, int], RunningCalls] = WeakValueDictionary()


def running_calls(database: Path | str) -> RunningCalls:
    """Return the running calls of this event loop on a database."""
    return _KNOWN.setdefault((database, id(asyncio.get_running_loop())), RunningCalls())


class CallRequest(msgspec.Struct, frozen=True):
    """A model call that asks the limits: its limits, its place, its origin and its largest possible cost.

    `usage` is what will be booked, but for its figures. `reserved` is what other processes are told of it.
    """

    limits: CallLimits
    situation: CallSituation
    whose: CallOwner
    usage: Usage
    most: Sum
    reserved: Reservation | None = None


class CallPermit:
    """The right to make one model call. It is given back by `close`, once what the call used is booked."""

    def __init__(self, budget: "Budget", asked: CallRequest) -> None:
        self.running = budget.running
        self.is_open = True
        self._budget = budget
        self._asked = asked
        self._usage: Usage | None = None
        kept = asked.reserved
        self._renewing = None if kept is None else asyncio.create_task(budget.renew(kept))

    def used(self, tokens: Tokens, cost: float | None, message_id: str | None, now: int) -> None:
        """Note the usage that the provider reported; `close` books it, also if the call fails."""
        self._usage = msgspec.structs.replace(
            self._asked.usage, tokens=tokens, cost=cost, message_id=message_id, created=now
        )

    async def close(self) -> None:
        """Book what the provider reported and admit the next call. Does nothing the second time."""
        if self.is_open:
            self.is_open = False
            if self._renewing is not None:
                self._renewing.cancel()
            # Not cut short by an abort: what was spent is booked before anybody asks what is left.
            await asyncio.shield(self._budget.settle(self._usage, self._asked))

    def answered(self) -> None:
        """The call was answered: a pause of its provider ends."""
        self._budget.tried(self._asked.usage, 0)

    def failed(self, error: ProviderError) -> None:
        """The call failed; a key that is refused and a storm of refusals count for the breaker."""
        if error.kind == "auth" or error.status == 429:
            self._budget.tried(self._asked.usage, self._asked.limits.failures)


_OUTER: ContextVar[CallPermit | None] = ContextVar("outer", default=None)
"""The call that was last begun here: what a hook on its answer does runs inside of it."""


class Budget:
    """The spending of one database, as an instance sees it."""

    def __init__(self, store: Store, database: Path | str) -> None:
        self._store = store
        self.running = running_calls(database)
        self.pass_on: Callable[[Usage, int], None] = lambda usage, failures: None

    async def ask(self, asked: CallRequest) -> CallPermit | ReachedLimit:
        """Return the right to make a call, or the limit that forbids it.

        Waits while calls under way might reach a limit together. Law: of all that run at once, at most one call
        goes over a limit. A call that a hook makes on the answer of another one does not wait for that: it is refused.
        """
        running = self.running
        if self._store.is_shared and asked.situation.bounds:
            kept = Reservation(ids.new("evt"), asked.whose.shares, asked.most)
            asked = msgspec.structs.replace(asked, reserved=kept)
        async with running.changed:
            while (forbids := await self._forbids(asked)) is not None:
                if isinstance(forbids, ReachedLimit):
                    return forbids
                outer = _OUTER.get()
                if outer is not None and outer.is_open and outer.running is running:
                    return _within(forbids, asked.situation)
                with contextlib.suppress(TimeoutError):
                    # Those of other processes end unheard.
                    await asyncio.wait_for(running.changed.wait(), _LOOK if asked.reserved else None)
            running.add(asked.whose.shares, asked.most)
            self._count(asked.whose)
        permit = CallPermit(self, asked)
        _OUTER.set(permit)
        return permit

    async def _forbids(self, asked: CallRequest) -> ReachedLimit | HeldCeiling | None:
        """Return the limit that forbids a call, or the ceiling that calls under way may reach."""
        situation = asked.situation

        def decide(used: Sequence[Sum], under_way: Sequence[Sum]) -> ReachedLimit | HeldCeiling | None:
            reached = check(asked.limits, self._counted(situation, asked.whose, used))
            return reached or _near(situation.bounds, used, under_way)

        shares = [bound.share for bound in situation.bounds]
        if asked.reserved is not None:
            return await self._store.reserve(asked.reserved, shares, decide)
        return decide(await self._used(situation), [self.running.of(share) for share in shares])

    async def renew(self, reserved: Reservation) -> None:
        """Keep for others to see what a call may cost, while it runs."""
        while True:
            await asyncio.sleep(self._store.lease_ms / 3000)
            with contextlib.suppress(StoreError):
                await self._store.renew(reserved)

    def tried(self, usage: Usage, failures: int) -> None:
        """Count what came of a call, as `RunningCalls.tried`, and pass it on."""
        if self.running.tried(usage.provider_id, failures):
            self.pass_on(usage, failures)

    async def reached(self, asked: CallRequest) -> ReachedLimit | None:
        """Return the limit that forbids a call as things stand, or None."""
        used = await self._used(asked.situation)
        return check(asked.limits, self._counted(asked.situation, asked.whose, used))

    def paused(self, limits: CallLimits, provider_id: str, cause: str, origin: Origin) -> ReachedLimit | None:
        """Return why a call must wait that no person asked for, since its provider refuses; None when it need not.

        The first one after a pause may be made, and the others wait for what comes of it.
        """
        state, clock = self.running.breakers.get(provider_id), time.monotonic()
        if state is None or origin.is_person:
            return None
        left = pause_left(state, clock)
        if not left:
            self.running.breakers[provider_id] = tried(state, clock)
            return None
        message = (
            f"{provider_id} refused {state.failures} calls in a row, limits.failures allows {limits.failures}; "
            f"what no person asked for waits {max(1, round(left / 60))} minutes"
        )
        advice = "See what is wrong with its key or quota; an answer to a person's prompt ends the wait."
        return ReachedLimit("limits.failures", cause, message, advice)

    def pauses(self) -> dict[str, float]:
        """Return the providers for which what no person asked for waits, with the seconds that are left."""
        clock = time.monotonic()
        found = {name: pause_left(state, clock) for name, state in self.running.breakers.items()}
        return {name: left for name, left in found.items() if left}

    def person_spoke(self, root_id: str) -> None:
        """A person spoke in a tree of sessions: what ran on in it by itself is counted anew."""
        for chain in self.running.roots.pop(root_id, ()):
            self.running.chains.pop(chain, None)

    async def settle(self, usage: Usage | None, asked: CallRequest) -> None:
        """Book a call that has ended, and take it off those under way, whatever comes of the booking."""
        writes: list[Write] = [] if usage is None else [PutUsage(usage)]
        if asked.reserved is not None:
            writes.append(DropReserved(asked.reserved.id))
        try:
            if writes:
                await self._store.commit(writes)
        finally:
            async with self.running.changed:
                self.running.add(asked.whose.shares, asked.most, -1)
                self.running.changed.notify_all()

    def in_a_row(self, limits: CallLimits, whose: CallOwner) -> ReachedLimit | None:
        """Return the limit of calls without a person where a chain has reached it, or None."""
        calls = self.running.chains.get(whose.chain, 0)
        return check(limits, CallSituation(0, calls, cause=whose.cause))

    async def _used(self, situation: CallSituation) -> list[Sum]:
        shares = [bound.share for bound in situation.bounds]
        return await self._store.sums(shares) if shares else []

    def _counted(self, situation: CallSituation, whose: CallOwner, used: Sequence[Sum]) -> CallSituation:
        calls = self.running.chains.get(whose.chain, 0)
        return msgspec.structs.replace(situation, calls=calls, used=used)

    def _count(self, whose: CallOwner) -> None:
        chains, roots = self.running.chains, self.running.roots
        chains[whose.chain] = chains.pop(whose.chain, 0) + 1
        roots.setdefault(whose.root_id, set()).add(whose.chain)
        _forget(chains)
        _forget(roots)


def _near(bounds: Sequence[HeldCeiling], used: Sequence[Sum], under_way: Sequence[Sum]) -> HeldCeiling | None:
    """Return the first ceiling that calls under way may reach."""
    sums = zip(bounds, used, under_way, strict=True)
    return next((bound for bound, *both in sums if must_wait(bound.ceiling, *both)), None)


def _within(near: HeldCeiling, situation: CallSituation) -> ReachedLimit:
    message = f"{near.path} may be reached by the call that this one is made for"
    return ReachedLimit(
        near.path, situation.cause, message, f"Call when that one has ended, or raise {near.path}."
    )


def _forget(known: dict[str, Any]) -> None:
    while len(known) > _CHAINS:
        del known[next(iter(known))]
