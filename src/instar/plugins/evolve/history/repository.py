"""Git in a workspace: how it is run, what commits hold, and setting right what a killed git left behind.

Git never looks above the workspace: with its own repository broken, it would find the one around it. Names are names: a
file called ``:(top)x`` or ``*`` is no pattern.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from instar.plugin import git, process
from instar.plugins.evolve.workspace import FOLDERS

FAILED: Final = (git.GitError, process.ProcessError)
"""What git's failing raises."""

_MARK: Final = b"INSTAR_RUN="
_PATIENCE: Final = 10.0
_DEEPEST: Final = 100
_READ: Final = (".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".gitattributes", ".gitignore")
"""Files that git reads before it does anything else."""


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
        listed = await self._listed(paths, commit)
        blobs = await self._blobs([blob for _, blob in listed.values()])
        found = {}
        for path, (mode, blob) in listed.items():
            if blob not in blobs:
                raise git.GitError(
                    f"git cannot read {path} of {commit} in {self._root}: its object {blob} is missing"
                )
            found[path] = (blobs[blob], mode & 0o777)
        return found

    async def content(self, path: str, sha: str) -> bytes | None:
        """Return the content of `path` with this hash (SHA-256) from HEAD or a commit before it.

        None where none of the newest `_DEEPEST` commits of the file has it, or git fails.
        """
        try:
            commits = (
                (await self.bytes("rev-list", f"--max-count={_DEEPEST}", "HEAD", "--", path)).decode().split()
            )
            blobs = await self._blobs([f"{commit}:{path}" for commit in ["HEAD", *commits]])
        except FAILED:
            return None
        return next((data for data in blobs.values() if hashlib.sha256(data).hexdigest() == sha), None)

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

    async def _listed(self, paths: Sequence[str], commit: str = "HEAD") -> dict[str, tuple[int, str]]:
        printed = await self.bytes("ls-tree", "-r", "-z", commit, "--", *paths)
        found = {}
        for line in printed.split(b"\0"):
            about, _, name = line.partition(b"\t")
            mode, kind, blob = [*about.decode().split(), "", "", ""][:3]
            if kind == "blob" and mode.startswith("100"):
                found[os.fsdecode(name)] = (int(mode, 8), blob)
        return found

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
