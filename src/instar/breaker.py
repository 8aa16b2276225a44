"""A breaker: after failures in a row, what nobody asked for waits. Pure: a state and a time in, a state out.

A failure is a call that the provider refused for its key (401, 403), or one that it refused as too many until
the retries ran out (429). A person's own calls are always made, and an answer to one ends the pause (issue 7, item 8).
"""

from typing import Final

import msgspec

FIRST: Final = 300.0
"""Seconds of the first pause; each further one in a row is twice as long."""
LONGEST: Final = 6 * 3600.0
"""Seconds of the longest pause."""


class Breaker(msgspec.Struct, frozen=True):
    """Failures in a row, pauses in a row, and until when the last one lasts (seconds of a monotonic clock)."""

    failures: int = 0
    pauses: int = 0
    until: float = 0.0


def failed(state: Breaker, now: float, most: int) -> Breaker:
    """Return the state after one more failure: the one that makes `most`, and each after it, begins a pause."""
    failures = state.failures + 1
    if failures < most:
        return Breaker(failures)
    pauses = state.pauses + 1
    return Breaker(failures, pauses, now + min(FIRST * 2.0 ** min(pauses - 1, 30), LONGEST))


def left(state: Breaker, now: float) -> float:
    """Return the seconds that what nobody asked for still has to wait; 0 when it need not."""
    return max(0.0, state.until - now) if state.pauses else 0.0


def tried(state: Breaker, now: float) -> Breaker:
    """Return the state once a call is made after a pause: the others wait until it is known what came of it."""
    return msgspec.structs.replace(state, until=now + FIRST) if state.pauses else state


def answered() -> Breaker:
    """Return the state after an answer."""
    return Breaker()
