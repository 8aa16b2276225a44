"""The built-in type of workspace: a git worktree of the project, on a branch of its own.

It stands in instar's data folder, so the person's own worktree never sees it. Git runs hardened (`instar.git`):
no hooks. Filters (``git lfs``) do run at a checkout; those of a repository's own settings are untrusted code.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from instar import vcs
from instar.git import GitError, common_folder, git, git_folder
from instar.plugin import Invalid, LocalTarget, WorkspaceInfo
from instar.process import Processes
from instar.project import Project
from instar.wire import replace

_CHECKOUT: Final = 600.0
"""Seconds that checking out a worktree may take."""
_NAMES_PROGRAMS: Final = r"^(filter|include|includeif)\."
"""Settings that name programs which a checkout runs, or further settings: those may hold in the new worktree alone."""


class Worktrees:
    """Git worktrees of `project` below `folder`. `trusted` says whether a folder's own code may run."""

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
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        """Make the branch and the files as the default branch's are (HEAD's, where there is none); ignored ones go.

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
        """How many commits lead to `tips` that no branch but the workspace's own, and no tag, has."""
        env = {"GIT_DIR": _repository_of(info)}
        known = [
            tip for tip in tips if await self._git("rev-parse", "-q", "--verify", tip, check=False, env=env)
        ]
        if not known:
            return 0
        kept = [f"--exclude={info.branch}", "--branches", "--remotes", "--tags"]
        return int(await self._git("rev-list", "--count", *known, "--not", *kept, env=env))

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
        """The workspace's folder. Raises `Invalid` for one that is not below ours: it will be deleted one day."""
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
    """Whether git was ended while it made this worktree: it locks one until it is whole."""
    folder = git_folder(directory)
    return folder is not None and (
        _read(folder / "locked") == "initializing" or _is_unfilled(folder) or _is_torn(directory)
    )


def _is_unfilled(folder: Path) -> bool:
    """Whether the checkout was ended that writes a worktree's first index: git unlocks it before it tidies up."""
    return (folder / "index.lock").exists() and not (folder / "index").exists()


def _is_torn(directory: Path) -> bool:
    """Whether git was ended while it took back a worktree that it had not made whole: it never had an index."""
    folder = git_folder(directory)
    return folder is not None and not (folder / "gitdir").exists() and not (folder / "index").exists()


def _is_begun(repository: Path, directory: Path) -> bool:
    """Whether the repository has an entry for a worktree whose folder is gone, locked by git itself."""
    return any(
        _read(entry / "gitdir") == str(directory / ".git") and _read(entry / "locked") == "initializing"
        for entry in (repository / "worktrees").glob("*")
    )


def _read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return None
