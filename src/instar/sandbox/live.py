"""A workspace itself, as a sandbox shows it to a script: read-only at its own path, but for what it was granted.

A script's grant gives it less than the shield does (docs/evolve.md). A folder is opened step by step, never through a
link. What is mounted or granted is what was opened: a program that puts a link in its place meanwhile gains nothing.
"""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError
from instar.sandbox.copies import remove
from instar.sandbox.level import Level
from instar.sandbox.view import View

_STEP: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAPABILITIES: Final = ("--cap-drop", "ALL")
"""Root without a user namespace of its own could change the network that it shares."""
_Identity = tuple[int, int]


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

    def view(self, level: Level, cwd: Path) -> View:
        """Return what a child in `cwd` sees, with the missing folders made.

        Raises `ProcessError` when a writable folder is, or leads through, a link; lies outside `source`; or is, holds
        or lies in a guarded or hidden one.
        """
        source, real = self.source.resolve(), cwd.resolve()
        places = (source, *(path.resolve() for path in self.shown))
        if not any(real.is_relative_to(place) for place in places):
            raise ProcessError(f"cannot start a sandboxed child in {cwd}: it lies outside {source}")
        with ExitStack() as held:
            try:
                return self._view(held, level, source, real)
            except OSError as error:
                raise ProcessError(f"cannot make a sandbox on {source}: {error}") from error

    def _view(self, held: ExitStack, level: Level, source: Path, cwd: Path) -> View:
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
        return View(
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
