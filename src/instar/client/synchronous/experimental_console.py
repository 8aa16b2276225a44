"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.instance import ConsoleOrgs, ConsoleState, SwitchBody
from instar.client.connection import Connection
from instar.client.request import Request


class ExperimentalConsoleCalls:
    """``experimental.console``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> ConsoleState:
        """Tell of the account in opencode's cloud: there is none."""
        answer: ConsoleState = self._connection.ask(Request("GET", "/experimental/console"), ConsoleState)
        return answer

    def list_orgs(self) -> ConsoleOrgs:
        """List the organisations of the account in opencode's cloud: there are none."""
        answer: ConsoleOrgs = self._connection.ask(Request("GET", "/experimental/console/orgs"), ConsoleOrgs)
        return answer

    def switch_org(self, body: SwitchBody) -> bool:
        """Switch to another organisation; false, since there is none."""
        answer: bool = self._connection.ask(Request("POST", "/experimental/console/switch", body=body), bool)
        return answer
