"""Contents by their hash, and files of our own that are replaced whole: what stands behind the ledger.

A folder of instar's data. Whatever stands in a file's place there (a folder, a link, a pipe) is put aside or replaced,
never followed, waited for or trusted: bytes count only when their hash says so.
"""
# ruff: noqa: PTH105, PTH108

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from instar.plugins.evolve.history import tree
from instar.plugins.evolve.ledger import standing

_KEPT_SECONDS: Final = 30 * 24 * 3600.0


def sha256(data: bytes) -> str:
    """Return the hash under which `data` is kept."""
    return hashlib.sha256(data).hexdigest()


class Vault:
    """Contents below `folder`, each in a file named by its hash. Raises `OSError` where it cannot write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep `data` and return its hash. `durable`: on the disk before this returns."""
        sha = sha256(data)
        if self.get(sha) is None:
            replace(self._path(sha), data, durable=durable)
        return sha

    def get(self, sha: str) -> bytes | None:
        """Return the bytes of this hash; None where they are not kept, or what is kept is not they."""
        path = self._path(sha)
        try:
            found = standing.read(path.parent, path.name, keep=True)
        except (OSError, ValueError, standing.NotPlain):
            return None
        return found.data if found.sha == sha else None

    def holds(self, sha: str, size: int) -> bool:
        """Whether bytes of this hash seem to be kept: a file of that size, not read."""
        try:
            info = self._path(sha).lstat()
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(info.st_mode) and info.st_size == size

    def prune(self, kept: Collection[str]) -> None:
        """Drop what is not in `kept` and has not been written for thirty days."""
        oldest = time.time() - _KEPT_SECONDS
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                if path.name not in kept and path.lstat().st_mtime < oldest:
                    path.unlink()

    def _path(self, sha: str) -> Path:
        return self._folder / sha[:2] / sha


def make_folder(folder: Path) -> None:
    """Make a private folder; what stands there and is none is put aside. Raises `OSError`."""
    if _is_folder(folder) and _is_folder(folder.parent):
        return
    for path in (*reversed(folder.parents), folder):
        with contextlib.suppress(FileNotFoundError):
            # Links above are the person's; the folder itself and the one that holds it are ours.
            there = path.lstat() if path in (folder, folder.parent) else path.stat()
            if stat.S_ISDIR(there.st_mode):
                continue
            put_aside(path)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            sync_folder(path.parent)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def put_aside(path: Path) -> Path:
    """Rename what stands at `path` to a name beside it that is free, and return that. Raises `OSError`."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.broken-{number}")):
        number += 1
    os.rename(path, aside)  # noqa: PTH104
    return aside


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put a private file in place whole: written beside, synced, renamed. Raises `OSError`.

    A link there is replaced, a folder put aside.
    """
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    _clear(beside)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if path.is_dir() and not path.is_symlink():
            put_aside(path)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file of our own, durably; it may be gone already. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises `OSError`."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear(beside: Path) -> None:
    if beside.is_dir() and not beside.is_symlink():
        tree.remove(beside)
    else:
        beside.unlink(missing_ok=True)
