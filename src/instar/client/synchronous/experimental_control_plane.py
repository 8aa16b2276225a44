"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.project import MoveBody
from instar.client.connection import Connection
from instar.client.request import Request


class ExperimentalControlPlaneCalls:
    """``experimental.control_plane``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def move_session(self, body: MoveBody) -> None:
        """Let a session go on in another folder of its project; with `moveChanges` the changed files go along."""
        self._connection.ask(Request("POST", "/experimental/control-plane/move-session", body=body), None)
