"""instar's own operations on what was used, may be used and fills a window, and what a person stopped."""

import asyncio
from pathlib import Path

import msgspec
from starlette.responses import Response

from instar.api.operation import operation
from instar.api.stats import (
    ContextQuery,
    ContextReport,
    LimitsQuery,
    LimitsReport,
    LimitUsage,
    Resumed,
    Room,
    Stats,
    StatsQuery,
    StopBody,
    StopReport,
    StopsReport,
    Sum,
)
from instar.git.project import is_folder
from instar.limits import statistics, stop
from instar.limits.budget import DAY, Ceiling, HeldCeiling, tighter
from instar.limits.stop import EVERYWHERE, StopFileError, scope_of
from instar.plugin import Invalid
from instar.runtime.context_report import context_report
from instar.server import metrics
from instar.server.call import Call
from instar.session.instance import Instance
from instar.session.state import SessionState, now
from instar.store import Share
from instar.store.statistics import Wanted
from instar.wire.ids import SessionID


class StatsRoutes:
    """What calls used and cost, what is left, and the kill switch."""

    @operation("GET", "/instar/stats", "instar.stats", errors=(404,))
    async def stats(self, instance: Instance, query: StatsQuery) -> Stats:
        """Tell what model calls used and cost, as ``instar stats``: all projects', or those that the query chooses."""
        store, paths = instance.store, instance.paths
        since, until = statistics.period(query.days, query.since, query.until)
        wanted = Wanted(since=since, until=until)
        if query.project is not None:
            wanted = await _of_project(wanted, query.project, instance.directory)
        if query.session:
            wanted = msgspec.structs.replace(wanted, session=await statistics.session(store, query.session))
        by = statistics.words(query.by) or ([] if query.tools else list(statistics.OVERVIEW))
        return await statistics.gather(store, paths, wanted, by, tools=query.tools)

    @operation("GET", "/instar/limits", "instar.limits", errors=(404,))
    async def limits(self, call: Call, query: LimitsQuery) -> LimitsReport:
        """Tell which limits are set, what was used of them, and what is left."""
        if query.session is None:
            return await _limits((await call.runtime()).instance, None, now())
        runtime = await call.of_session(query.session)
        live = await runtime.instance.sessions.open(query.session)
        return await _limits(runtime.instance, live, now())

    @operation("GET", "/instar/session/{sessionID}/context", "instar.context", errors=(404,))
    async def context(self, instance: Instance, session_id: SessionID, query: ContextQuery) -> ContextReport:
        """Tell what fills the window of a session's model: system prompt, tools and messages, each with its parts."""
        return await context_report(instance, session_id, query.model)

    @operation("GET", "/instar/stop", "instar.stop.list")
    async def stops(self, instance: Instance) -> StopsReport:
        """List the stops that a person made, and whether one keeps what is automatic from beginning here."""
        try:
            return stop.stop_report(instance.paths.data, instance.stops)
        except StopFileError as error:
            raise Invalid(str(error)) from None

    # A stop asks for no login: where nobody needs one, whoever can begin a turn may end it.
    @operation("POST", "/instar/stop", "instar.stop.all")
    async def stop(self, instance: Instance, body: StopBody | None = None) -> StopReport:
        """End every turn in the directory's project, in whichever process it runs, as ``instar stop``."""
        paths = instance.paths
        return await stop.stop(paths.data, paths.database, _scope(instance, body))

    @operation("POST", "/instar/stop/resume", "instar.stop.resume", order=True)
    async def resume(self, instance: Instance, body: StopBody | None = None) -> Resumed:
        """Let what is automatic go on in the directory's project, whatever stopped it."""
        scope = _scope(instance, body)
        try:
            await asyncio.to_thread(stop.resume, instance.paths.data, instance.paths.database, scope)
        except StopFileError as error:
            raise Invalid(str(error)) from None
        return Resumed(scope)


class MetricsRoutes:
    """The server's figures for a scraper."""

    @operation("GET", "/instar/metrics", "instar.metrics", scoped=False, media="text/plain")
    async def metrics(self, call: Call, instance: Instance) -> Response:
        """Get the server's figures in Prometheus' text format."""
        instances = call.instances
        # Before it is opened here, for the default directory, nobody may have asked for anything yet.
        await instances.counters.read(instance.store)
        found = metrics.families(instances.counters, instances.opened(), instances.feed.clients)
        return Response("".join(metrics.text(found)), media_type=metrics.FORMAT)


async def _of_project(wanted: Wanted, given: str, directory: Path) -> Wanted:
    if not given:
        return await statistics.in_project(wanted, directory)
    if is_folder(given):
        return await statistics.in_project(wanted, Path(given))
    return msgspec.structs.replace(wanted, project=given)


def _scope(instance: Instance, body: StopBody | None) -> str:
    return EVERYWHERE if body is not None and body.all else scope_of(instance.directory)


async def _limits(instance: Instance, live: SessionState | None, now: int) -> LimitsReport:
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
    return LimitUsage(bound.path, _room(most), used, left)


def _room(ceiling: Ceiling) -> Room:
    return Room(ceiling.tokens, ceiling.cost)
