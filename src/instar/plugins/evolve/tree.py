"""Walking a workspace's files: what stands in it, a copy of it, and the copy's removal.

Strings and `os` functions on purpose: with `pathlib` a workspace of 2,000 files takes twice as long, and a
candidate waits for the copy.
"""
# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH114, PTH118, PTH120, PTH211

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

_MEMORY: Final = "/dev/shm"  # noqa: S108 - mkdtemp makes a folder of our own in it
_SMALL: Final = 64 << 20
_CHUNK: Final = 1 << 20

Scan = dict[str, tuple[int, int, int, int]]
"""Each file's path in the workspace with what tells its versions apart (inode, size, mode, mtime in ns)."""


def scan(root: Path) -> Scan:
    """Return the files and links under `root`, without ``.git`` and repositories inside it."""
    found: Scan = {}
    _walk(str(root), "", found)
    return found


def copy(source: Path, target: Path, stopped: Callable[[], bool] = lambda: False) -> None:
    """Copy a workspace without ``.git`` to the new folder `target`: files, folders, links that stay inside.

    A link that leads outside is left out, so that nothing done in the copy can reach through it; so are
    sockets and pipes. Raises `OSError`, `InterruptedError` as soon as `stopped` says so.
    """
    target.mkdir()
    roots = os.path.realpath(source), os.path.realpath(target)
    _copy(str(source), str(target), roots, stopped)


def place_for_copy(source: Path) -> str | None:
    """Return the memory file system if a copy of `source` fits there and may run; None for the usual place.

    Making 2,000 files costs 20 ms in memory and 400 ms on a disk. ``TMPDIR``, where the person set it, is
    the usual place.
    """
    if os.environ.get("TMPDIR") or sum(size for _, size, _, _ in scan(source).values()) > _SMALL:
        return None
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return None
    roomy = found.f_bavail * found.f_frsize > 4 * _SMALL
    runs = not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return _MEMORY if roomy and runs and os.access(_MEMORY, os.W_OK | os.X_OK) else None


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, also what was made read-only."""

    def unlock(function: object, path: str, error: object) -> None:
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, stat.S_IRWXU)
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)

    shutil.rmtree(folder, onerror=unlock)


def _walk(root: str, prefix: str, found: Scan) -> None:
    try:
        entries = list(os.scandir(os.path.join(root, prefix)))
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git" and not os.path.lexists(os.path.join(entry.path, ".git")):
                _walk(root, path, found)
            continue
        info = _info(entry)
        if info is not None and (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
            found[path] = (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns)


def _info(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None  # gone since the folder was listed


def _copy(source: str, target: str, roots: tuple[str, str], stopped: Callable[[], bool]) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            if stopped():
                raise InterruptedError("the copy was stopped")
            there = os.path.join(target, entry.name)
            if entry.is_symlink():
                _copy_link(entry.path, there, *roots)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    os.mkdir(there)
                    _copy(entry.path, there, roots, stopped)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.path, there)


def _copy_file(file: str, there: str) -> None:
    with contextlib.ExitStack() as opened:
        source = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened.callback(os.close, source)
        target = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, target)
        while data := os.read(source, _CHUNK):
            while data:
                data = data[os.write(target, data) :]
        os.fchmod(target, stat.S_IMODE(os.fstat(source).st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def _copy_link(link: str, there: str, root: str, copy: str) -> None:
    meant = os.path.realpath(link)
    if meant == root or meant.startswith(root + os.sep):
        os.symlink(os.path.join(copy, os.path.relpath(meant, root)), there)
