"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.location import Located
from instar.api.pty import PtyCreateBody, PtyTicketConnectToken, PtyUpdateBody
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import Pty


class V2PtyCalls:
    """``v2.pty``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, body: PtyCreateBody | None = None) -> Located[Pty]:
        """Open a terminal and start a program in it."""
        answer: Located[Pty] = self._connection.ask(Request("POST", "/api/pty", body=body), Located[Pty])
        return answer

    def get(self, pty_id: str) -> Located[Pty]:
        """Get a terminal."""
        answer: Located[Pty] = self._connection.ask(Request("GET", "/api/pty/{}", (pty_id,)), Located[Pty])
        return answer

    def update(self, pty_id: str, body: PtyUpdateBody | None = None) -> Located[Pty]:
        """Set a terminal's title and size."""
        answer: Located[Pty] = self._connection.ask(
            Request("PUT", "/api/pty/{}", (pty_id,), body=body), Located[Pty]
        )
        return answer

    def remove(self, pty_id: str) -> None:
        """End a terminal's program and forget the terminal."""
        self._connection.ask(Request("DELETE", "/api/pty/{}", (pty_id,)), None)

    def connect_token(self, pty_id: str) -> Located[PtyTicketConnectToken]:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        answer: Located[PtyTicketConnectToken] = self._connection.ask(
            Request("POST", "/api/pty/{}/connect-token", (pty_id,)), Located[PtyTicketConnectToken]
        )
        return answer

    def list(self) -> Located[list[Pty]]:
        """List the terminals, oldest first."""
        answer: Located[list[Pty]] = self._connection.ask(Request("GET", "/api/pty"), Located[list[Pty]])
        return answer
