"""Git worktrees of the project, in the three forms in which clients know them.

`WorktreeAdapter` is the built-in type of workspace: a worktree on a branch of its own, in instar's data folder, so
that the person's own worktree never sees it. `Worktrees` are the workspaces of this type as opencode's clients name
them, by their folder. `Copies` are worktrees without a branch, in the place that a person chose.

Git runs hardened (`instar.git`): no hooks. Filters (``git lfs``) do run at a checkout; those of a repository's own
settings are untrusted code.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from instar.api.project import ProjectDirectory, Worktree
from instar.git import GitError, common_folder, git, git_folder
from instar.git.project import Project, discover, is_folder
from instar.plugin import Invalid, LocalTarget, WorkspaceInfo
from instar.process import ProcessError, Processes
from instar.project import vcs
from instar.project.vcs import Repository
from instar.project.workspace import LONG, Workspaces
from instar.session.instance import Instance
from instar.session.sessions import slug
from instar.store import PutValue
from instar.wire import replace
from instar.wire.document import private_folder

_CHECKOUT: Final = 600.0
"""Seconds that checking out a worktree may take."""
_NAMES_PROGRAMS: Final = r"^(filter|include|includeif)\."
"""Settings that name programs which a checkout runs, or further settings: those may hold in the new worktree alone."""


class WorktreeAdapter:
    """Git worktrees of `project` below `folder`. `trusted` returns True for a folder whose own code may run."""

    name = "worktree"
    description = "A git worktree of the project, on a branch of its own."

    def __init__(
        self, processes: Processes, project: Project, folder: Path, trusted: Callable[[Path], bool]
    ) -> None:
        self._processes = processes
        self._project = project
        self._folder = folder
        self._trusted = trusted

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Give the workspace its branch (``instar/<name>``) and its folder. Raises `Invalid`."""
        repository = self._repository()
        await self._first_commit()
        await self._check_filters(self._project.worktree)
        branch = info.branch or f"instar/{info.name}"
        await self._check_branch(branch)
        origin = repository.parent if repository.name == ".git" else self._project.worktree
        clone = f"{origin.name}-{hashlib.sha256(str(repository).encode()).hexdigest()[:8]}"
        directory = self._folder.resolve() / clone / info.name
        if directory.exists():
            raise Invalid(
                f"{directory} is there already, and no workspace: move it away, or choose another name"
            )
        return replace(info, branch=branch, directory=str(directory), extra={"repository": str(repository)})

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Check out a new branch at HEAD, or at another workspace's branch, into the folder. Raises `GitError`."""
        start = f"refs/heads/{from_.branch}" if from_ is not None and from_.branch else "HEAD"
        directory, branch = self._directory(info), str(info.branch)
        private_folder(directory.parent)
        await self._git("worktree", "prune")
        await self._git("worktree", "add", "--no-track", "-b", branch, str(directory), start)

    async def remove(self, info: WorkspaceInfo) -> None:
        """Remove the folder and the branch with all that is only there. Raises `GitError` and `Invalid`."""
        directory = self._directory(info)
        repository = {"GIT_DIR": _repository_of(info)}
        known = _is_repository(repository["GIT_DIR"]) and git_folder(directory) is not None
        if known and not _is_torn(directory):
            # Once more forces what git locked itself while it made it; a person's lock holds.
            force = ("--force", "--force") if _half_made(directory) else ("--force",)
            await self._git("worktree", "remove", *force, str(directory), env=repository)
        elif directory.exists():
            # Start-up time: few starts remove one.
            import shutil

            await asyncio.to_thread(shutil.rmtree, directory)
        if _is_repository(repository["GIT_DIR"]) and _is_begun(Path(repository["GIT_DIR"]), directory):
            # Git was ended while it tidied up itself: its lock would keep the entry, and that the branch.
            forced = ("worktree", "remove", "--force", "--force", str(directory))
            await self._git(*forced, check=False, env=repository)
        if _is_repository(repository["GIT_DIR"]):
            await self._git("worktree", "prune", env=repository)
            # A branch that is checked out elsewhere meanwhile is somebody's: git keeps it.
            await self._git("branch", "-D", "--", str(info.branch), check=False, env=repository)

    async def reset(self, info: WorkspaceInfo) -> None:
        """Reset branch and files to the default branch, or to HEAD if there is none. Ignored files are deleted.

        Raises `GitError` and `Invalid`.
        """
        directory = self._directory(info)
        repository = await vcs.repository(self._processes, self._project)
        start = None if repository is None else await vcs.start(repository)
        await self._check_filters(directory)
        await self._git("reset", "--hard", "--quiet", start or "HEAD", cwd=directory)
        await self._git("clean", "-ffdxq", cwd=directory)

    async def target(self, info: WorkspaceInfo) -> LocalTarget:
        """Return the worktree's folder."""
        return LocalTarget(self._directory(info))

    async def unsaved(self, info: WorkspaceInfo) -> str | None:
        """Return which changes and commits are in this worktree alone; ignored files do not count."""
        directory = self._directory(info)
        if not _is_repository(_repository_of(info)):
            return "files of a repository that is gone" if directory.exists() else None
        changed, tips = 0, [f"refs/heads/{info.branch}"]
        if git_folder(directory) is not None and not _half_made(directory):
            await self._check_filters(directory)
            # Said outright: a person's own settings may hide files that git does not know.
            status = await self._git("status", "--porcelain", "--untracked-files=all", cwd=directory)
            changed = len(status.splitlines())
            tips.append((await self._git("rev-parse", "HEAD", cwd=directory)).strip())
        commits = await self._unmerged(info, tips)
        lost = [f"{changed} changed file{'s' * (changed != 1)}"] if changed else []
        lost += [f"{commits} commit{'s' * (commits != 1)} that no other branch has"] if commits else []
        return " and ".join(lost) or None

    async def _unmerged(self, info: WorkspaceInfo, tips: list[str]) -> int:
        """The number of commits behind `tips` that only the workspace's own branch has."""
        env = {"GIT_DIR": _repository_of(info)}
        known = [
            tip for tip in tips if await self._git("rev-parse", "-q", "--verify", tip, check=False, env=env)
        ]
        if not known:
            return 0
        others = [f"--exclude={info.branch}", "--branches", "--remotes", "--tags"]
        return int(await self._git("rev-list", "--count", *known, "--not", *others, env=env))

    async def _first_commit(self) -> None:
        try:
            await self._git("rev-parse", "--verify", "HEAD^{commit}")
        except GitError as error:
            where = self._project.worktree
            raise Invalid(
                f"a worktree begins at a commit, and {where} has none that git can read: {error}"
            ) from error

    async def _check_branch(self, branch: str) -> None:
        """Raise `Invalid` for a branch that cannot be made."""
        try:
            await self._git("check-ref-format", f"refs/heads/{branch}")
        except GitError:
            raise Invalid(f"{branch!r} cannot be a branch's name (see: git check-ref-format)") from None
        if branch.startswith("-"):
            raise Invalid(f"{branch!r} cannot be a branch's name: it begins with a dash")
        if await self._git("rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False):
            raise Invalid(
                f"the branch {branch} is there already: choose another name, or delete it (git branch -d {branch})"
            )

    async def _check_filters(self, worktree: Path) -> None:
        """Raise `Invalid` when git would run programs there that only an untrusted repository names."""
        if self._trusted(worktree):
            return
        found = await self._git(
            "config",
            "--show-scope",
            "--name-only",
            "--get-regexp",
            _NAMES_PROGRAMS,
            cwd=worktree,
            check=False,
        )
        own = [
            line.split("\t", 1)[-1] for line in found.splitlines() if line.startswith(("local", "worktree"))
        ]
        if own:
            raise Invalid(
                f"{worktree} is not trusted, and its git settings would run a program, or may bring some that do"
                f" ({own[0]}): trust it (instar trust), or take that setting out"
            )

    def _repository(self) -> Path:
        """The git folder that all worktrees of the project share. Raises `Invalid` outside git."""
        found = common_folder(self._project.worktree) if self._project.vcs == "git" else None
        if found is None:
            raise Invalid(
                f"{self._project.directory} lies in no git repository, so it has no worktrees:"
                " git init it and commit, or use another type of workspace"
            )
        return found

    def _directory(self, info: WorkspaceInfo) -> Path:
        """The workspace's folder. Raises `Invalid` if it is not below `folder`: else removing deletes other files."""
        directory = Path(info.directory or "/")
        if directory.resolve() != directory or self._folder.resolve() not in directory.parents:
            raise Invalid(f"workspace {info.name}: its folder {directory} is not below {self._folder}")
        return directory

    async def _git(
        self, *args: str, cwd: Path | None = None, check: bool = True, env: Mapping[str, str] | None = None
    ) -> str:
        # The repository's own folder stays, also when the person stands in the worktree that goes.
        where = cwd or (Path(env["GIT_DIR"]) if env else self._project.worktree)
        return await git(self._processes, where, *args, check=check, timeout=_CHECKOUT, env=env)


def _repository_of(info: WorkspaceInfo) -> str:
    return str(info.extra.get("repository", "")) if isinstance(info.extra, dict) else ""


def _is_repository(folder: str) -> bool:
    return bool(folder) and (Path(folder) / "HEAD").is_file()


def _half_made(directory: Path) -> bool:
    """True if git was ended while it made this worktree: git locks a worktree until it is complete."""
    folder = git_folder(directory)
    return folder is not None and (
        _read(folder / "locked") == "initializing" or _is_unfilled(folder) or _is_torn(directory)
    )


def _is_unfilled(folder: Path) -> bool:
    """True if the first checkout was ended before its index was written: git removes its own lock before that."""
    return (folder / "index.lock").exists() and not (folder / "index").exists()


def _is_torn(directory: Path) -> bool:
    """True if git was ended while it removed an incomplete worktree, which never had an index."""
    folder = git_folder(directory)
    return folder is not None and not (folder / "gitdir").exists() and not (folder / "index").exists()


def _is_begun(repository: Path, directory: Path) -> bool:
    """True if the repository has an entry for a worktree whose folder is gone, locked by git itself."""
    return any(
        _read(entry / "gitdir") == str(directory / ".git") and _read(entry / "locked") == "initializing"
        for entry in (repository / "worktrees").glob("*")
    )


def _read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return None


_worktree_log = logging.getLogger("instar.checkout")

TYPE: Final = "worktree"
_SHELL: Final = "/bin/sh"
_TRIES: Final = 5
_LONGEST: Final = 40


class Worktrees:
    """The worktrees of an instance's project."""

    def __init__(self, instance: Instance, workspaces: Workspaces) -> None:
        self._instance = instance
        self._workspaces = workspaces

    async def create(self, name: str | None = None) -> Worktree:
        """Make a worktree on a branch of its own; a taken name gets two more words. Raises `Invalid`."""
        wanted = _plain(name or "") or slug()
        taken = {info.name for info in await self._workspaces.list()}
        names = [wanted, *(f"{wanted}-{slug()}" for _ in range(_TRIES))]
        free = next((one for one in names if one not in taken), names[-1])
        return _worktree(await self._workspaces.create(TYPE, name=free))

    async def begin(self, worktree: Worktree, commands: Sequence[str | None]) -> None:
        """Run the person's start commands in a new worktree, in order. The first failure is logged and ends them.

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
                _worktree_log.warning("start command not run worktree=%s: %s", worktree.directory, error)
                return
            if done.code != 0:
                said = done.stderr.decode(errors="replace").strip()[-500:]
                _worktree_log.warning(
                    "start command failed worktree=%s code=%s: %s", worktree.directory, done.code, said
                )
                return

    async def list(self) -> Sequence[Worktree]:
        """Return the worktrees, oldest first."""
        return [_worktree(info) for info in await self._workspaces.list() if info.type == TYPE]

    async def remove(self, directory: str) -> None:
        """Remove a worktree and its branch with everything that is only in it. Nothing happens if it does not exist.

        Raises `Invalid` for a folder that is no worktree of these, and while a session works in it.
        """
        info = await self._find(directory)
        if info is not None:
            await self._workspaces.remove(info.id, force=True)
        elif _is_there(directory):
            raise Invalid(f"{directory} is no worktree that instar made for this project")

    async def reset(self, directory: str) -> None:
        """Reset a worktree to the default branch: changes and untracked files are lost.

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


_copies_log = logging.getLogger("instar.copies")

STRATEGY: Final = "git_worktree"
"""The one way in which copies are made (opencode's word)."""
_STORE_KEY: Final = "copy:"
_MOST_NAMES: Final = 100


class CopyError(Exception):
    """A copy that cannot be made or removed. `forced`: removing by force is possible, and loses what is only there."""

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
        repository = await self._opened(self._instance.project)
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
        """Remove a copy. Raises `CopyError`, also for a folder that is not a copy, or for work without `force`."""
        folder = _real(folder)
        if str(folder) not in await self._known():
            raise CopyError(f"Invalid project copy directory: {folder}")
        repository = await self._opened(self._instance.project)
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
            _copies_log.info("a copy was not there any more folder=%s: %s", folder, error)
        await self._keep(folder, None)

    async def _opened(self, project: Project) -> Repository:
        try:
            found = await vcs.repository(self._instance.processes, project)
        except (GitError, ProcessError) as error:
            raise CopyError(str(error)) from error
        if found is None:
            raise CopyError(f"Project copy source not found: {project.directory} lies in no git repository")
        return found

    async def _known(self) -> set[str]:
        return {
            key.removeprefix(_STORE_KEY) for key in await self._instance.store.values("instar", _STORE_KEY)
        }

    async def _keep(self, folder: Path, value: dict[str, str] | None) -> None:
        await self._instance.store.commit([PutValue("instar", f"{_STORE_KEY}{folder}", value)])


def name_for(context: str | None) -> str:
    """Return a name for a copy, made of the first words of its purpose."""
    words = "".join(one if one.isalnum() else " " for one in (context or "").lower()).split()
    return "-".join(words[:5])[:40].strip("-") or slug()


def _checked(name: str) -> str:
    if "/" in name or "\0" in name or name.startswith((".", "-")) or len(name) > 100:
        raise CopyError(f"{name!r} cannot be the name of a copy's folder")
    return name


def _free(below: Path, name: str) -> Path:
    """A folder that is not there yet, links on the way to it resolved."""
    names = [name, *(f"{name}-{number}" for number in range(2, _MOST_NAMES))]
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
