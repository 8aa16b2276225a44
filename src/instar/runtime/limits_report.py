"""What may be used, what was, and what is left: the limits of an instance as people are shown them.

`instar.limits.budget` says what each of them means; the sums are those by which they are held.
"""

from instar.api.stats import LimitsReport, LimitUsage, Room, Used
from instar.limits.budget import (
    DAY,
    Ceiling,
    HeldCeiling,
    tighter,
)
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.store import Share, Sum


async def limits_report(instance: Instance, live: SessionState | None, now: int) -> LimitsReport:
    """Return the limits at `now` (ms); with `live` also the limit of its session's tree."""
    limits = instance.limits
    bounds = [HeldCeiling("limits.day", limits.day, Share("day", "", now - DAY))]
    bounds += [
        HeldCeiling(f"limits.cause.{name}", ceiling, Share("cause", name, now - DAY))
        for name, ceiling in limits.cause.items()
    ]
    if live is not None:
        held = tighter(limits.session, live.overrides.ceiling)
        bounds.append(
            HeldCeiling("limits.session", held, Share("session", await instance.sessions.root_of(live)))
        )
    sums = await instance.store.sums([bound.share for bound in bounds])
    return LimitsReport(
        steps=limits.steps,
        minutes=limits.minutes,
        calls=limits.calls,
        failures=limits.failures,
        waiting=instance.budget.pauses(),
        heartbeat=_room(limits.heartbeat),
        limits=[_limit(bound, sum_) for bound, sum_ in zip(bounds, sums, strict=True)],
    )


def _limit(bound: HeldCeiling, used: Sum) -> LimitUsage:
    most = bound.ceiling
    left = Room(
        None if most.tokens is None else max(0, most.tokens - used.tokens),
        None if most.cost is None else max(0.0, most.cost - used.cost),
    )
    return LimitUsage(bound.path, _room(most), Used(used.calls, used.tokens, used.cost, used.unpriced), left)


def _room(ceiling: Ceiling) -> Room:
    return Room(ceiling.tokens, ceiling.cost)
