"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import ProviderV2Info
from instar.api.location import Located
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2ProviderCalls:
    """``v2.provider``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self, provider_id: str) -> Located[ProviderV2Info]:
        """Get a provider that can be called."""
        answer: Located[ProviderV2Info] = await self._connection.ask(
            Request("GET", "/api/provider/{}", (provider_id,)), Located[ProviderV2Info]
        )
        return answer

    async def list(self) -> Located[list[ProviderV2Info]]:
        """List the providers that can be called."""
        answer: Located[list[ProviderV2Info]] = await self._connection.ask(
            Request("GET", "/api/provider"), Located[list[ProviderV2Info]]
        )
        return answer
