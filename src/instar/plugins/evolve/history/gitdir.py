"""The git folder of a workspace: its index under git's own lock, locks left behind, what a person is in the middle of.

The law: the person's index and the branch change together, under ``index.lock``, or neither does. A lock is removed
only if it is older than `ABANDONED` seconds and no git is at work in the workspace.
"""

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from instar.plugin import git
from instar.plugins.evolve.history.repository import git_at_work

ABANDONED: Final = 30.0
"""Seconds after which a lock may be one that a dead git left; git itself holds locks for moments."""

_POLL: Final = 0.02
_PROCESSES: Final = Path("/proc/self")
"""Only here can be asked which git is at work."""
_LOCK: Final = re.compile(r"Unable to create '(.+\.lock)': File exists")
_UNDER_WAY: Final = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
    "BISECT_LOG": "bisect",
}


class Locked(git.GitError):
    """Another git holds a lock, or a dead one left it."""


class GitFolder:
    """The git folder of the workspace `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def _folder(self) -> Path:
        found = git.git_folder(self._root)
        if found is None:
            raise git.GitError(f"{self._root} is no git repository that can be read: see {self._root}/.git")
        return found

    def under_way(self) -> str:
        """Return what a person has begun with git and not ended (``rebase``); "" for nothing.

        What were committed meanwhile would become part of it, or be lost with its end.
        """
        folder = git.git_folder(self._root)
        return next((what for name, what in _UNDER_WAY.items() if folder and (folder / name).exists()), "")

    @contextlib.asynccontextmanager
    async def index(self, beside: Path, patience: float) -> AsyncIterator[None]:
        """Hold the index's lock, with a copy of the index at `beside`; at the end the copy becomes the index.

        If the body fails the index stays. Waits up to `patience` seconds for another git. Raises `Locked`, `OSError`.
        """
        index = self._folder / "index"
        lock = index.with_name("index.lock")
        handle = await self._lock(lock, patience)
        try:
            with contextlib.suppress(FileNotFoundError):
                # With its time, by which git knows which entries it cannot trust.
                shutil.copy2(index, beside)
            before = _version(beside)
            yield
            if _version(beside) == before:
                lock.unlink()
            else:
                _put(beside, handle, lock, index)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)

    async def _lock(self, lock: Path, patience: float) -> int:
        deadline = time.monotonic() + patience
        while True:
            try:
                return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                if not self._free(lock) and time.monotonic() >= deadline:
                    raise Locked(
                        f"{lock} is held: another git is at work, or a dead one left it "
                        f"(then it is removed after {ABANDONED:g} s)"
                    ) from None
            await asyncio.sleep(_POLL)

    def freed(self, error: git.GitError) -> bool:
        """Whether git failed only because of a lock that a dead git had left, which is removed now."""
        named = _LOCK.search(str(error))
        return named is not None and self._free(Path(named[1]))

    def _free(self, lock: Path) -> bool:
        """Remove a lock that a dead git left; whether there is none any more."""
        if not _PROCESSES.exists():
            return False
        try:
            status = lock.lstat()
            if time.time() - status.st_mtime < ABANDONED or git_at_work(self._root):
                return False
            lock.unlink()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _put(beside: Path, handle: int, lock: Path, index: Path) -> None:
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(beside.read_bytes())
    with contextlib.suppress(FileNotFoundError):
        lock.chmod(index.stat().st_mode & 0o777)
    lock.replace(index)


def _version(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
