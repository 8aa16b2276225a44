"""A session that goes on in another folder of its project, alone or with the changed files."""

from pathlib import Path
from typing import Literal

from instar import vcs
from instar.git import GitError, common_folder
from instar.inprocess.held import Held
from instar.live import Live
from instar.message import Session
from instar.plugin import Invalid
from instar.process import ProcessError
from instar.project import Project, discover, is_folder
from instar.wire import copy

Changes = Literal["stay", "copy", "move"]


class Moves(Held):
    """What moves sessions."""

    async def move(self, session_id: str, destination: Path, changes: Changes = "stay") -> Session:
        """Let a session go on in another folder of its project, in which a workspace may be.

        The changes of the worktree stay, or are put onto the other one, whole or not at all; ``move`` takes them
        back here afterwards. Raises `NotFound`, `Busy` while a turn runs, `Invalid` for a folder that is none or
        of another project, and `vcs.ApplyError` for changes that do not fit: then nothing has moved.
        """
        async with self._held(session_id) as live:
            with self._changed(live, "cannot be moved"):
                await self._move(live, destination, changes)
            return copy(live.session)

    async def _move(self, live: Live, destination: Path, changes: Changes) -> None:
        processes = self._instance.processes
        # The session may have come here from elsewhere: its own folder counts, not the instance's.
        here = await discover(Path(live.session.directory), processes)
        there = await discover(_folder(destination), processes)
        if not _same(here, there):
            raise Invalid("Destination directory belongs to another project")
        if changes != "stay" and here.worktree != there.worktree:
            await self._bring(here, there, changes)
        home = [info for info in await self._workspaces.list() if info.directory == str(there.worktree)]
        live.session.workspace_id = home[0].id if home else None
        live.session.directory = str(there.directory)
        live.session.path = there.below(there.directory)
        await self._sessions.update(live)

    async def _bring(self, here: Project, there: Project, changes: Changes) -> None:
        processes = self._instance.processes
        try:
            source, target = await vcs.repository(processes, here), await vcs.repository(processes, there)
            patch = await vcs.raw(source, source.worktree) if source is not None else b""
        except (GitError, ProcessError) as error:
            raise Invalid(str(error)) from error
        if source is None or not patch:
            return
        if changes == "move":
            await vcs.check(source, patch, backwards=True)
        await vcs.apply(target, patch)
        if changes == "move":
            await vcs.take_back(source, patch)


def _folder(destination: Path) -> Path:
    if not is_folder(str(destination)):
        raise Invalid(f"there is no folder {destination}; name one by its absolute path")
    return destination


def _same(here: Project, there: Project) -> bool:
    """Whether two folders are of one project: worktrees of one repository, or both in none."""
    if here.vcs is None or there.vcs is None:
        return here.vcs == there.vcs
    return common_folder(here.worktree) == common_folder(there.worktree)
