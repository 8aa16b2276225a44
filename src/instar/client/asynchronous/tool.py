"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import ToolListItem
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class ToolCalls:
    """``tool``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def ids(self) -> list[str]:
        """List the names of all tools."""
        answer: list[str] = await self._connection.ask(Request("GET", "/experimental/tool/ids"), list[str])
        return answer

    async def list(self, *, provider: str, model: str) -> list[ToolListItem]:
        """List the tools as a model is told of them."""
        answer: list[ToolListItem] = await self._connection.ask(
            Request("GET", "/experimental/tool", query={"provider": provider, "model": model}),
            list[ToolListItem],
        )
        return answer
