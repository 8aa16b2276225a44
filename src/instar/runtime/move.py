"""Moving a session to another folder of its project, alone or with the changed files."""

from pathlib import Path
from typing import Literal

from instar.git import GitError, common_folder
from instar.git.project import Project, discover, is_folder
from instar.plugin import Invalid
from instar.process import ProcessError, Processes
from instar.project import vcs
from instar.project.workspace import Workspaces
from instar.session.instance import Instance
from instar.session.state import SessionState

Changes = Literal["stay", "copy", "move"]
"""What becomes of a worktree's changes when a session moves to another one."""


async def move(
    instance: Instance, workspaces: Workspaces, live: SessionState, destination: Path, changes: Changes
) -> None:
    """Move a held session to another folder of its project (`InProcessSessions.move`)."""
    processes = instance.processes
    # The session may have come here from elsewhere: its own folder counts, not the instance's.
    here = await discover(Path(live.session.directory), processes)
    there = await discover(_folder(destination), processes)
    if not _same(here, there):
        raise Invalid("Destination directory belongs to another project")
    if changes != "stay" and here.worktree != there.worktree:
        await _bring(processes, here, there, changes)
    home = [info for info in await workspaces.list() if info.directory == str(there.worktree)]
    live.session.workspace_id = home[0].id if home else None
    live.session.directory = str(there.directory)
    live.session.path = there.below(there.directory)
    await instance.sessions.update(live)


async def _bring(processes: Processes, here: Project, there: Project, changes: Changes) -> None:
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
