"""What model calls cost, and the limits that stop them. Pure: counts in, decisions out.

``limits`` in the configuration::

    "limits": {
      "steps": 40, "calls": 1000, "failures": 3, "turn": {"minutes": 60},
      "session": {"tokens": 2000000, "cost": 5.0}, "day": {"cost": 20.0},
      "heartbeat": {"tokens": 200000}, "cause": {"title": {"cost": 0.5}}
    }

``tokens`` are all tokens in and out, ``cost`` US dollars; ``docs/models.md`` says what each of them counts. Of
ceilings, what is left out has no limit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from instar.message import Origin, Tokens
from instar.provider.protocol import Model, ModelCost
from instar.store import Share, Sum

RetryMode = Literal["standard", "persistent"]
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


class Limits(msgspec.Struct, frozen=True):
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
    def of(cls, block: Mapping[str, Any], max_iterations: int = 40) -> "Limits":
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


class Overrides:
    """What was set in one session over what the settings say; in memory only. None stands for what the settings say.

    A step reads it anew, so that a change holds from the next step of the running turn on. Whoever sets something
    checks it first. `iterations`: the model calls of a turn, from 1. `window`: a conversation is summarised as if the
    model's window had no more tokens than this. `retry_mode`: whether a provider that fails is tried a number of
    times, or until the turn is ended. `ceiling`: no more than this may be used. `off`: tools that need one of these
    permissions are not offered.
    """

    def __init__(self) -> None:
        self.iterations: int | None = None
        self.window: int | None = None
        self.retry_mode: RetryMode | None = None
        self.ceiling = Ceiling()
        self.off: set[str] = set()
        self.model: str | None = None
        self._instead: str | None = None

    def set_model(self, model: str | None, instead: str | None) -> None:
        """Let `model` answer messages that ask for the model `instead`; None: for what the next one asks for.

        Both are ``provider/model``.
        """
        self.model, self._instead = model, instead

    def model_for(self, asked: str) -> str:
        """Return the model that answers a message which asks for `asked`.

        A message that asks for another one than those before it is a person's choice, made later: what was set
        is forgotten.
        """
        if self.model is None:
            return asked
        if self._instead is None:
            self._instead = asked
        elif self._instead != asked:
            self.set_model(None, None)
        return self.model or asked

    def limits(self, limits: Limits) -> Limits:
        """Return the limits that hold in the session, of those that hold everywhere."""
        if self.iterations is None and self.ceiling == Ceiling():
            return limits
        return msgspec.structs.replace(
            limits,
            steps=self.iterations or limits.steps,
            session=tighter(limits.session, self.ceiling),
            own=self.ceiling,
        )


def tighter(one: Ceiling, other: Ceiling) -> Ceiling:
    """Return the ceiling that both hold."""
    tokens = [given for given in (one.tokens, other.tokens) if given is not None]
    cost = [given for given in (one.cost, other.cost) if given is not None]
    return Ceiling(min(tokens, default=None), min(cost, default=None))


def bounds(limits: Limits, whose: CallOwner, now: int) -> list[HeldCeiling]:
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


def check(limits: Limits, situation: CallSituation) -> ReachedLimit | None:
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
