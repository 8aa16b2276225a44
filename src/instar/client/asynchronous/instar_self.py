"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.client.shapes.self import SelfChange, SelfNode, SelfState


class InstarSelfCalls:
    """``instar.self``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def tree(self, *, path: str = "", session: str | None = None) -> list[SelfNode]:
        """List what the agent can reach of its own runtime, branches before what they hold."""
        answer: list[SelfNode] = await self._connection.ask(
            Request("GET", "/instar/self/tree", query={"path": path, "session": session}), list[SelfNode]
        )
        return answer

    async def sessions(self) -> list[SelfState]:
        """List the sessions in which the tool was called, as they stood last."""
        answer: list[SelfState] = await self._connection.ask(
            Request("GET", "/instar/self/session"), list[SelfState]
        )
        return answer

    async def session(self, session_id: str) -> SelfState:
        """Show what the agent set of its own runtime in a session, as it stands, or stood last."""
        answer: SelfState = await self._connection.ask(
            Request("GET", "/instar/self/session/{}", (session_id,)), SelfState
        )
        return answer

    async def changes(self, session_id: str) -> list[SelfChange]:
        """List the changes that were made in a session, oldest first, the newest ones of many."""
        answer: list[SelfChange] = await self._connection.ask(
            Request("GET", "/instar/self/session/{}/change", (session_id,)), list[SelfChange]
        )
        return answer
