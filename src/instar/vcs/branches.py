"""The branch that is checked out, and the one that the others begin at."""

from typing import Final

from instar import git
from instar.process import Processes
from instar.project import Project
from instar.vcs.repository import Repository

_USUAL: Final = ("main", "master")
_ORIGIN: Final = "refs/remotes/origin/"
_LOCAL: Final = "refs/heads/"


async def checked_out(processes: Processes, project: Project) -> str | None:
    """Return the branch of a project's worktree; None where HEAD is detached, or outside a repository."""
    if project.vcs is None:
        return None
    return git.head_branch(project.worktree) or await git.branch(processes, project.worktree)


async def default_branch(repository: Repository) -> str | None:
    """Return what ``origin`` calls its default branch, else ``main`` or ``master`` where there is one."""
    refs = await _refs(repository)
    named = refs.get(f"{_ORIGIN}HEAD", "").removeprefix(_ORIGIN)
    return named or next((name for name in _USUAL if f"{_LOCAL}{name}" in refs), None)


async def left_at(repository: Repository, default: str) -> str | None:
    """Return the commit at which HEAD left the default branch; None where they have none in common."""
    tip = await repository.commit(f"{_ORIGIN}{default}") or await repository.commit(f"{_LOCAL}{default}")
    if tip is None:
        return None
    args = ("merge-base", tip, "HEAD")
    found = await git.git(
        repository.processes, repository.worktree, *args, check=False, env=repository.environment
    )
    return found.strip() or None


async def start(repository: Repository) -> str | None:
    """Return the commit that new work begins at: the default branch's, else HEAD's; None without commits."""
    default = await default_branch(repository)
    names = ["HEAD"] if default is None else [f"{_LOCAL}{default}", f"{_ORIGIN}{default}", "HEAD"]
    for name in names:
        if (found := await repository.commit(name)) is not None:
            return found
    return None


async def _refs(repository: Repository) -> dict[str, str]:
    """The references that matter here, each with the one that it stands for."""
    wanted = [f"{_ORIGIN}HEAD", *(f"{_LOCAL}{name}" for name in _USUAL)]
    printed = await repository.run("for-each-ref", "--format=%(refname) %(symref)", *wanted)
    return dict(line.split(" ", 1) for line in printed.decode(errors="replace").splitlines())
