"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.session import PermissionBody, ResponseBody
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import PermissionAsked


class PermissionCalls:
    """``permission``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reply(self, request_id: str, body: PermissionBody) -> bool:
        """Answer a permission."""
        answer: bool = self._connection.ask(
            Request("POST", "/permission/{}/reply", (request_id,), body=body), bool
        )
        return answer

    def respond(self, session_id: str, permission_id: str, body: ResponseBody) -> bool:
        """Answer a permission as older clients of opencode do."""
        answer: bool = self._connection.ask(
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

    def list(self) -> list[PermissionAsked]:
        """List the tool calls that wait for a permission."""
        answer: list[PermissionAsked] = self._connection.ask(
            Request("GET", "/permission"), list[PermissionAsked]
        )
        return answer
