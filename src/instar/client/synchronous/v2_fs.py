"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Literal

from instar.api.file import FileSystemEntry
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2FsCalls:
    """``v2.fs``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(
        self, *, query: str, type: Literal["file", "directory"] | None = None, limit: int | None = None
    ) -> Located[list[FileSystemEntry]]:
        """Find files and folders whose path holds these letters in this order, best first."""
        answer: Located[list[FileSystemEntry]] = self._connection.ask(
            Request("GET", "/api/fs/find", query={"query": query, "type": type, "limit": limit}),
            Located[list[FileSystemEntry]],
        )
        return answer

    def read(self, path: str) -> str:
        """Read a file's bytes."""
        answer: str = self._connection.ask(Request("GET", "/api/fs/read/{}", (path,)), str)
        return answer

    def list(self, *, path: str = "") -> Located[list[FileSystemEntry]]:
        """List the files and folders in a folder; links are left out."""
        answer: Located[list[FileSystemEntry]] = self._connection.ask(
            Request("GET", "/api/fs/list", query={"path": path}), Located[list[FileSystemEntry]]
        )
        return answer
