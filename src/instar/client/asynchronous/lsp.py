"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import LSPStatus
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class LspCalls:
    """``lsp``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def status(self) -> list[LSPStatus]:
        """List the language servers: instar starts none."""
        answer: list[LSPStatus] = await self._connection.ask(Request("GET", "/lsp"), list[LSPStatus])
        return answer
