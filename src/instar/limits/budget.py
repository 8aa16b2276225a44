"""What may still be spent: the calls under way, those made in a row, and the providers that refuse.

Kept by process and database, so that sessions of several instances count together; what was spent stands in the
store. The three are forgotten when the process ends. Two processes on one database may each go one call over.
"""

import asyncio
import time
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from instar.limits.usage import (
    CallOwner,
    CallSituation,
    HeldCeiling,
    Limits,
    ReachedLimit,
    add,
    check,
    must_wait,
)
from instar.message import Origin, Tokens
from instar.provider.protocol import ProviderError
from instar.store import PutUsage, Share, Store, Sum, Usage

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


_KNOWN: WeakValueDictionary[tuple[Path, int], RunningCalls] = WeakValueDictionary()


class CallRequest(msgspec.Struct, frozen=True):
    """A model call that asks the limits: its limits, its place, its origin and its largest possible cost.

    `usage` is what will be booked, but for its figures.
    """

    limits: Limits
    situation: CallSituation
    whose: CallOwner
    usage: Usage
    most: Sum


class CallPermit:
    """The right to make one model call. It is given back by `close`, once what the call used is booked."""

    def __init__(self, budget: "Budget", asked: CallRequest) -> None:
        self._budget = budget
        self._asked = asked
        self._usage: Usage | None = None
        self._open = True

    def used(self, tokens: Tokens, cost: float | None, message_id: str | None, now: int) -> None:
        """The provider said what the call used so far; it is booked by `close` also if the call fails."""
        self._usage = msgspec.structs.replace(
            self._asked.usage, tokens=tokens, cost=cost, message_id=message_id, created=now
        )

    async def close(self) -> None:
        """Book what the provider reported and admit the next call. Does nothing the second time."""
        if self._open:
            self._open = False
            # Not cut short by an abort: what was spent is booked before anybody asks what is left.
            await asyncio.shield(self._budget.settle(self._usage, self._asked))

    def keeps(self, budget: "Budget") -> bool:
        """Whether calls of a budget may have to wait for this one."""
        return self._open and self._budget.counts_with(budget)

    def answered(self) -> None:
        """The call was answered."""
        self._budget.answered(self._asked.usage.provider_id)

    def failed(self, error: ProviderError) -> None:
        """The call failed; a key that is refused and a storm of refusals count for the breaker."""
        if error.kind == "auth" or error.status == 429:
            self._budget.failed(self._asked.usage.provider_id, self._asked.limits.failures)


_OUTER: ContextVar[CallPermit | None] = ContextVar("outer", default=None)
"""The call that was last begun here: what a hook on its answer does runs inside of it."""


class Budget:
    """The spending of one database, as an instance sees it."""

    def __init__(self, store: Store, database: Path) -> None:
        self._store = store
        place = (database, id(asyncio.get_running_loop()))
        self._shared = _KNOWN.setdefault(place, RunningCalls())

    async def ask(self, asked: CallRequest) -> CallPermit | ReachedLimit:
        """Return the right to make a call, or the limit that forbids it.

        Waits while calls under way might reach a limit together. Law: of all that run at once, at most one call
        goes over a limit. A call that a hook makes on the answer of another one does not wait for that: it is refused.
        """
        shared, situation = self._shared, asked.situation
        async with shared.changed:
            while True:
                used = await self._used(situation)
                reached = check(asked.limits, self._counted(situation, asked.whose, used))
                if reached is not None:
                    return reached
                near = self._near(situation.bounds, used)
                if near is None:
                    break
                if (outer := _OUTER.get()) is not None and outer.keeps(self):
                    return _within(near, situation)
                await shared.changed.wait()
            shared.add(asked.whose.shares, asked.most)
            self._count(asked.whose)
        permit = CallPermit(self, asked)
        _OUTER.set(permit)
        return permit

    async def reached(self, asked: CallRequest) -> ReachedLimit | None:
        """Return the limit that forbids a call as things stand, or None."""
        used = await self._used(asked.situation)
        return check(asked.limits, self._counted(asked.situation, asked.whose, used))

    def paused(self, limits: Limits, provider_id: str, cause: str, origin: Origin) -> ReachedLimit | None:
        """Return why a call must wait that no person asked for, since its provider refuses; None when it need not.

        The first one after a pause may be made, and the others wait for what comes of it.
        """
        state, clock = self._shared.breakers.get(provider_id), time.monotonic()
        if state is None or origin.is_person:
            return None
        left = pause_left(state, clock)
        if not left:
            self._shared.breakers[provider_id] = tried(state, clock)
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
        found = {name: pause_left(state, clock) for name, state in self._shared.breakers.items()}
        return {name: left for name, left in found.items() if left}

    def person_spoke(self, root_id: str) -> None:
        """A person spoke in a tree of sessions: what ran on in it by itself is counted anew."""
        for chain in self._shared.roots.pop(root_id, ()):
            self._shared.chains.pop(chain, None)

    async def settle(self, usage: Usage | None, asked: CallRequest) -> None:
        """Book a call that has ended, and take it off those under way, whatever comes of the booking."""
        try:
            if usage is not None:
                await self._store.commit([PutUsage(usage)])
        finally:
            async with self._shared.changed:
                self._shared.add(asked.whose.shares, asked.most, -1)
                self._shared.changed.notify_all()

    def answered(self, provider_id: str) -> None:
        """A provider answered."""
        self._shared.breakers.pop(provider_id, None)

    def failed(self, provider_id: str, most: int) -> None:
        """A provider refused a key, or refused for too many calls."""
        state = self._shared.breakers.get(provider_id, Breaker())
        self._shared.breakers[provider_id] = count_failure(state, time.monotonic(), most)

    def _near(self, bounds: Sequence[HeldCeiling], used: Sequence[Sum]) -> HeldCeiling | None:
        """Return the first ceiling that calls under way may reach."""
        waits = (
            bound
            for bound, sum_ in zip(bounds, used, strict=True)
            if must_wait(bound.ceiling, sum_, self._shared.of(bound.share))
        )
        return next(waits, None)

    def counts_with(self, other: "Budget") -> bool:
        """Whether calls of both wait for one another."""
        return self._shared is other._shared

    def in_a_row(self, limits: Limits, whose: CallOwner) -> ReachedLimit | None:
        """Return the limit of calls without a person where a chain has reached it, or None."""
        calls = self._shared.chains.get(whose.chain, 0)
        return check(limits, CallSituation(0, calls, cause=whose.cause))

    async def _used(self, situation: CallSituation) -> list[Sum]:
        shares = [bound.share for bound in situation.bounds]
        return await self._store.sums(shares) if shares else []

    def _counted(self, situation: CallSituation, whose: CallOwner, used: Sequence[Sum]) -> CallSituation:
        calls = self._shared.chains.get(whose.chain, 0)
        return msgspec.structs.replace(situation, calls=calls, used=used)

    def _count(self, whose: CallOwner) -> None:
        chains, roots = self._shared.chains, self._shared.roots
        chains[whose.chain] = chains.pop(whose.chain, 0) + 1
        roots.setdefault(whose.root_id, set()).add(whose.chain)
        _forget(chains)
        _forget(roots)


def _within(near: HeldCeiling, situation: CallSituation) -> ReachedLimit:
    message = f"{near.path} may be reached by the call that this one is made for"
    return ReachedLimit(
        near.path, situation.cause, message, f"Call when that one has ended, or raise {near.path}."
    )


def _forget(known: dict[str, Any]) -> None:
    while len(known) > _CHAINS:
        del known[next(iter(known))]
