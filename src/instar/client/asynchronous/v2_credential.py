"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import LabelBody
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2CredentialCalls:
    """``v2.credential``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def update(self, credential_id: str, body: LabelBody) -> None:
        """Name a login that is kept; nothing happens where there is none."""
        await self._connection.ask(Request("PATCH", "/api/credential/{}", (credential_id,), body=body), None)

    async def remove(self, credential_id: str) -> None:
        """Forget a login that is kept; nothing happens where there is none."""
        await self._connection.ask(Request("DELETE", "/api/credential/{}", (credential_id,)), None)
