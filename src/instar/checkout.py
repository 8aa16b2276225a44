"""Worktrees as opencode's clients know them: workspaces of the type ``worktree``, named by their folder."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from instar.api.project import Worktree
from instar.instance import Instance
from instar.naming import slug
from instar.plugin import Invalid, WorkspaceInfo
from instar.process import ProcessError
from instar.workspace import LONG, Workspaces

log = logging.getLogger("instar.checkout")

TYPE: Final = "worktree"
_SHELL: Final = "/bin/sh"
_TRIES: Final = 5
_LONGEST: Final = 40


class Checkouts:
    """The worktrees of an instance's project."""

    def __init__(self, instance: Instance, workspaces: Workspaces) -> None:
        self._instance = instance
        self._workspaces = workspaces

    async def create(self, name: str | None = None) -> Worktree:
        """Make a worktree on a branch of its own; a name that is taken gets two words more. Raises `Invalid`."""
        wanted = _plain(name or "") or slug()
        taken = {info.name for info in await self._workspaces.list()}
        free = wanted
        for _ in range(_TRIES):
            if free not in taken:
                break
            free = f"{wanted}-{slug()}"
        return _worktree(await self._workspaces.create(TYPE, name=free))

    async def begin(self, worktree: Worktree, commands: Sequence[str | None]) -> None:
        """Run what a person wants run in a new worktree, one command after the other; a failure is logged.

        The children have the rights of the model's: what they run is the repository's code.
        """
        children = self._instance.children
        for command in filter(None, commands):
            try:
                done = await children.run(
                    [_SHELL, "-c", command],
                    cwd=Path(worktree.directory),
                    env=children.environment(self._instance.environment),
                    timeout=LONG,
                )
            except ProcessError as error:
                log.warning("start command not run worktree=%s: %s", worktree.directory, error)
                return
            if done.code != 0:
                said = done.stderr.decode(errors="replace").strip()[-500:]
                log.warning(
                    "start command failed worktree=%s code=%s: %s", worktree.directory, done.code, said
                )
                return

    async def list(self) -> Sequence[Worktree]:
        """Return the worktrees, oldest first."""
        return [_worktree(info) for info in await self._workspaces.list() if info.type == TYPE]

    async def remove(self, directory: str) -> None:
        """Remove a worktree and its branch with all that is only there; one that is gone already is no mistake.

        Raises `Invalid` for a folder that is no worktree of these, and while a session works in it.
        """
        info = await self._find(directory)
        if info is not None:
            await self._workspaces.remove(info.id, force=True)
        elif _is_there(directory):
            raise Invalid(f"{directory} is no worktree that instar made for this project")

    async def reset(self, directory: str) -> None:
        """Make a worktree as the default branch is: changes and files that git does not know are lost.

        Raises `Invalid` for a folder that is no worktree of these, and while a session works in it.
        """
        info = await self._find(directory)
        if info is None:
            raise Invalid(f"Worktree not found: {directory}")
        await self._workspaces.reset(info.id)

    async def _find(self, directory: str) -> WorkspaceInfo | None:
        known = await self._workspaces.list()
        return next((info for info in known if info.type == TYPE and info.directory == directory), None)


def _worktree(info: WorkspaceInfo) -> Worktree:
    return Worktree(name=info.name, branch=info.branch, directory=info.directory or "")


def _is_there(directory: str) -> bool:
    try:
        return Path(directory).exists()
    except OSError:  # a name that is too long, or a folder that may not be looked into
        return False


def _plain(name: str) -> str:
    """A name as it may stand in a branch and a path: ``My Side!`` is ``my-side``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-")
