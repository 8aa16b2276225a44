"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.session import PermissionBody, ResponseBody
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import PermissionAsked


class PermissionCalls:
    """``permission``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def reply(self, request_id: str, body: PermissionBody) -> bool:
        """Answer a permission."""
        answer: bool = await self._connection.ask(
            Request("POST", "/permission/{}/reply", (request_id,), body=body), bool
        )
        return answer

    async def respond(self, session_id: str, permission_id: str, body: ResponseBody) -> bool:
        """Answer a permission as older clients of opencode do."""
        answer: bool = await self._connection.ask(
            Request(
                "POST",
                "/session/{}/permissions/{}",
                (
                    session_id,
                    permission_id,
                ),
                body=body,
            ),
            bool,
        )
        return answer

    async def list(self) -> list[PermissionAsked]:
        """List the tool calls that wait for a permission."""
        answer: list[PermissionAsked] = await self._connection.ask(
            Request("GET", "/permission"), list[PermissionAsked]
        )
        return answer
