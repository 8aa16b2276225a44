"""Checkouts: the workspace's files as they were at a commit, for a replay.

A checkout holds the commit's tree and nothing else: what git does not know (state, notes that are ignored) is not in
it. Files are written as their blobs are: git's filters and attributes, which a repository chooses, do not run.
Checkouts share the files that they have in common as hard links: nothing writes in a checkout, only in copies of it.
"""

import asyncio
import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve.history import tree

_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")
_NAME: Final = "workspace"
_KINDS: Final = {"100644": 0o644, "100664": 0o644, "100755": 0o755, "120000": None}
_BLOBS: Final = ".blobs"
_HALF_MADE: Final = 3600.0


class Checkout(msgspec.Struct, frozen=True):
    """A folder with the files of a commit; `problem` says why it is the workspace itself instead."""

    folder: Path
    problem: str | None = None


class _Blob(msgspec.Struct, frozen=True):
    """A file of a tree: its permission bits (None: a symbolic link), the blob's name and size, its path."""

    mode: int | None
    name: str
    size: int
    path: str

    @property
    def shared(self) -> str:
        """The name under which its content is kept for all checkouts."""
        return f"{self.name}-{'link' if self.mode is None else oct(self.mode)}"


class ReplayCheckouts:
    """Checkouts of the workspace at `root`, the last `kept` of them kept in `folder` by commit."""

    def __init__(self, processes: process.Processes, root: Path, folder: Path, kept: int = 8) -> None:
        self._processes = processes
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
            except (git.GitError, process.ProcessError, OSError, ValueError) as error:
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
            found = await self._git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
            self._full[commit] = found.decode().strip()
        place = self._folder / self._full[commit]
        folder = place / _NAME
        if folder.is_dir():
            os.utime(place)
            return folder
        blobs = _listed(await self._git("ls-tree", "-r", "-l", "-z", place.name))
        missing = await asyncio.to_thread(self._missing, blobs)
        if missing:
            wanted = "".join(f"{blob.name}\n" for blob in missing)
            printed = await self._git("cat-file", "--batch", stdin=wanted.encode())
            await asyncio.to_thread(self._share, missing, printed)
        await asyncio.to_thread(self._make, place, blobs)
        return folder

    async def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        return await git.git_bytes(self._processes, self._root, *args, stdin=stdin)

    def _missing(self, blobs: Sequence[_Blob]) -> list[_Blob]:
        """What is not kept yet, each content once."""
        kept = self._folder / _BLOBS
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(kept)}
        return [*{blob.shared: blob for blob in blobs if sizes.get(blob.shared) != blob.size}.values()]

    def _share(self, missing: Sequence[_Blob], printed: bytes) -> None:
        kept = self._folder / _BLOBS
        for blob, content in zip(missing, _contents(printed), strict=True):
            beside = kept / f".{blob.shared}-{os.getpid()}"
            beside.write_bytes(content)
            beside.chmod(blob.mode or 0o644)
            beside.replace(kept / blob.shared)

    def _make(self, place: Path, blobs: Sequence[_Blob]) -> None:
        beside = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
        try:
            _write(beside / _NAME, blobs, self._folder / _BLOBS)
            beside.rename(place)
        except OSError:
            if not (place / _NAME).is_dir():  # else another process was faster
                raise
        finally:
            if beside.exists():
                tree.remove(beside)

    def _prune(self) -> None:
        if not self._folder.is_dir():
            return
        found = {path: path.stat().st_mtime for path in self._folder.iterdir() if path.name != _BLOBS}
        whole = sorted((path for path in found if path.name[0] != "."), key=found.__getitem__, reverse=True)
        old = time.time() - _HALF_MADE
        half = [path for path in found if path.name[0] == "." and found[path] < old]
        for path in [*whole[self._kept :], *half]:
            with contextlib.suppress(OSError):
                tree.remove(path)
        for entry in os.scandir(self._folder / _BLOBS):
            if entry.stat().st_nlink == 1 and entry.stat().st_mtime < old:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - there may be many


def _listed(printed: bytes) -> list[_Blob]:
    """Read ``git ls-tree -r -l -z``: files and links. Raises `ValueError` for a path that leads elsewhere."""
    found = []
    for line in printed.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            mode, _, name, size = head.decode("ascii").split()
            if mode in _KINDS:
                found.append(_Blob(_KINDS[mode], name, int(size), _safe(os.fsdecode(path))))
    return found


def _safe(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        raise ValueError(f"its tree holds the path {path!r}")
    return path


def _contents(printed: bytes) -> Iterator[bytes]:
    """Read ``git cat-file --batch``. Raises `ValueError` for an object that is missing."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        words = printed[at:end].split(b" ")
        if len(words) != 3 or words[1] != b"blob":
            raise ValueError(f"an object is missing: {printed[at:end].decode(errors='replace')}")
        size = int(words[2])
        yield printed[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _write(root: Path, blobs: Sequence[_Blob], kept: Path) -> None:
    """Write files, then links: nothing is written through a link. A link that leads outside is left out."""
    root.mkdir()
    links = []
    folders = set()
    for blob in blobs:
        path = root / blob.path
        if blob.mode is None:
            links.append((path, os.fsdecode((kept / blob.shared).read_bytes())))
            continue
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        os.link(kept / blob.shared, path)
    for path, target in links:
        if _stays(path.relative_to(root), target) and path.parent.resolve() == path.parent.absolute():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)


def _stays(link: Path, target: str) -> bool:
    """Whether a link stays in the tree: relative, and ``..`` only in front, where no other link can lead it astray."""
    parts = PurePosixPath(target).parts
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    wrong = not target or "\0" in target or target.startswith("/") or ".." in parts[up:]
    return not wrong and up < len(link.parts)
