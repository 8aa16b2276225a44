"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import FormatterStatus
from instar.client.connection import Connection
from instar.client.request import Request


class FormatterCalls:
    """``formatter``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self) -> list[FormatterStatus]:
        """List the formatters: instar runs none."""
        answer: list[FormatterStatus] = self._connection.ask(
            Request("GET", "/formatter"), list[FormatterStatus]
        )
        return answer
