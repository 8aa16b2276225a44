"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.event import HistoryEvent, OfSession, ReplayBody, StealBody
from instar.client.connection import Connection
from instar.client.request import Request


class SyncHistoryCalls:
    """``sync.history``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, body: dict[str, int]) -> list[HistoryEvent]:
        """List the durable events of all sessions, of a session that the body names those after its number."""
        answer: list[HistoryEvent] = self._connection.ask(
            Request("POST", "/sync/history", body=body), list[HistoryEvent]
        )
        return answer


class SyncCalls:
    """``sync``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.history = SyncHistoryCalls(connection)

    def start(self) -> bool:
        """See that a directory's sessions are kept up to date: here they always are."""
        answer: bool = self._connection.ask(Request("POST", "/sync/start"), bool)
        return answer

    def replay(self, body: ReplayBody) -> OfSession:
        """Refuse to carry out another server's events."""
        answer: OfSession = self._connection.ask(Request("POST", "/sync/replay", body=body), OfSession)
        return answer

    def steal(self, body: StealBody) -> OfSession:
        """Refuse to take a session over from another server."""
        answer: OfSession = self._connection.ask(Request("POST", "/sync/steal", body=body), OfSession)
        return answer
