"""The book of heartbeats: the state of the schedule and the log of beats, in one append-only file.

Each line is one change: the entries that it adds and the state after it, so that both are written or neither is. The
file lies in evolve's own folder, where no child can write. It is rewritten with its newest part when
it has grown to twice `largest` bytes. A line that a crash cut short is passed over. A file without one whole line is
put aside: the schedule begins anew, never with a beat.
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import accepted, document
from instar.plugins.evolve.heartbeat.schedule import BeatEntry, State, Turned

FILE: Final = "beats.jsonl"
log = logging.getLogger("instar.evolve")

_LARGEST: Final = 1 << 18
_TAIL: Final = 1 << 14
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BookLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change."""

    state: State
    entries: list[BeatEntry] = []


class HeartbeatBook:
    """The book in `folder`, which several processes may read and change.

    `durable`: a change is on the disk before `change` returns. Methods raise `OSError`; a change that could not be
    written has not happened.
    """

    def __init__(self, folder: Path, *, largest: int = _LARGEST, durable: bool = True) -> None:
        self.folder = folder
        self._path = folder / FILE
        self._largest = largest
        self._durable = durable
        self._known: tuple[tuple[int, int, int], State] | None = None
        self._broken = False
        self.problem = ""

    @property
    def state(self) -> State:
        """Return the state; a new one where nothing was written yet."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return State()
        signature = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._known is None or self._known[0] != signature:
            self._known = (signature, self._last())
        return self._known[1]

    def change(self, turn: Callable[[State], Turned], now: int) -> State:
        """Turn the state as it stands now, write what came of it, and return it. `now` in ms is kept as `seen`.

        Nothing else changes the book meanwhile. What `turn` raises is raised. Nothing is written where nothing changed.
        """
        with document.locked(self.folder):
            before = self.state
            state, entries = turn(before)
            if state == before and not entries:
                return before
            state = msgspec.structs.replace(state, seen=now)
            self._append(BookLine(state, entries))
            return state

    def entries(self, most: int | None = None) -> list[BeatEntry]:
        """Return the log, oldest first, or the last `most` entries of it."""
        found = [entry for line in self._lines(self._read(None)) for entry in line.entries]
        return found if most is None else found[max(0, len(found) - most) :]

    def _last(self) -> State:
        for size in (_TAIL, None):
            data = self._read(size)
            lines = self._lines(data)
            if lines:
                self._broken = False
                return lines[-1].state
        # The very first line, cut short by a crash, is no book that was lost.
        self._broken = data is None or b"\n" in data
        return State()

    def _read(self, size: int | None) -> bytes | None:
        """The last `size` bytes, or all of them; None where something stands that is no file, or cannot be read."""
        try:
            handle = os.open(self._path, _READ)
        except FileNotFoundError:
            return b""
        except OSError:
            return None
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return None
            start = max(0, found.st_size - size) if size is not None else 0
            os.lseek(handle, start, os.SEEK_SET)
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)

    def _lines(self, data: bytes | None) -> list[BookLine]:
        # A line that lacks nothing but its end counts: the next one begins with a newline.
        return [line for one in (data or b"").split(b"\n") if one and (line := _line(one)) is not None]

    def _append(self, line: BookLine) -> None:
        data = msgspec.json.encode(line) + b"\n"
        if self._broken:
            self._put_aside()
        handle = os.open(self._path, _WRITE, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            self._put(handle, size, data)
            found = os.fstat(handle)
        finally:
            os.close(handle)
        if self._durable and not size:
            accepted.sync_folder(self.folder)
        if found.st_size > 2 * self._largest:
            self._shorten()
        else:
            self._known = ((found.st_ino, found.st_size, found.st_mtime_ns), line.state)

    def _put(self, handle: int, size: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(handle, data) :]
            if self._durable:
                os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)
            raise

    def _put_aside(self) -> None:
        aside = accepted.put_aside(self._path)
        self.problem = (
            f"the heartbeat's book could not be read and was put aside as {aside}: its times are lost"
        )
        self._broken = False

    def _shorten(self) -> None:
        self._known = None
        kept = self._read(self._largest) or b""
        try:
            accepted.replace(self._path, kept[kept.find(b"\n") + 1 :], durable=self._durable)
        except OSError as error:
            # The change itself is written; the next one tries again.
            log.warning("heartbeat=book problem=%r", str(error))


def _line(one: bytes) -> BookLine | None:
    try:
        return msgspec.json.decode(one, type=BookLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
