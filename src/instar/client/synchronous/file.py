"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.file import File, FileContent, FileNode
from instar.client.connection import Connection
from instar.client.request import Request


class FileCalls:
    """``file``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, *, path: str) -> FileContent:
        """Read a file: its text, or its bytes in base64; of a file that is not there no text."""
        answer: FileContent = self._connection.ask(
            Request("GET", "/file/content", query={"path": path}), FileContent
        )
        return answer

    def status(self) -> list[File]:
        """List the changed files."""
        answer: list[File] = self._connection.ask(Request("GET", "/file/status"), list[File])
        return answer

    def list(self, *, path: str) -> list[FileNode]:
        """List the files and folders in a folder; links are left out."""
        answer: list[FileNode] = self._connection.ask(
            Request("GET", "/file", query={"path": path}), list[FileNode]
        )
        return answer
