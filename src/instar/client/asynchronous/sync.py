"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.event import HistoryEvent, OfSession, ReplayBody, StealBody
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class SyncHistoryCalls:
    """``sync.history``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self, body: dict[str, int]) -> list[HistoryEvent]:
        """List the durable events of all sessions, of a session that the body names those after its number."""
        answer: list[HistoryEvent] = await self._connection.ask(
            Request("POST", "/sync/history", body=body), list[HistoryEvent]
        )
        return answer


class SyncCalls:
    """``sync``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.history = SyncHistoryCalls(connection)

    async def start(self) -> bool:
        """See that a directory's sessions are kept up to date: here they always are."""
        answer: bool = await self._connection.ask(Request("POST", "/sync/start"), bool)
        return answer

    async def replay(self, body: ReplayBody) -> OfSession:
        """Refuse to carry out another server's events."""
        answer: OfSession = await self._connection.ask(Request("POST", "/sync/replay", body=body), OfSession)
        return answer

    async def steal(self, body: StealBody) -> OfSession:
        """Refuse to take a session over from another server."""
        answer: OfSession = await self._connection.ask(Request("POST", "/sync/steal", body=body), OfSession)
        return answer
