"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.location import LocationInfo
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2LocationCalls:
    """``v2.location``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> LocationInfo:
        """Get the location that a request is about: its directory and its project."""
        answer: LocationInfo = await self._connection.ask(Request("GET", "/api/location"), LocationInfo)
        return answer
