"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.instance import ExperimentalCapabilities
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class ExperimentalCapabilitiesCalls:
    """``experimental.capabilities``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> ExperimentalCapabilities:
        """Tell which of opencode's experiments are on: none."""
        answer: ExperimentalCapabilities = await self._connection.ask(
            Request("GET", "/experimental/capabilities"), ExperimentalCapabilities
        )
        return answer
