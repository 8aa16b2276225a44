"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Literal

from instar.api.file import Symbol, TextMatch
from instar.client.connection import Connection
from instar.client.request import Request


class FindCalls:
    """``find``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def text(self, *, pattern: str) -> list[TextMatch]:
        """Find the first ten lines that match a regular expression, in the order of the files' names."""
        answer: list[TextMatch] = self._connection.ask(
            Request("GET", "/find", query={"pattern": pattern}), list[TextMatch]
        )
        return answer

    def files(
        self,
        *,
        query: str,
        dirs: Literal["true", "false"] | None = None,
        type: Literal["file", "directory"] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Find files and folders whose path holds these letters in this order, best first."""
        answer: list[str] = self._connection.ask(
            Request("GET", "/find/file", query={"query": query, "dirs": dirs, "type": type, "limit": limit}),
            list[str],
        )
        return answer

    def symbols(self, *, query: str) -> list[Symbol]:
        """Find symbols. Always empty: instar starts no language servers."""
        answer: list[Symbol] = self._connection.ask(
            Request("GET", "/find/symbol", query={"query": query}), list[Symbol]
        )
        return answer
