"""Checkouts: the workspace's files as they were at a commit, for a replay.

A checkout holds the commit's tree and nothing else: what git does not know (state, notes that are ignored) is not in
it. Files are written as their blobs are: git's filters and attributes, which a repository chooses, do not run.
Nothing writes in a checkout, only in copies of it.
"""

import asyncio
import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from instar.plugin import document, process, sandbox
from instar.plugins.evolve.history.repository import FAILED, ListedFile, WorkspaceRepository

_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")
_NAME: Final = "workspace"
_LINK: Final = stat.S_IFLNK
_KINDS: Final = (0o100644, 0o100664, 0o100755, _LINK)
_HALF_MADE: Final = 3600.0


class Checkout(msgspec.Struct, frozen=True):
    """A folder with the files of a commit; `problem` says why it is the workspace itself instead."""

    folder: Path
    problem: str | None = None


class ReplayCheckouts:
    """Checkouts of the workspace at `root`, the last `kept` of them kept in `folder` by commit."""

    def __init__(self, processes: process.Processes, root: Path, folder: Path, kept: int = 8) -> None:
        self._repository = WorkspaceRepository(processes, root)
        self._root = root
        self._folder = folder
        self._kept = kept
        self._making = asyncio.Lock()
        self._full: dict[str, str] = {}

    async def at(self, commit: str | None) -> Checkout:
        """Return the checkout of a commit; the workspace as it stands, and why, where there is none."""
        if commit is None:
            return Checkout(self._root, "a record has no commit: it ran on the workspace as it stands now")
        async with self._making:
            try:
                return Checkout(await self._at(commit))
            except (*FAILED, OSError, ValueError) as error:
                why = " ".join(str(error).split())[:300]
                return Checkout(
                    self._root,
                    f"the workspace at {commit[:12]} could not be restored ({why}): records of that commit ran on the"
                    " workspace as it stands now",
                )

    async def prune(self) -> None:
        """Remove all but the `kept` checkouts that were used last, and what was left half made."""
        await asyncio.to_thread(self._prune)

    async def _at(self, commit: str) -> Path:
        if not _COMMIT.fullmatch(commit):
            raise ValueError("that is no commit's id")
        if commit not in self._full:
            found = await self._repository.text("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
            self._full[commit] = found.strip()
        place = self._folder / self._full[commit]
        folder = place / _NAME
        if folder.is_dir():
            os.utime(place)
            return folder
        files = [one for one in await self._repository.listed(place.name) if one.mode in _KINDS]
        _refuse(files)
        contents = await self._repository.contents(files)
        await asyncio.to_thread(self._make, place, files, contents)
        return folder

    def _make(self, place: Path, files: Sequence[ListedFile], contents: Mapping[str, bytes]) -> None:
        document.private_folder(self._folder)
        beside = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
        try:
            _write(beside / _NAME, files, contents)
            beside.rename(place)
        except OSError:
            if not (place / _NAME).is_dir():  # else another process was faster
                raise
        finally:
            if beside.exists():
                sandbox.remove(beside)

    def _prune(self) -> None:
        if not self._folder.is_dir():
            return
        found = {path: path.stat().st_mtime for path in self._folder.iterdir()}
        whole = sorted((path for path in found if path.name[0] != "."), key=found.__getitem__, reverse=True)
        half = [path for path in found if path.name[0] == "." and found[path] < time.time() - _HALF_MADE]
        for path in [*whole[self._kept :], *half]:
            with contextlib.suppress(OSError):
                sandbox.remove(path)


def _refuse(files: Sequence[ListedFile]) -> None:
    """Raise `ValueError` for a path that leads elsewhere."""
    for one in files:
        if any(part in ("", ".", "..") or part.lower() == ".git" for part in one.path.split("/")):
            raise ValueError(f"its tree holds the path {one.path!r}")


def _write(root: Path, files: Sequence[ListedFile], contents: Mapping[str, bytes]) -> None:
    """Write files, then links: nothing is written through a link. A link that leads outside is left out."""
    root.mkdir()
    for one in files:
        if one.mode != _LINK:
            path = root / one.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents[one.blob])
            path.chmod(one.mode & 0o777)
    for one in files:
        path, target = root / one.path, os.fsdecode(contents[one.blob])
        if one.mode == _LINK and _stays(Path(one.path), target):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.resolve() == path.parent.absolute():
                path.symlink_to(target)


def _stays(link: Path, target: str) -> bool:
    """Whether a link stays in the tree: relative, and ``..`` only in front, where no other link can lead it astray."""
    parts = PurePosixPath(target).parts
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    wrong = not target or "\0" in target or target.startswith("/") or ".." in parts[up:]
    return not wrong and up < len(link.parts)
