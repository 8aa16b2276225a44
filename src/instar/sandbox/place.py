"""The places that a sandbox can show: a copy of a workspace, to be changed and thrown away, or the workspace itself.

A copy is an overlay, else a tree of reflinks, else of plain copies. Hard links are not used: a program that writes into
a file in place would change the original.

The workspace itself is read-only at its own path, but for what a script was granted (docs/concepts/authority.md). A
folder is opened step by step, never through a link. What is mounted or granted is what was opened: a program that
puts a link in its place meanwhile gains nothing.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError
from instar.sandbox.level import Level

_CLONE: Final = 0x40049409
_AT_ONCE: Final = 1 << 30
_SMALL: Final = 1 << 16
_PREFIX: Final = "instar-copy-"
_OLD: Final = 3600.0
_LOOKED: Final[set[Path]] = set()
# macOS has none; it has no level that makes a place either.
_STEP: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAPABILITIES: Final = ("--cap-drop", "ALL")
"""Root without a user namespace of its own could change the network that it shares."""
_Identity = tuple[int, int]


class PlaceView(msgspec.Struct, frozen=True):
    """How a place looks from inside, for one child.

    `cwd` is its folder there. `mounts` are bubblewrap's arguments for the place itself; `read` and `write` are what
    Landlock alone grants, `listed` folders of which it shows the names. `home` is the child's home at the level
    "landlock". `network` is whether it has the person's. `inet` keeps it from sockets other than the internet's.
    `descriptors` stay open until the child has become its program; `after` lets go of them and of `home`.
    """

    cwd: Path
    mounts: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]
    home: Path
    listed: tuple[str, ...] = ()
    network: bool = False
    inet: bool = False
    descriptors: tuple[int, ...] = ()
    after: Callable[[], None] = lambda: None


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

    def view(self, level: Level, cwd: Path) -> PlaceView:
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
        return PlaceView(self._inside(cwd), mounts, (), (changes,), home)

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
    folder.chmod(0o700)
    for here, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(here, name)
            if not path.is_symlink():
                # Before the walk goes down into it.
                path.chmod(0o700)
    shutil.rmtree(folder)


class Live(msgspec.Struct, frozen=True):
    """The folder `source`, for a `Sandbox`.

    `writable` are folders of it, relative to it or absolute; one that is missing is made. `guarded` ones are never
    written and `hidden` ones not read either; they need not exist, and hidden ones outside `source` are not there
    anyway. `network` gives the person's own network instead of none; sockets are then the internet's alone.
    `shown` are other folders that a child may read and be started in: the last good tree of a workspace.
    """

    source: Path
    writable: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    shown: tuple[Path, ...] = ()

    def view(self, level: Level, cwd: Path) -> PlaceView:
        """Return what a child in `cwd` sees, with the missing folders made.

        Raises `ProcessError` when a writable folder is, or leads through, a link; lies outside `source`; or is, holds
        or lies in a guarded or hidden one.
        """
        source, real = self.source.resolve(), cwd.resolve()
        if not self.holds(cwd):
            raise ProcessError(f"cannot start a sandboxed child in {cwd}: it lies outside {source}")
        with ExitStack() as held:
            try:
                return self._view(held, level, source, real)
            except OSError as error:
                raise ProcessError(f"cannot make a sandbox on {source}: {error}") from error

    def _view(self, held: ExitStack, level: Level, source: Path, cwd: Path) -> PlaceView:
        hidden = self._hidden(source)
        closed = _Closed([*(self._at(source, path) for path in self.guarded), *hidden])
        names = {self._named(source, path, closed) for path in self.writable}
        root = _step(held, source, None, source)
        opened = {name: _open(held, source, root, name, closed) for name in sorted(names)}
        home = source
        if level.name == "landlock":
            home = Path(tempfile.mkdtemp(prefix="instar-home-")).resolve()
            held.callback(remove, home)
        mask = [path for path in hidden if path.exists()]
        read, listed = _readable(source, root, mask)
        shown = [
            word for path in self.shown for word in ("--ro-bind", str(path.resolve()), str(path.resolve()))
        ]
        return PlaceView(
            cwd=cwd,
            mounts=(*_CAPABILITIES, *_mounts(source, root, opened, level), *shown, *_masks(mask)),
            read=(*read, *(str(path.resolve()) for path in self.shown)),
            write=tuple(_by(descriptor) for descriptor in opened.values()),
            home=home,
            listed=listed,
            network=self.network,
            inet=True,
            descriptors=(root, *opened.values()),
            after=held.pop_all().close,
        )

    def holds(self, cwd: Path) -> bool:
        """Whether a child may be started in this folder."""
        real = cwd.resolve()
        return any(real.is_relative_to(place.resolve()) for place in (self.source, *self.shown))

    def identities(self) -> tuple[_Identity, ...]:
        """Return which folders and files the names lead to as of now; (0, 0) for none."""
        source = self.source.resolve()
        named = (
            source,
            *(self._at(source, path) for path in self.writable),
            *self.shown,
            *self._hidden(source),
        )
        return tuple(_named_identity(path) for path in named)

    def _at(self, source: Path, path: Path) -> Path:
        """A path as it is meant: relative to the workspace, and by the workspace's real path if it is named by it."""
        named = Path(os.path.normpath(self.source.absolute()))
        full = Path(os.path.normpath(named / path))
        return source / full.relative_to(named) if full.is_relative_to(named) else full

    def _hidden(self, source: Path) -> list[Path]:
        """What is hidden inside the workspace, by real paths, and nothing that lies in another one."""
        found = {self._at(source, path).resolve() for path in self.hidden}
        inside = {path for path in found if path.is_relative_to(source) and path != source}
        return sorted(path for path in inside if not inside.intersection(path.parents))

    def _named(self, source: Path, path: Path, closed: "_Closed") -> Path:
        """The name of a writable folder in the workspace, once it is known that it may be one."""
        full = self._at(source, path)
        if not full.is_relative_to(source):
            raise _refusal(path, f"it lies outside {source}", "name a folder of the workspace")
        for other in closed.paths:
            if full.is_relative_to(other) or other.is_relative_to(full):
                raise _guarded(path, other)
        return full.relative_to(source)


