"""A disk that fails on demand and remembers what was written in which order, below SQLite and `os`.

SQLite's own way to files (its VFS) is given functions that look before they pass on, by ctypes: no compiler, no mount.
The memory of the log of a database that is shared (`-shm`) is made anew after a crash and does not count.
"""

import _sqlite3
import contextlib
import ctypes
import errno
import os
import random
import re
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

READONLY, FULL, IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE = 8, 13, 778, 1034, 1546
MAIN, WAL = 0x100, 0x80000
SECTOR = 512

# A name stays the pointer that it is: SQLite keeps it for as long as the file is open.
_OPEN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, as far as it is used."""

    _fields_ = (
        *(("version", c_int), ("size", c_int), ("longest", c_int), ("next", c_void_p), ("name", c_char_p)),
        *(("data", c_void_p), ("open", _OPEN), ("delete", _DELETE)),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods` of version 3."""

    _fields_ = (
        *(("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", _WRITE)),
        *(("truncate", _TRUNCATE), ("sync", _SYNC), ("others", c_void_p * 13)),
    )


class Act(NamedTuple):
    """Something that was done to a file: ``write``, ``truncate``, ``sync`` or ``delete``."""

    kind: str
    path: str
    place: int = 0
    data: bytes = b""


class Disk:
    """What SQLite and `os` do below `folder` goes by here while it is in use as a context.

    `done` are SQLite's acts in order. With `fail` the acts of a kind fail from the n-th on, `times` of them.
    """

    def __init__(self, folder: Path) -> None:
        self.done: list[Act] = []
        self.failed = 0
        self._folder = str(folder)
        self._kind, self._number, self._times = "", 0, 0
        self._paths: dict[int, str] = {}
        self._tables: dict[int, _Methods] = {}

    def fail(self, kind: str, number: int, times: int) -> None:
        """Let the `number`-th act of a kind from now on fail, and those after it, `times` in all."""
        self._kind, self._number, self._times, self.failed = kind, number, times, 0

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Stand between SQLite, `os` and the file system."""
        vfs = _find()
        given_open, given_delete = _OPEN(_address(vfs.open)), _DELETE(_address(vfs.delete))

        def opened(at: int, name: int, file: int, flags: int, out: int) -> int:
            code: int = given_open(at, name, file, flags, out)
            if code == 0 and name and flags & (MAIN | WAL):
                path = os.fsdecode(ctypes.string_at(name))
                if path.startswith(self._folder):
                    self._take(file, path)
            return code

        def deleted(at: int, name: bytes, sync: int) -> int:
            code: int = given_delete(at, name, sync)
            if code == 0 and os.fsdecode(name).startswith(self._folder):
                self.done.append(Act("delete", os.fsdecode(name)))
            return code

        kept = _OPEN(opened), _DELETE(deleted)
        vfs.open, vfs.delete = kept
        plain = os.replace, os.rename, os.fsync
        os.replace, os.rename, os.fsync = (
            self._os(kind, one) for kind, one in zip(("rename", "rename", "fsync"), plain, strict=True)
        )  # type: ignore[assignment]
        try:
            yield
        finally:
            os.replace, os.rename, os.fsync = plain
            vfs.open, vfs.delete = given_open, given_delete

    def _is_failing(self, kind: str) -> bool:
        if kind != self._kind:
            return False
        self._number -= 1
        failing = -self._times < self._number <= 0
        self.failed += failing
        return failing

    def _os(self, kind: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **kwargs: Any) -> Any:
            if self._is_failing(kind):
                raise OSError(errno.ENOSPC if kind == "rename" else errno.EIO, "the disk fails")
            return plain(*args, **kwargs)

        return failing

    def _take(self, file: int, path: str) -> None:
        """Put our table of methods into an open file."""
        self._paths[file] = path
        methods = ctypes.cast(file, POINTER(c_void_p))
        address = methods[0]
        assert address is not None
        if address not in self._tables:
            self._tables[address] = self._watched(_Methods.from_address(address))
        methods[0] = ctypes.addressof(self._tables[address])

    def _watched(self, plain: _Methods) -> _Methods:
        write, truncate, sync = plain.write, plain.truncate, plain.sync

        def written(file: int, data: int, size: int, place: int) -> int:
            for kind, code in (("write", IOERR_WRITE), ("full", FULL)):
                if self._is_failing(kind):
                    return code
            self.done.append(Act("write", self._paths[file], place, ctypes.string_at(data, size)))
            return int(write(file, data, size, place))

        def truncated(file: int, size: int) -> int:
            if self._is_failing("truncate"):
                return IOERR_TRUNCATE
            self.done.append(Act("truncate", self._paths[file], size))
            return int(truncate(file, size))

        def synced(file: int, flags: int) -> int:
            if self._is_failing("sync"):
                return IOERR_FSYNC
            self.done.append(Act("sync", self._paths[file]))
            return int(sync(file, flags))

        made = _Methods()
        ctypes.pointer(made)[0] = plain
        made.write, made.truncate, made.sync = _WRITE(written), _TRUNCATE(truncated), _SYNC(synced)
        return made


def after_power_loss(done: list[Act], chance: random.Random | None) -> dict[str, bytes]:
    """Return the files as they may be when power is lost after `done`.

    What was not synced is gone; with `chance` some of its sectors are there, in no order.
    """
    last = {act.path: number for number, act in enumerate(done) if act.kind == "sync"}
    files: dict[str, bytearray] = {}
    for number, act in enumerate(done):
        file = files.setdefault(act.path, bytearray())
        if act.kind == "delete":
            # The folder is synced with it, or the file is found again: both are good to start with.
            del files[act.path]
            continue
        is_kept = number < last.get(act.path, -1)
        if act.kind == "truncate" and (is_kept or (chance and chance.random() < 0.5)):
            del file[act.place :]
            file.extend(bytes(act.place - len(file)))
        elif act.kind == "write":
            for start in range(0, len(act.data), SECTOR):
                if is_kept or (chance and chance.random() < 0.5):
                    _put(file, act.place + start, act.data[start : start + SECTOR])
    return {path: bytes(file) for path, file in files.items()}


def after_kill(done: list[Act]) -> dict[str, bytes]:
    """Return the files as they are when the process is killed after `done`: all that was written is there."""
    return after_power_loss([*done, *(Act("sync", act.path) for act in done if act.kind != "delete")], None)


def _put(file: bytearray, place: int, data: bytes) -> None:
    file.extend(bytes(max(0, place - len(file))))
    file[place : place + len(data)] = data


def _find() -> _Vfs:
    """The default VFS of the SQLite that Python's module uses."""
    mapped = Path("/proc/self/maps").read_text()
    found = re.search(r"(/\S*libsqlite3\S*)", mapped)
    library = ctypes.CDLL(found[1] if found else _sqlite3.__file__)
    library.sqlite3_vfs_find.restype = c_void_p
    return _Vfs.from_address(library.sqlite3_vfs_find(None))


def _address(function: Any) -> int:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return address
