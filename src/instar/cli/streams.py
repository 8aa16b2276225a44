"""Standard output and error of a program that never waits for who reads them: a thread writes, and waits.

A pipe that nobody reads, or a terminal that Ctrl-S holds, would else stop turns, other sessions and signals.
"""

import io
import os
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final, cast

MOST: Final = 1 << 20
"""Bytes that may wait when something is printed on standard error; then it is dropped, and counted."""
PATIENCE: Final = 0.5
"""Seconds that the end waits for who reads standard error, and after a signal for who reads anything."""
_PIECE: Final = 1 << 16


class Printer:
    """Writes to a descriptor in a thread. `patience` is how many seconds the end waits for it; None is for ever."""

    def __init__(self, descriptor: int, patience: float | None) -> None:
        self.descriptor = descriptor
        self.patience = patience
        self._waiting = bytearray()
        self._dropped = 0
        self._failure: OSError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="instar-output", daemon=True).start()

    @property
    def waiting(self) -> int:
        """How many bytes are yet to be written."""
        return len(self._waiting)

    def check(self) -> None:
        """Raise what writing met: `BrokenPipeError` when nobody can read any more."""
        if self._failure is not None:
            raise self._failure

    def put(self, data: Any, most: int | None) -> None:
        """Take `data`, unless more than `most` bytes would wait. Raises as `check` does."""
        self.check()
        with self._changed:
            if most is not None and len(self._waiting) + len(data) > most:
                self._dropped += 1
            else:
                self._waiting += data
                self._changed.notify_all()

    @property
    def is_behind(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._waiting)

    def written(self) -> bool:
        """Wait until all is written; False when that took too long. Raises as `check` does."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure or not self._waiting, self.patience)
        self.check()
        return bool(done)

    def _run(self) -> None:
        while self._failure is None:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                piece = bytes(self._waiting[:_PIECE])
            try:
                size, failure = os.write(self.descriptor, piece), None
            except BlockingIOError:  # whoever shares the descriptor wants it so
                time.sleep(0.01)
                continue
            except OSError as error:
                size, failure = 0, error
            with self._changed:
                self._failure = failure
                del self._waiting[:size]
                if self._dropped and not self._waiting:
                    text = f"instar: {self._dropped} lines were dropped here: nobody read them\n"
                    self._waiting += text.encode()
                    self._dropped = 0
                self._changed.notify_all()


class PrintedStream(io.RawIOBase):
    """A stream that a `Printer` writes; see its `put` for `most`."""

    def __init__(self, printer: Printer, most: int | None) -> None:
        self._printer = printer
        self._most = most

    def writable(self) -> bool:
        """It is written to."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._printer.descriptor

    def isatty(self) -> bool:
        """Whether a person may read along."""
        return os.isatty(self._printer.descriptor)

    def flush(self) -> None:
        """Wait for nothing. Raises as `Printer.check` does."""
        self._printer.check()

    def write(self, data: Any) -> int:
        """Give `data` to the printer."""
        self._printer.put(data, self._most)
        return len(data)


_replaced: dict[str, tuple[Any, Printer]] = {}
"""By its name in `sys` each stream that was replaced, and what writes in its place."""


def replace() -> None:
    """Replace the standard streams that can be full; a file never is."""
    for name, most, patience in (("stdout", None, None), ("stderr", MOST, PATIENCE)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty():
            # On a terminal, or after 2>&1, what is printed on both keeps its order.
            same = [
                one for _, one in _replaced.values() if os.path.sameopenfile(one.descriptor, stream.fileno())
            ]
            printer = same[0] if same else Printer(stream.fileno(), patience)
            _replaced[name] = stream, printer
            raw = cast("Any", PrintedStream(printer, most))
            setattr(sys, name, io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True))


def is_behind() -> bool:
    """Whether standard output has not taken yet what was printed: it is slow, or Ctrl-S holds it."""
    return "stdout" in _replaced and _replaced["stdout"][1].is_behind


def hurry() -> None:
    """A signal ends the program: the end does not wait for who reads."""
    for _, printer in _replaced.values():
        printer.patience = PATIENCE


def drop() -> None:
    """The terminal is gone: what is printed from now on is nobody's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for name, (_, printer) in _replaced.items():
        os.dup2(nowhere, printer.descriptor)
        setattr(sys, name, os.fdopen(os.dup(nowhere), "w"))
    _replaced.clear()
    os.close(nowhere)


def finish() -> None:
    """Wait until standard output is written. Raises `BrokenPipeError` when nobody can read it any more."""
    if "stdout" in _replaced:
        _replaced["stdout"][1].written()
    else:
        sys.stdout.flush()


def restore() -> None:
    """Put back the streams, for a last word of the interpreter; but for one that is full still."""
    hurry()
    for name, (stream, printer) in _replaced.items():
        with suppress(OSError):
            if not printer.written():
                continue
        setattr(sys, name, stream)
