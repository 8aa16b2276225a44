"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.provider import (
    AuthorizeBody,
    CallbackBody,
    ProviderAuthAuthorization,
    ProviderAuthMethod,
    ProviderList,
)
from instar.client.connection import Connection
from instar.client.request import Request


class ProviderOauthCalls:
    """``provider.oauth``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def authorize(self, provider_id: str, body: AuthorizeBody) -> ProviderAuthAuthorization:
        """Begin a login; answers where the person is to go."""
        answer: ProviderAuthAuthorization = self._connection.ask(
            Request("POST", "/provider/{}/oauth/authorize", (provider_id,), body=body),
            ProviderAuthAuthorization,
        )
        return answer

    def callback(self, provider_id: str, body: CallbackBody) -> bool:
        """End the login that was begun last: hand in the code, or wait until the person has logged in."""
        answer: bool = self._connection.ask(
            Request("POST", "/provider/{}/oauth/callback", (provider_id,), body=body), bool
        )
        return answer


class ProviderCalls:
    """``provider``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.oauth = ProviderOauthCalls(connection)

    def auth(self) -> dict[str, list[ProviderAuthMethod]]:
        """List the ways to log in that plugins offer, by provider."""
        answer: dict[str, list[ProviderAuthMethod]] = self._connection.ask(
            Request("GET", "/provider/auth"), dict[str, list[ProviderAuthMethod]]
        )
        return answer

    def list(self) -> ProviderList:
        """List every provider that is known, with its models, and say which can be called."""
        answer: ProviderList = self._connection.ask(Request("GET", "/provider"), ProviderList)
        return answer
