"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import Connection
from instar.client.request import Request


class InstanceCalls:
    """``instance``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def dispose(self) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with the settings of then."""
        answer: bool = self._connection.ask(Request("POST", "/instance/dispose"), bool)
        return answer
