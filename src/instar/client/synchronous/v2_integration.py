"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import (
    CodeBody,
    IntegrationAttempt,
    IntegrationAttemptStatus,
    IntegrationInfo,
    KeyBody,
    OAuthBody,
)
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2IntegrationAttemptCalls:
    """``v2.integration.attempt``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self, attempt_id: str) -> Located[IntegrationAttemptStatus]:
        """Tell how a login stands."""
        answer: Located[IntegrationAttemptStatus] = self._connection.ask(
            Request("GET", "/api/integration/attempt/{}", (attempt_id,)), Located[IntegrationAttemptStatus]
        )
        return answer

    def complete(self, attempt_id: str, body: CodeBody) -> None:
        """End a login with the code that the person was shown."""
        self._connection.ask(
            Request("POST", "/api/integration/attempt/{}/complete", (attempt_id,), body=body), None
        )

    def cancel(self, attempt_id: str) -> None:
        """Forget a login that was begun; nothing happens where there is none."""
        self._connection.ask(Request("DELETE", "/api/integration/attempt/{}", (attempt_id,)), None)


class V2IntegrationConnectCalls:
    """``v2.integration.connect``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def key(self, integration_id: str, body: KeyBody) -> None:
        """Keep a key."""
        self._connection.ask(
            Request("POST", "/api/integration/{}/connect/key", (integration_id,), body=body), None
        )

    def oauth(self, integration_id: str, body: OAuthBody) -> Located[IntegrationAttempt]:
        """Begin a login by what a plugin offers."""
        answer: Located[IntegrationAttempt] = self._connection.ask(
            Request("POST", "/api/integration/{}/connect/oauth", (integration_id,), body=body),
            Located[IntegrationAttempt],
        )
        return answer


class V2IntegrationCalls:
    """``v2.integration``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.attempt = V2IntegrationAttemptCalls(connection)
        self.connect = V2IntegrationConnectCalls(connection)

    def get(self, integration_id: str) -> Located[IntegrationInfo]:
        """Get one of what a person may connect."""
        answer: Located[IntegrationInfo] = self._connection.ask(
            Request("GET", "/api/integration/{}", (integration_id,)), Located[IntegrationInfo]
        )
        return answer

    def list(self) -> Located[list[IntegrationInfo]]:
        """List what a person may connect, and what of it is connected."""
        answer: Located[list[IntegrationInfo]] = self._connection.ask(
            Request("GET", "/api/integration"), Located[list[IntegrationInfo]]
        )
        return answer
