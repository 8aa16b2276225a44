"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.session import AnswersBody
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import QuestionAsked


class QuestionCalls:
    """``question``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def reply(self, request_id: str, body: AnswersBody) -> bool:
        """Answer questions."""
        answer: bool = await self._connection.ask(
            Request("POST", "/question/{}/reply", (request_id,), body=body), bool
        )
        return answer

    async def reject(self, request_id: str) -> bool:
        """Say that nobody will answer."""
        answer: bool = await self._connection.ask(Request("POST", "/question/{}/reject", (request_id,)), bool)
        return answer

    async def list(self) -> list[QuestionAsked]:
        """List the questions that wait."""
        answer: list[QuestionAsked] = await self._connection.ask(
            Request("GET", "/question"), list[QuestionAsked]
        )
        return answer
