"""A workspace's copy, to be changed and thrown away: an overlay, else a tree of reflinks, else of plain copies.

Hard links are not used: a program that writes into a file in place would change the original.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError
from instar.sandbox.level import Level
from instar.sandbox.view import View

_CLONE: Final = 0x40049409
_AT_ONCE: Final = 1 << 30
_SMALL: Final = 1 << 16
_PREFIX: Final = "instar-copy-"
_OLD: Final = 3600.0
_LOOKED: Final[set[Path]] = set()


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

    def view(self, level: Level, cwd: Path) -> View:
        """Return what a child in `cwd`, a folder of the workspace or of the copy, sees.

        Raises `ProcessError` when `cwd` lies outside both.
        """
        source, changes = str(self.source), str(self.changes)
        mounts: tuple[str, ...] = ("--bind", changes, source)
        if self.work is not None:
            mounts = ("--overlay-src", source, "--overlay", changes, str(self.work), source)
        home = self.scratch / "tmp"
        if level.name == "landlock":
            home.mkdir(exist_ok=True)
        return View(self._inside(cwd), mounts, (), (changes,), home)

    def _inside(self, cwd: Path) -> Path:
        real = cwd.resolve()
        for folder in (self.source, self.folder):
            if real.is_relative_to(folder):
                return self.folder / real.relative_to(folder)
        raise ProcessError(f"cannot start a sandboxed child in {cwd}: it lies outside {self.source}")


@contextmanager
def copy_of(
    source: Path, level: Level, beside: Path | None = None, without: Collection[str] = ()
) -> Iterator[Copy]:
    """Make a copy of `source` for as long as the block runs, in a new folder in `beside` (else the temporary folder).

    With an overlay nothing is copied; of the others the entries that `without` names, sockets, pipes and devices are
    left out. Raises `OSError`.
    """
    if beside is None:
        _remove_left(Path(tempfile.gettempdir()))
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=beside)).resolve()
    # Held for as long as the copy is used; a process that is killed lets go of it.
    held = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(held, fcntl.LOCK_EX)
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
            copy_tree(source, changes, without)
            folder = source if level.name == "bubblewrap" else changes
            yield Copy(source, folder, changes, None, scratch)
    finally:
        try:
            remove(scratch)
        finally:
            os.close(held)


def _remove_left(folder: Path) -> None:
    """Remove copies in `folder` whose process was killed: this user's, an hour old, held by nobody. Once a process."""
    if folder in _LOOKED:
        return
    _LOOKED.add(folder)
    for left in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else removes it too, or uses it
            status = left.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            if time.time() - status.st_mtime < _OLD:
                continue  # it may not be held yet
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(left)
            finally:
                os.close(handle)


def copy_tree(source: Path, target: Path, without: Collection[str] = ()) -> None:
    """Copy a tree: times, modes and links as they are; files share their blocks where the file system can.

    Entries of `source` itself that `without` names are left out.
    """
    target.mkdir()
    clones = True
    todo = [(str(source), str(target))]
    while todo:
        here, there = todo.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                to = f"{there}/{entry.name}"
                if here == str(source) and entry.name in without:
                    continue
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
    # Most files are small, and sendfile makes a pipe for each: a quarter of the time of a tree.
    data = os.read(reading, _SMALL)
    whole = len(data) < _SMALL
    while data:
        data = data[os.write(writing, data) :]
    while not whole and os.sendfile(writing, reading, None, _AT_ONCE):
        pass


def remove(folder: Path) -> None:
    """Remove a tree, also one in which a child took its own rights away."""
    for here, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(here, name)
            if not path.is_symlink():
                # Before the walk goes down into it.
                path.chmod(0o700)
    shutil.rmtree(folder)
