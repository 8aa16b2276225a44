"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.message import KnownPart


class PartCalls:
    """``part``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def delete(self, session_id: str, message_id: str, part_id: str) -> bool:
        """Delete a part of a message. While a turn runs it is refused (400)."""
        answer: bool = await self._connection.ask(
            Request(
                "DELETE",
                "/session/{}/message/{}/part/{}",
                (
                    session_id,
                    message_id,
                    part_id,
                ),
            ),
            bool,
        )
        return answer

    async def update(self, session_id: str, message_id: str, part_id: str, body: KnownPart) -> KnownPart:
        """Change a part of a message; its type stays. While a turn runs it is refused (400)."""
        answer: KnownPart = await self._connection.ask(
            Request(
                "PATCH",
                "/session/{}/message/{}/part/{}",
                (
                    session_id,
                    message_id,
                    part_id,
                ),
                body=body,
            ),
            KnownPart,
        )
        return answer
