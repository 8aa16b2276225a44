"""A workspace's copy, to be changed and thrown away: an overlay, else a tree of reflinks, else of plain copies.

Source: issue 5, item 2. Hard links are not used: a program that writes into a file in place would change the original.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from instar.sandbox.level import Level

_CLONE: Final = 0x40049409
_AT_ONCE: Final = 1 << 30


class Copy(msgspec.Struct, frozen=True):
    """A copy of the folder `source`, as a sandbox shows it.

    `folder` is where a sandboxed child sees it: at `source` itself at the level "bubblewrap", else where it lies.
    Write into `changes` from outside, by the same relative paths, before a child runs; afterwards it holds what the
    children changed (with an overlay only that, else the whole tree). `work` is the overlay's own folder, None
    without one. `scratch` holds it all.
    """

    source: Path
    folder: Path
    changes: Path
    work: Path | None
    scratch: Path


@contextmanager
def copy_of(source: Path, level: Level, beside: Path | None = None) -> Iterator[Copy]:
    """Make a copy of `source` for as long as the block runs, in a new folder in `beside` (else the temporary folder).

    With an overlay nothing is copied. Sockets, pipes and devices are left out of the others. Raises `OSError`.
    """
    scratch = Path(tempfile.mkdtemp(prefix="instar-copy-", dir=beside)).resolve()
    source = source.resolve()
    changes = scratch / "tree"
    try:
        if level.overlay:
            work = scratch / "work"
            work.mkdir()
            changes.mkdir()
            shutil.copystat(source, changes)
            yield Copy(source, source, changes, work, scratch)
        else:
            copy_tree(source, changes)
            folder = source if level.name == "bubblewrap" else changes
            yield Copy(source, folder, changes, None, scratch)
    finally:
        _remove(scratch)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a tree: times, modes and links as they are; files share their blocks where the file system can."""
    target.mkdir()
    clones = True
    todo = [(str(source), str(target))]
    while todo:
        here, there = todo.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                to = f"{there}/{entry.name}"
                if entry.is_symlink():
                    Path(to).symlink_to(Path(entry.path).readlink())
                    shutil.copystat(entry.path, to, follow_symlinks=False)
                elif entry.is_dir():
                    Path(to).mkdir()
                    todo.append((entry.path, to))
                elif entry.is_file():
                    clones = _copy_file(entry.path, to, clones)
        shutil.copystat(here, there)


def _copy_file(source: str, target: str, clones: bool) -> bool:
    """Copy one file; return whether the next one should be tried as a clone."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(reading)
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            clones = clones and _cloned(writing, reading)
            if not clones:
                _bytes(reading, writing)
            os.fchmod(writing, stat.S_IMODE(status.st_mode))
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return clones


def _cloned(writing: int, reading: int) -> bool:
    try:
        fcntl.ioctl(writing, _CLONE, reading)
    except OSError:
        return False
    return True


def _bytes(reading: int, writing: int) -> None:
    while os.sendfile(writing, reading, None, _AT_ONCE):
        pass


def _remove(folder: Path) -> None:
    """Remove a tree, also one in which a child took its own rights away."""
    for here, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(here, name)
            if not path.is_symlink():
                # Before the walk goes down into it.
                path.chmod(0o700)
    shutil.rmtree(folder)
