"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import LSPStatus
from instar.client.connection import Connection
from instar.client.request import Request


class LspCalls:
    """``lsp``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self) -> list[LSPStatus]:
        """List the language servers: instar starts none."""
        answer: list[LSPStatus] = self._connection.ask(Request("GET", "/lsp"), list[LSPStatus])
        return answer
