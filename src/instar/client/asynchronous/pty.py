"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.pty import PtyCreateBody, PtyShell, PtyTicketConnectToken, PtyUpdateBody
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Pty


class PtyCalls:
    """``pty``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def shells(self) -> list[PtyShell]:
        """List the shells of the machine."""
        answer: list[PtyShell] = await self._connection.ask(Request("GET", "/pty/shells"), list[PtyShell])
        return answer

    async def create(self, body: PtyCreateBody | None = None) -> Pty:
        """Open a terminal and start a program in it."""
        answer: Pty = await self._connection.ask(Request("POST", "/pty", body=body), Pty)
        return answer

    async def get(self, pty_id: str) -> Pty:
        """Get a terminal."""
        answer: Pty = await self._connection.ask(Request("GET", "/pty/{}", (pty_id,)), Pty)
        return answer

    async def update(self, pty_id: str, body: PtyUpdateBody | None = None) -> Pty:
        """Set a terminal's title and size."""
        answer: Pty = await self._connection.ask(Request("PUT", "/pty/{}", (pty_id,), body=body), Pty)
        return answer

    async def remove(self, pty_id: str) -> bool:
        """End a terminal's program and forget the terminal."""
        answer: bool = await self._connection.ask(Request("DELETE", "/pty/{}", (pty_id,)), bool)
        return answer

    async def connect_token(self, pty_id: str) -> PtyTicketConnectToken:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        answer: PtyTicketConnectToken = await self._connection.ask(
            Request("POST", "/pty/{}/connect-token", (pty_id,)), PtyTicketConnectToken
        )
        return answer

    async def list(self) -> list[Pty]:
        """List the terminals, oldest first."""
        answer: list[Pty] = await self._connection.ask(Request("GET", "/pty"), list[Pty])
        return answer
