"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.project import Worktree, WorktreeCreateInput, WorktreeRemoveInput, WorktreeResetInput
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class WorktreeCalls:
    """``worktree``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, body: WorktreeCreateInput | None = None) -> Worktree:
        """Make a worktree; the project's start command and the body's run in it once it is answered."""
        answer: Worktree = await self._connection.ask(
            Request("POST", "/experimental/worktree", body=body), Worktree
        )
        return answer

    async def remove(self, body: WorktreeRemoveInput) -> bool:
        """Remove a worktree with its branch and all that is only there; one that is gone is no mistake."""
        answer: bool = await self._connection.ask(
            Request("DELETE", "/experimental/worktree", body=body), bool
        )
        return answer

    async def reset(self, body: WorktreeResetInput) -> bool:
        """Make a worktree as the default branch is; all that was done in it is lost."""
        answer: bool = await self._connection.ask(
            Request("POST", "/experimental/worktree/reset", body=body), bool
        )
        return answer

    async def list(self) -> list[str]:
        """List the worktrees' folders, oldest first."""
        answer: list[str] = await self._connection.ask(Request("GET", "/experimental/worktree"), list[str])
        return answer
