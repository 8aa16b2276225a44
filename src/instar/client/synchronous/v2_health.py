"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import Health
from instar.client.connection import Connection
from instar.client.request import Request


class V2HealthCalls:
    """``v2.health``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Health:
        """Say that the server is well."""
        answer: Health = self._connection.ask(Request("GET", "/api/health"), Health)
        return answer
