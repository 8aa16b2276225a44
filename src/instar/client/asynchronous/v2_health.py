"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import Health
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2HealthCalls:
    """``v2.health``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> Health:
        """Say that the server is well."""
        answer: Health = await self._connection.ask(Request("GET", "/api/health"), Health)
        return answer
