"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.provider import ApiAuth, OAuth, WellKnownAuth
from instar.client.connection import Connection
from instar.client.request import Request


class AuthCalls:
    """``auth``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def remove(self, provider_id: str) -> bool:
        """Forget a login; nothing happens where none is kept."""
        answer: bool = self._connection.ask(Request("DELETE", "/auth/{}", (provider_id,)), bool)
        return answer

    def set(self, provider_id: str, body: ApiAuth | OAuth | WellKnownAuth) -> bool:
        """Keep a login; instances that are open have it once they were disposed."""
        answer: bool = self._connection.ask(Request("PUT", "/auth/{}", (provider_id,), body=body), bool)
        return answer
