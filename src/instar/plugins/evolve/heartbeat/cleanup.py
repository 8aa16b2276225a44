"""What becomes of the heartbeat session after a beat. Pure."""

import msgspec

from instar.plugins.evolve.heartbeat.schedule import Decision, Tally
from instar.plugins.evolve.settings import Cleanup


class CleanupDecision(msgspec.Struct, frozen=True):
    """What to do with the session, and why. `later`: it is busy; ask again after the next beat.

    `new` leaves the session and begins another, `archive` puts it away as well, `compact` summarises it.
    """

    decision: Decision
    why: str = ""


def decide(
    cleanup: Cleanup, count: int | None, tokens: int | None, tally: Tally, *, busy: bool
) -> CleanupDecision:
    """Return what is to be done with the session of `tally`, whose last beat is counted in it.

    `count` (beats) and `tokens` are thresholds; None is none. Each holds on its own: the first one that is reached
    acts. With `none` neither does. A busy session is never cleaned.
    """
    reached = [
        f"{had} {unit} of {limit}"
        for had, limit, unit in ((tally.count, count, "heartbeats"), (tally.tokens, tokens, "tokens"))
        if limit is not None and had >= limit
    ]
    if cleanup == "none" or not tally.session or not reached:
        return CleanupDecision("none")
    why = f"session {tally.session} has had {' and '.join(reached)}"
    return CleanupDecision("later", f"{why}, but is busy") if busy else CleanupDecision(cleanup, why)
