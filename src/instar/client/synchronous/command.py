"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import Command
from instar.client.connection import Connection
from instar.client.request import Request


class CommandCalls:
    """``command``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> list[Command]:
        """List the commands: those of the settings, the prompts of MCP servers, and the skills."""
        answer: list[Command] = self._connection.ask(Request("GET", "/command"), list[Command])
        return answer
