"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.config import Config
from instar.api.provider import ConfigProviders
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class ConfigCalls:
    """``config``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> Config:
        """Get a directory's merged settings, in opencode's form."""
        answer: Config = await self._connection.ask(Request("GET", "/config"), Config)
        return answer

    async def update(self, body: Config) -> Config:
        """Put settings into the directory's file, and end its instance, so that the next request has them."""
        answer: Config = await self._connection.ask(Request("PATCH", "/config", body=body), Config)
        return answer

    async def providers(self) -> ConfigProviders:
        """List the providers that can be called, with their models and the one to begin with."""
        answer: ConfigProviders = await self._connection.ask(
            Request("GET", "/config/providers"), ConfigProviders
        )
        return answer
