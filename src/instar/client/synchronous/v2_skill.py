"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import SkillV2Info
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2SkillCalls:
    """``v2.skill``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[SkillV2Info]]:
        """List the skills."""
        answer: Located[list[SkillV2Info]] = self._connection.ask(
            Request("GET", "/api/skill"), Located[list[SkillV2Info]]
        )
        return answer
