"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.file import Path
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class PathCalls:
    """``path``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> Path:
        """Get the folders that matter: the home, instar's own, the repository's, the request's."""
        answer: Path = await self._connection.ask(Request("GET", "/path"), Path)
        return answer