def _named_identity(path: Path) -> _Identity:
    try:
        status = path.lstat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


class _Closed:
    """What may not be written, by name and by identity: a name can be written in more than one way, a folder is one."""

    def __init__(self, named: Iterable[Path]) -> None:
        self.paths = sorted({place for path in named for place in (path, path.resolve())})
        self.inside = dict[_Identity, Path]()
        self.above = dict[_Identity, Path]()
        for path in self.paths:
            for place in (path, *path.parents):
                try:
                    status = place.stat()
                except OSError:
                    continue
                (self.inside if place == path else self.above)[status.st_dev, status.st_ino] = path


def _open(held: ExitStack, source: Path, root: int, name: Path, closed: _Closed) -> int:
    """Open a folder of the workspace step by step, and make what is missing of it."""
    here, path = root if name.parts else _step(held, source, None, source), source
    for part in name.parts:
        path /= part
        here = _step(held, path, here, source / name)
        if other := closed.inside.get(_identity(here)):
            raise _guarded(path, other)
    if other := closed.above.get(_identity(here)):
        raise _guarded(path, other)
    return here


def _step(held: ExitStack, path: Path, above: int | None, wanted: Path) -> int:
    name = path.name if above is not None else str(path)
    try:
        if above is not None and not _exists(name, above):
            os.mkdir(name, dir_fd=above)
        descriptor = os.open(name, _STEP, dir_fd=above)
    except OSError as error:
        why = f"{path} cannot be opened or made ({error.strerror})"
        if _exists(name, above):
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            why = f"{path} is a link" if stat.S_ISLNK(mode) else why
            why = f"{path} is not a folder" if stat.S_ISREG(mode) else why
        raise _refusal(wanted, why, "put a folder there, or name another") from error
    held.callback(os.close, descriptor)
    return descriptor


def _exists(name: str, above: int | None) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return True


def _identity(descriptor: int) -> _Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _mounts(source: Path, root: int, opened: dict[Path, int], level: Level) -> Iterator[str]:
    # What overlays can also compares what it mounted with what was opened (bubblewrap 0.11); before, a name must do.
    same = level.overlay
    yield from ("--ro-bind-fd", str(root), str(source)) if same else ("--ro-bind", str(source), str(source))
    for name, descriptor in opened.items():
        place = str(source / name)
        yield from ("--bind-fd", str(descriptor), place) if same else ("--bind", place, place)


def _masks(paths: Iterable[Path]) -> Iterator[str]:
    for path in map(str, paths):
        if Path(path).is_dir():
            yield from ("--perms", "0700", "--tmpfs", path, "--remount-ro", path)
        else:
            yield from ("--ro-bind", "/dev/null", path)


def _readable(source: Path, root: int, hidden: Sequence[Path]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What Landlock opens for reading: the workspace, or all that stands beside what is hidden; and what it lists."""
    if not hidden:
        return (_by(root),), ()
    above = {parent for path in hidden for parent in path.parents if parent.is_relative_to(source)}
    beside = [entry for folder in above for entry in folder.iterdir()]
    return tuple(str(path) for path in beside if path not in above and path not in hidden), tuple(
        str(path) for path in above
    )


def _by(descriptor: int) -> str:
    """A path to an open folder that no link can turn elsewhere, for the process that has it open."""
    return f"/proc/self/fd/{descriptor}/."


def _guarded(path: Path, other: Path) -> ProcessError:
    return _refusal(path, f"it is, holds or lies in {other}, which is guarded", "name another folder")


def _refusal(path: Path, why: str, todo: str) -> ProcessError:
    return ProcessError(f"cannot give a script {path} to write: {why}; {todo}")
