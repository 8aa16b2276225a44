"""The project: which repository a directory belongs to, and the id that its sessions are kept under."""

import logging
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.git import GitError, common_folder, find_worktree, root_commit
from instar.process import ProcessError, Processes
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.project")

GLOBAL: Final = "global"
"""The id of everything that is no repository, or one without commits."""

_HASH: Final = late_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Project(msgspec.Struct, frozen=True):
    """A directory's project. `id` is the repository's root commit, as in opencode, or `GLOBAL`.

    `worktree` is the repository's folder, ``/`` outside one; `directory` is where the person is. Both are
    real paths.
    """

    id: str
    worktree: Path
    directory: Path
    vcs: Literal["git"] | None = None

    @property
    def main_worktree(self) -> Path:
        """The folder that the repository lives in: `worktree`, unless that is a linked one. Reads two small files.

        The worktrees of a repository share its project, whose row names this one.
        """
        common = common_folder(self.worktree) if self.vcs else None
        return common.parent if common is not None and common.name == ".git" else self.worktree

    def below(self, directory: Path) -> str | None:
        """Return a folder as seen from the worktree: empty for the worktree itself, None outside of it."""
        if not directory.is_relative_to(self.worktree):
            return None
        return "" if directory == self.worktree else directory.relative_to(self.worktree).as_posix()


def is_folder(name: str) -> bool:
    """Return whether a text is the absolute path of a folder."""
    try:
        return "\0" not in name and name.startswith("/") and Path(name).is_dir()
    except OSError:  # a name that is too long, or a folder that may not be looked into
        return False


async def discover(directory: Path, processes: Processes) -> Project:
    """Return the project of `directory`; starts git at most once, and never outside a repository.

    The id that opencode keeps in ``.git/opencode`` is used where it stands; nothing is ever written there. A
    repository that git cannot or will not read goes by `GLOBAL` with its own worktree, and the log says why.
    """
    real, worktree = _locate(directory)
    if worktree is None:
        return Project(GLOBAL, Path(real.anchor), real)
    identity = _kept_id(worktree)
    if identity is None:
        try:
            identity = await root_commit(processes, worktree)
        except (GitError, ProcessError) as error:
            log.warning("the project of %s goes by %r: %s", worktree, GLOBAL, error)
    return Project(identity or GLOBAL, worktree, real, "git")


def _locate(directory: Path) -> tuple[Path, Path | None]:
    real = directory.resolve()
    return real, find_worktree(real)


def _kept_id(worktree: Path) -> str | None:
    folder = common_folder(worktree)
    try:
        kept = (folder / "opencode").read_text("ascii").strip() if folder is not None else ""
    except (OSError, UnicodeDecodeError):
        return None
    return kept if _HASH.fullmatch(kept) else None
