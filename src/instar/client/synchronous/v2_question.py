"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import QuestionAsked


class V2QuestionRequestCalls:
    """``v2.question.request``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[QuestionAsked]]:
        """List the questions of a directory that wait."""
        answer: Located[list[QuestionAsked]] = self._connection.ask(
            Request("GET", "/api/question/request"), Located[list[QuestionAsked]]
        )
        return answer


class V2QuestionCalls:
    """``v2.question``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.request = V2QuestionRequestCalls(connection)
