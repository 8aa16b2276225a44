"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import ModelV2Info
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2ModelCalls:
    """``v2.model``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[ModelV2Info]]:
        """List the models that can be called."""
        answer: Located[list[ModelV2Info]] = self._connection.ask(
            Request("GET", "/api/model"), Located[list[ModelV2Info]]
        )
        return answer
