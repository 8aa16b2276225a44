"""Git in a workspace: how it is run, what commits hold, and setting right what a killed git left behind.

Git never looks above the workspace: with its own repository broken, it would find the one around it. Names are names: a
file called ``:(top)x`` or ``*`` is no pattern. A change that must not be cut short goes through `whole`.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from instar.plugin import git, process
from instar.plugins.evolve.workspace import FOLDERS

T = TypeVar("T")

FAILED: Final = (git.GitError, process.ProcessError)
"""What git's failing raises."""

_MARK: Final = b"INSTAR_RUN="
_PATIENCE: Final = 10.0
_READ: Final = (".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".gitattributes", ".gitignore")
"""Files that git reads before it does anything else."""


class ListedFile(NamedTuple):
    """A file of a commit: its mode as git has it, the id and size (``-`` for a submodule) of its content, its path."""

    mode: int
    blob: str
    size: str
    path: str


class WorkspaceRepository:
    """The repository of the workspace `root`."""

    def __init__(self, processes: process.Processes, root: Path) -> None:
        self._processes = processes
        self._root = root.resolve()

    async def files(
        self, commit: str = "HEAD", paths: Sequence[str] = FOLDERS
    ) -> dict[str, tuple[bytes, int]]:
        """Return the guarded files of a commit with their content and mode, links left out.

        Raises `git.GitError` where there is no such commit or an object cannot be read, and `process.ProcessError`.
        """
        listed = [one for one in await self.listed(commit, paths) if stat.S_ISREG(one.mode)]
        contents = await self.contents(listed)
        return {one.path: (contents[one.blob], one.mode & 0o777) for one in listed}

    async def listed(self, commit: str, paths: Sequence[str] = ()) -> list[ListedFile]:
        """Return the files of a commit below `paths` (none: all), links and submodules too. Raises as `files`."""
        found = []
        for line in (await self.bytes("ls-tree", "-r", "-l", "-z", commit, "--", *paths)).split(b"\0")[:-1]:
            about, _, path = line.partition(b"\t")
            mode, _, blob, size = about.decode().split()
            found.append(ListedFile(int(mode, 8), blob, size, os.fsdecode(path)))
        return found

    async def contents(self, files: Sequence[ListedFile]) -> dict[str, bytes]:
        """Return the contents of files, by their ids. Raises `git.GitError` where one is missing, and as `files`."""
        contents = await self._blobs([one.blob for one in files])
        for one in files:
            if one.blob not in contents:
                raise git.GitError(
                    f"git cannot read {one.path} in {self._root}: its object {one.blob} is missing"
                )
        return contents

    async def blob(self, blob: str) -> bytes | None:
        """Return the content with this id; None where git has none, or fails."""
        try:
            return (await self._blobs([blob])).get(blob)
        except FAILED:
            return None

    async def settle(self, paths: Sequence[str]) -> None:
        """Make the index say of these paths what HEAD says; where git fails, its next commit meets that failure."""
        with contextlib.suppress(*FAILED):
            await self.bytes("reset", "--quiet", "--", *paths)

    async def unlock(self, since: float) -> bool:
        """Remove the locks that a git of ours left when it was killed; False while one is still at work.

        Only locks made after `since` (seconds since 1970), and none while a git of somebody else runs in the workspace:
        they may be its own.
        """
        folder = git.git_folder(self._root)
        if folder is None:
            return True
        deadline = time.monotonic() + _PATIENCE
        while True in (running := git_at_work(self._root)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        locks = [] if running else [*folder.glob("*.lock"), *folder.glob("refs/heads/**/*.lock")]
        for lock in locks:
            with contextlib.suppress(OSError):
                if lock.lstat().st_mtime >= since - 1:
                    lock.unlink()
        return True

    async def _blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of these objects, by their ids; one that is missing is left out."""
        if not names:
            return {}
        asked = "".join(f"{name}\n" for name in dict.fromkeys(names))
        printed = await self.bytes("cat-file", "--batch", stdin=asked.encode())
        found, at = dict[str, bytes](), 0
        while at < len(printed):
            line = printed[at : printed.index(b"\n", at)]
            at += len(line) + 1
            name, kind, *rest = line.decode(errors="replace").split(" ")
            if kind != "blob" or len(rest) != 1:  # "… missing"
                continue
            size = int(rest[0])
            found[name] = printed[at : at + size]
            at += size + 1
        return found

    async def text(self, *args: str, stdin: str = "", **how: Any) -> str:
        """Run git and return what it prints as text; all else as `bytes`."""
        return (await self.bytes(*args, stdin=os.fsencode(stdin), **how)).decode(errors="replace")

    async def bytes(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 20.0,
    ) -> bytes:
        """Run git in the workspace's own repository. Raises `git.GitError` and `process.ProcessError`."""
        for name in _READ:
            path = self._root / name
            if path.exists() and not path.is_file():
                # Git would wait for a pipe until its time is over.
                raise git.GitError(f"{path} is no file, so git cannot be asked: delete it")
        given = {
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CEILING_DIRECTORIES": str(self._root.parent),
            **(env or {}),
        }
        return await git.git_bytes(
            self._processes, self._root, *args, env=given, stdin=stdin, check=check, timeout=timeout
        )


def git_at_work(root: Path) -> list[bool]:
    """Return for each git process at work in `root` whether an instar started it. Only Linux can be asked."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_bytes() == b"git\n" and (folder / "cwd").readlink().is_relative_to(
                root
            ):
                found.append(_MARK in (folder / "environ").read_bytes())
        except OSError:
            continue  # ended, or another person's
    return found


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Carry work to its end, also when whoever waits for it is cancelled: half of it must not be left."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to be told
        raise
