"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import CommandV2Info
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2CommandCalls:
    """``v2.command``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[CommandV2Info]]:
        """List the commands of the settings."""
        answer: Located[list[CommandV2Info]] = self._connection.ask(
            Request("GET", "/api/command"), Located[list[CommandV2Info]]
        )
        return answer
