"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.catalog import AgentV2Info
from instar.api.location import Located
from instar.client.connection import Connection
from instar.client.request import Request


class V2AgentCalls:
    """``v2.agent``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[AgentV2Info]]:
        """List the agents."""
        answer: Located[list[AgentV2Info]] = self._connection.ask(
            Request("GET", "/api/agent"), Located[list[AgentV2Info]]
        )
        return answer
