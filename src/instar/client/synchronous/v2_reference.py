"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.location import Located, ReferenceInfo
from instar.client.connection import Connection
from instar.client.request import Request


class V2ReferenceCalls:
    """``v2.reference``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Located[list[ReferenceInfo]]:
        """List the references. Always empty: instar has none."""
        answer: Located[list[ReferenceInfo]] = self._connection.ask(
            Request("GET", "/api/reference"), Located[list[ReferenceInfo]]
        )
        return answer
