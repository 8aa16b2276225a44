"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.mcp import McpResource
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class ExperimentalResourceCalls:
    """``experimental.resource``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> dict[str, McpResource]:
        """List what connected servers offer to read, by server and uri."""
        answer: dict[str, McpResource] = await self._connection.ask(
            Request("GET", "/experimental/resource"), dict[str, McpResource]
        )
        return answer
