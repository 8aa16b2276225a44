"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import AsyncConnection
from instar.client.request import Request


class InstanceCalls:
    """``instance``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def dispose(self) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with the settings of then."""
        answer: bool = await self._connection.ask(Request("POST", "/instance/dispose"), bool)
        return answer
