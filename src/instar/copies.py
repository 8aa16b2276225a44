"""Copies of a repository where a person wants them: git worktrees without a branch, kept in mind for their removal."""

import logging
from pathlib import Path
from typing import Final

from instar import vcs
from instar.api.project import ProjectDirectory
from instar.git import GitError, common_folder
from instar.instance import Instance
from instar.naming import slug
from instar.process import ProcessError
from instar.project import Project, discover, is_folder
from instar.store import PutValue
from instar.vcs import Repository

log = logging.getLogger("instar.copies")

STRATEGY: Final = "git_worktree"
"""The one way in which copies are made (opencode's word)."""
_KEPT: Final = "copy:"
_MOST: Final = 100


class CopyError(Exception):
    """A copy that cannot be made or removed. `forced`: it could be removed by force, with what is only there."""

    def __init__(self, message: str, *, forced: bool | None = None) -> None:
        super().__init__(message)
        self.forced = forced


class Copies:
    """The copies of an instance's repository."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def create(self, strategy: str, below: Path, name: str | None = None) -> Path:
        """Make a copy of the last commit in a new folder below one, and return it. Raises `CopyError`.

        A name that is taken gets a number. Filters that only the repository's own settings name do not run.
        """
        if strategy != STRATEGY:
            raise CopyError(f"Project copy strategy unavailable: {strategy}")
        repository = await self._repository()
        # A relative folder is meant from the directory, as in opencode.
        folder = _free(self._instance.project.directory / below, _checked(name or slug()))
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            await repository.run("worktree", "add", "--detach", "--no-checkout", str(folder), "HEAD")
        except (GitError, OSError) as error:
            raise CopyError(f"the copy cannot be made: {error}") from error
        await self._keep(folder, {"project": self._instance.project.id})
        try:
            # Only now can git say which settings hold in the new folder.
            made = await self._opened(await discover(folder, self._instance.processes))
            await made.run("reset", "--hard", "--quiet", "HEAD")
        except GitError as error:
            await self._drop(repository, folder)
            raise CopyError(f"the copy cannot be made: {error}") from error
        return folder

    async def remove(self, folder: Path, *, force: bool) -> None:
        """Remove a copy. Raises `CopyError`, also for a folder that is no copy, or that holds work without `force`."""
        folder = _real(folder)
        if str(folder) not in await self._known():
            raise CopyError(f"Invalid project copy directory: {folder}")
        repository = await self._repository()
        if folder.is_dir() and not force:
            unsaved = await self._unsaved(folder)
            if unsaved:
                raise CopyError(f"{folder} holds {unsaved}", forced=True)
        await self._drop(repository, folder)

    async def folders(self, project: Project) -> list[ProjectDirectory]:
        """Return the worktrees of a project's repository, newest first; one without a repository has none."""
        repository = await vcs.repository(self._instance.processes, project)
        if repository is None:
            return []
        listed = (await repository.run("worktree", "list", "--porcelain", "-z")).decode(errors="replace")
        found = [
            line.removeprefix("worktree ") for line in listed.split("\0") if line.startswith("worktree ")
        ]
        known = await self._known()
        return [
            ProjectDirectory(directory=one, strategy=STRATEGY if one in known else None)
            for one in reversed(found)
            if is_folder(one)
        ]

    async def _unsaved(self, folder: Path) -> str | None:
        made = await self._opened(await discover(folder, self._instance.processes))
        try:
            if await vcs.status(made, folder):
                return "changed files"
            lost = await made.run("rev-list", "--count", "HEAD", "--not", "--branches", "--tags", "--remotes")
        except GitError as error:
            return f"what git cannot read ({error})"
        return None if int(lost) == 0 else "commits that no branch has"

    async def _drop(self, repository: Repository, folder: Path) -> None:
        try:
            await repository.run("worktree", "remove", "--force", str(folder))
        except GitError as error:
            if common_folder(folder) == common_folder(repository.worktree):
                raise CopyError(f"the copy cannot be removed: {error}") from error
            # The folder is gone, or somebody else's by now: git forgets it by itself one day.
            log.info("a copy was not there any more folder=%s: %s", folder, error)
        await self._keep(folder, None)

    async def _repository(self) -> Repository:
        return await self._opened(self._instance.project)

    async def _opened(self, project: Project) -> Repository:
        try:
            found = await vcs.repository(self._instance.processes, project)
        except (GitError, ProcessError) as error:
            raise CopyError(str(error)) from error
        if found is None:
            raise CopyError(f"Project copy source not found: {project.directory} lies in no git repository")
        return found

    async def _known(self) -> set[str]:
        return {key.removeprefix(_KEPT) for key in await self._instance.store.values("instar", _KEPT)}

    async def _keep(self, folder: Path, value: dict[str, str] | None) -> None:
        await self._instance.store.commit([PutValue("instar", f"{_KEPT}{folder}", value)])


def name_for(context: str | None) -> str:
    """Return a name for a copy, made of the first words of what it is wanted for."""
    words = "".join(one if one.isalnum() else " " for one in (context or "").lower()).split()
    return "-".join(words[:5])[:40].strip("-") or slug()


def _checked(name: str) -> str:
    if "/" in name or "\0" in name or name.startswith((".", "-")) or len(name) > 100:
        raise CopyError(f"{name!r} cannot be the name of a copy's folder")
    return name


def _free(below: Path, name: str) -> Path:
    """A folder that is not there yet, links on the way to it resolved."""
    names = [name, *(f"{name}-{number}" for number in range(2, _MOST))]
    free = next((one for one in names if not _real(below / one).exists()), None)
    if free is None:
        raise CopyError(f"{below} is full of copies named {name}")
    return _real(below / free)


def _real(folder: Path) -> Path:
    try:
        found = folder.resolve()
        found.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise CopyError(f"{folder} is no folder that can be used: {error}") from None
    return found
