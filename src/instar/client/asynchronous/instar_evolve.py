"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.client.shapes.evolve import (
    EvolveStatus,
    Listing,
    Made,
    PendingEntry,
    Pin,
    PinBody,
    ReasonBody,
    Rejected,
    RollbackBody,
    Shown,
    Timeline,
)


class InstarEvolveCalls:
    """``instar.evolve``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def status(self) -> EvolveStatus:
        """Tell how the workspace stands: scripts, history, what is on probation or waits, what is wrong."""
        answer: EvolveStatus = await self._connection.ask(Request("GET", "/instar/evolve"), EvolveStatus)
        return answer

    async def log(self, *, limit: int = 20, offset: int = 0, session: str = "", file: str = "") -> Timeline:
        """List changes, refusals and orders, newest first."""
        answer: Timeline = await self._connection.ask(
            Request(
                "GET",
                "/instar/evolve/log",
                query={"limit": limit, "offset": offset, "session": session, "file": file},
            ),
            Timeline,
        )
        return answer

    async def show(self, ref: str) -> Shown:
        """Show one change: its cause, what the gate said, and its diff."""
        answer: Shown = await self._connection.ask(Request("GET", "/instar/evolve/log/{}", (ref,)), Shown)
        return answer

    async def pins(self) -> list[Pin]:
        """List the files that the agent may not change."""
        answer: list[Pin] = await self._connection.ask(Request("GET", "/instar/evolve/pin"), list[Pin])
        return answer

    async def candidates(self, *, all: bool = False) -> Listing:
        """List the changes that wait for a person, since they would reach more, with their diffs and reasons."""
        answer: Listing = await self._connection.ask(
            Request("GET", "/instar/evolve/candidate", query={"all": all}), Listing
        )
        return answer

    async def candidate(self, candidate_id: str) -> PendingEntry:
        """Show a change that waits: its diff, what it would reach, its test's output, its replay."""
        answer: PendingEntry = await self._connection.ask(
            Request("GET", "/instar/evolve/candidate/{}", (candidate_id,)), PendingEntry
        )
        return answer

    async def rollback(self, body: RollbackBody | None = None) -> Made:
        """Take a change back, by a new commit."""
        answer: Made = await self._connection.ask(Request("POST", "/instar/evolve/rollback", body=body), Made)
        return answer

    async def pin(self, body: PinBody) -> Pin:
        """Keep the agent from changing a file, or what is in it if it is a folder."""
        answer: Pin = await self._connection.ask(Request("POST", "/instar/evolve/pin", body=body), Pin)
        return answer

    async def unpin(self, *, file: str) -> Pin:
        """Let the agent change a file again."""
        answer: Pin = await self._connection.ask(
            Request("DELETE", "/instar/evolve/pin", query={"file": file}), Pin
        )
        return answer

    async def approve(self, candidate_id: str) -> Made:
        """Let a change reach what it asks for, and install it; it is tried once more before."""
        answer: Made = await self._connection.ask(
            Request("POST", "/instar/evolve/candidate/{}/approve", (candidate_id,)), Made
        )
        return answer

    async def reject(self, candidate_id: str, body: ReasonBody | None = None) -> Rejected:
        """Refuse a change for good: just this one is not asked about again."""
        answer: Rejected = await self._connection.ask(
            Request("POST", "/instar/evolve/candidate/{}/reject", (candidate_id,), body=body), Rejected
        )
        return answer
