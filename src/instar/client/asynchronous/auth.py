"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.provider import ApiAuth, OAuth, WellKnownAuth
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class AuthCalls:
    """``auth``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def remove(self, provider_id: str) -> bool:
        """Forget a login; nothing happens where none is kept."""
        answer: bool = await self._connection.ask(Request("DELETE", "/auth/{}", (provider_id,)), bool)
        return answer

    async def set(self, provider_id: str, body: ApiAuth | OAuth | WellKnownAuth) -> bool:
        """Keep a login; instances that are open have it once they were disposed."""
        answer: bool = await self._connection.ask(Request("PUT", "/auth/{}", (provider_id,), body=body), bool)
        return answer
