"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import Connection
from instar.client.request import Request
from instar.client.shapes.hooks import HookStats, RuleRun, RulesInForce


class InstarHooksCalls:
    """``instar.hooks``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rules(self) -> RulesInForce:
        """Name every rule that is armed, with its file and dialect, and what is not, and why."""
        answer: RulesInForce = self._connection.ask(Request("GET", "/instar/hooks"), RulesInForce)
        return answer

    def stats(self, *, days: int | None = None, session: str = "") -> HookStats:
        """Tell of each rule how often it ran, what it decided, how long it took, and what its model cost."""
        answer: HookStats = self._connection.ask(
            Request("GET", "/instar/hooks/stats", query={"days": days, "session": session}), HookStats
        )
        return answer

    def record(self, session_id: str, *, limit: int = 100) -> list[RuleRun]:
        """List what rules did in a session, oldest first: its newest lines."""
        answer: list[RuleRun] = self._connection.ask(
            Request("GET", "/instar/hooks/session/{}", (session_id,), query={"limit": limit}), list[RuleRun]
        )
        return answer
