"""What may be used, what was, and what is left: the limits of an instance as people are shown them.

`instar.usage` says what each of them means; the sums are those by which they are held.
"""

from instar.account import root_of
from instar.api.stats import Limit, LimitsReport, Room, Used
from instar.instance import Instance
from instar.live import Live
from instar.store import Share, Sum
from instar.tuning import tighter
from instar.usage import DAY, Bound, Ceiling


async def told(instance: Instance, live: Live | None, now: int) -> LimitsReport:
    """Return the limits as they stand at `now` (ms); with `live` that of its session's tree too."""
    limits = instance.limits
    bounds = [Bound("limits.day", limits.day, Share("day", "", now - DAY))]
    bounds += [
        Bound(f"limits.cause.{name}", ceiling, Share("cause", name, now - DAY))
        for name, ceiling in limits.cause.items()
    ]
    if live is not None:
        held = tighter(limits.session, live.tuning.ceiling)
        bounds.append(Bound("limits.session", held, Share("session", await root_of(instance, live))))
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


def _limit(bound: Bound, used: Sum) -> Limit:
    most = bound.ceiling
    left = Room(
        None if most.tokens is None else max(0, most.tokens - used.tokens),
        None if most.cost is None else max(0.0, most.cost - used.cost),
    )
    return Limit(bound.path, _room(most), Used(used.calls, used.tokens, used.cost, used.unpriced), left)


def _room(ceiling: Ceiling) -> Room:
    return Room(ceiling.tokens, ceiling.cost)
