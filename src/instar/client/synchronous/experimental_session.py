"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.session import GlobalSession
from instar.client.connection import Connection
from instar.client.request import Request


class ExperimentalSessionCalls:
    """``experimental.session``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def background(self, session_id: str) -> bool:
        """Say that no sub-agent was sent to the background: a task's call waits for its answer here."""
        answer: bool = self._connection.ask(
            Request("POST", "/experimental/session/{}/background", (session_id,)), bool
        )
        return answer

    def list(
        self,
        *,
        roots: bool = False,
        start: float | None = None,
        cursor: float | None = None,
        search: str = "",
        limit: float | None = None,
        archived: bool = False,
        directory: str | None = None,
    ) -> list[GlobalSession]:
        """List the sessions of all projects, last updated first; 100 unless `limit` says more."""
        answer: list[GlobalSession] = self._connection.ask(
            Request(
                "GET",
                "/experimental/session",
                query={
                    "roots": roots,
                    "start": start,
                    "cursor": cursor,
                    "search": search,
                    "limit": limit,
                    "archived": archived,
                    "directory": directory,
                },
            ),
            list[GlobalSession],
        )
        return answer
