"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.project import NameBody, Named
from instar.client.connection import Connection
from instar.client.request import Request


class ExperimentalProjectCopyCalls:
    """``experimental.project_copy``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def generate_name(self, project_id: str, body: NameBody) -> Named:
        """Make a name for a copy of the first words of what it is wanted for; no model is asked."""
        answer: Named = self._connection.ask(
            Request("POST", "/experimental/project/{}/copy/generate-name", (project_id,), body=body), Named
        )
        return answer
