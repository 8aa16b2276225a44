"""Patches put onto a worktree: whole, or not at all."""

from typing import Literal

from instar.git import GitError
from instar.vcs.repository import Repository

Reason = Literal["non-git", "not-clean"]


class ApplyError(Exception):
    """A patch that was not applied; nothing was changed. `reason` is opencode's word for why."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason: Reason = reason


async def apply(repository: Repository | None, patch: bytes) -> None:
    """Apply a patch to the files of the worktree; git's index stays. Raises `ApplyError`."""
    if repository is None:
        raise ApplyError("Patch can't be applied because the project is not git-based", "non-git")
    await check(repository, patch)
    await _apply(repository, patch)


async def check(repository: Repository, patch: bytes, *, backwards: bool = False) -> None:
    """Raise `ApplyError` when a patch cannot be applied (or taken back) as a whole."""
    await _apply(repository, patch, "--check", *(["--reverse"] if backwards else []))


async def take_back(repository: Repository, patch: bytes) -> None:
    """Undo a patch in the files of the worktree. Raises `ApplyError`."""
    await _apply(repository, patch, "--reverse")


async def _apply(repository: Repository, patch: bytes, *more: str) -> None:
    try:
        await repository.run("apply", "--whitespace=nowarn", *more, "-", stdin=patch)
    except GitError as error:
        raise ApplyError(f"Patch can't be applied: {error}", "not-clean") from error
