"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.stats import Resumed, StopBody, StopReport, StopsReport
from instar.client.connection import Connection
from instar.client.request import Request


class InstarStopCalls:
    """``instar.stop``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def resume(self, body: StopBody | None = None) -> Resumed:
        """Let what is automatic go on in the directory's project, whatever stopped it."""
        answer: Resumed = self._connection.ask(Request("POST", "/instar/stop/resume", body=body), Resumed)
        return answer

    def list(self) -> StopsReport:
        """List the stops that a person made, and whether one keeps what is automatic from beginning here."""
        answer: StopsReport = self._connection.ask(Request("GET", "/instar/stop"), StopsReport)
        return answer

    def all(self, body: StopBody | None = None) -> StopReport:
        """End every turn in the directory's project, in whichever process it runs, as ``instar stop``."""
        answer: StopReport = self._connection.ask(Request("POST", "/instar/stop", body=body), StopReport)
        return answer
