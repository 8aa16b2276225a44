"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import AsyncIterator

from instar.api.stats import LimitsReport, Stats
from instar.client.asynchronous.instar_evolve import InstarEvolveCalls
from instar.client.asynchronous.instar_heartbeat import InstarHeartbeatCalls
from instar.client.asynchronous.instar_hooks import InstarHooksCalls
from instar.client.asynchronous.instar_self import InstarSelfCalls
from instar.client.asynchronous.instar_stop import InstarStopCalls
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Event


class InstarCalls:
    """``instar``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.evolve = InstarEvolveCalls(connection)
        self.heartbeat = InstarHeartbeatCalls(connection)
        self.hooks = InstarHooksCalls(connection)
        self.self = InstarSelfCalls(connection)
        self.stop = InstarStopCalls(connection)

    def event(
        self, *, last_event_id: str | None = None, directory: str | None = None
    ) -> AsyncIterator[Event]:
        """Follow all events, those of instar's own types too; of one directory, if it is named."""
        return self._connection.events(
            Request("GET", "/instar/event", query={"lastEventID": last_event_id, "directory": directory})
        )

    async def stats(
        self,
        *,
        by: str = "",
        days: int | None = None,
        since: str | None = None,
        until: str | None = None,
        session: str = "",
        project: str | None = None,
        tools: bool = False,
    ) -> Stats:
        """Tell what model calls used and cost, as ``instar stats``: all projects', or those that the query chooses."""
        answer: Stats = await self._connection.ask(
            Request(
                "GET",
                "/instar/stats",
                query={
                    "by": by,
                    "days": days,
                    "since": since,
                    "until": until,
                    "session": session,
                    "project": project,
                    "tools": tools,
                },
            ),
            Stats,
        )
        return answer

    async def limits(self, *, session: str | None = None) -> LimitsReport:
        """Tell which limits are set, what was used of them, and what is left."""
        answer: LimitsReport = await self._connection.ask(
            Request("GET", "/instar/limits", query={"session": session}), LimitsReport
        )
        return answer

    async def metrics(self) -> str:
        """Get the server's figures in Prometheus' text format."""
        answer: str = await self._connection.ask(Request("GET", "/instar/metrics"), str)
        return answer
