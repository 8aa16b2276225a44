"""One call of a warm interpreter: its streams and its end, told to the child as asyncio tells of a subprocess."""

import asyncio
import os
import signal as signals
from collections.abc import Callable
from typing import BinaryIO

from instar.process.child import Child, Feed
from instar.process.group import send
from instar.process.reason import Seen


class Call:
    """A transport of one call; `over` is called once when the child lets go of it.

    `failed` says why a program did not start although its process had begun: the error's number and what was seen of
    its file.
    """

    def __init__(self, child: Child, number: int, over: Callable[["Call"], None]) -> None:
        self.number = number
        self.failed: tuple[int, Seen] | None = None
        self.begun: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._child = child
        self._over = over
        self._pid = 0
        self._code: int | None = None
        self._ours: dict[int, BinaryIO] = {}
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._closed = False

    def open(self, stdin: Feed, merge: bool) -> list[int]:
        """Open the pipes and return the program's ends: 0, 1 and 2. Raises `OSError`."""
        theirs: list[int] = []
        try:
            theirs.append(self._feed(stdin))
            theirs.append(self._pipe(1))
            theirs.append(theirs[1] if merge else self._pipe(2))
        except OSError:
            for descriptor in theirs:
                os.close(descriptor)
            raise
        return theirs

    def _pipe(self, fd: int) -> int:
        reading, writing = os.pipe()
        self._ours[fd] = os.fdopen(reading, "rb", 0)
        return writing

    def _feed(self, stdin: Feed) -> int:
        if isinstance(stdin, int):
            return os.dup(stdin)
        if not stdin:
            return os.open(os.devnull, os.O_RDWR)
        reading, feed = os.pipe()
        self._ours[0] = os.fdopen(feed, "wb", 0)
        return reading

    async def connect(self, stdin: Feed) -> None:
        """Read its output and write `stdin`, in the background."""
        loop = asyncio.get_running_loop()
        for fd, file in self._ours.items():
            if fd == 0:
                feed, _ = await loop.connect_write_pipe(lambda: _Pipe(self, 0), file)
                self._pipes[0] = feed
                # A script that stops reading breaks the pipe, which is its right.
                assert isinstance(stdin, bytes)
                feed.write(stdin)
                feed.write_eof()
            else:
                self._pipes[fd], _ = await loop.connect_read_pipe(lambda fd=fd: _Pipe(self, fd), file)  # type: ignore[misc]

    def abandon(self) -> None:
        """Let go of a call that was not begun."""
        for file in self._ours.values():
            file.close()
        self._over(self)

    def begin(self, pid: int) -> None:
        """The fork said its number: from here on the script may have run."""
        self._pid = pid
        if not self.begun.done():
            self.begun.set_result(pid)

    def fail(self, number: int, seen: Seen) -> None:
        """The program did not start: the error's `number` and what was `seen` of its file."""
        self.failed = number, seen

    def exit(self, code: int) -> None:
        """The fork has ended; one that never said its number did not begin."""
        if not self.begun.done():
            self.begun.set_result(None)
        elif self._code is None:
            self._code = code
            self._child.process_exited()

    def lose(self) -> None:
        """The interpreter is gone, and nobody will tell of the fork's end: end it."""
        if self.begun.done() and self._pid and self._code is None:
            send(self._pid, signals.SIGKILL)
        self.exit(-signals.SIGKILL)

    def get_pid(self) -> int:
        """Return the fork's process id, which is also its group's."""
        return self._pid

    def get_returncode(self) -> int | None:
        """Return its exit code, the negative number of a signal, or None while it runs."""
        return self._code

    def close(self) -> None:
        """Let go of the pipes; the interpreter is told that the run is over."""
        if self._closed:
            return
        self._closed = True
        for pipe in self._pipes.values():
            pipe.close()
        self._over(self)
        self._settle()

    def data(self, fd: int, data: bytes) -> None:
        """Output came."""
        self._child.pipe_data_received(fd, data)

    def lost(self, fd: int, error: Exception | None) -> None:
        """A pipe is closed."""
        self._pipes.pop(fd, None)
        if fd:
            self._child.pipe_connection_lost(fd, error)
        self._settle()

    def _settle(self) -> None:
        if self._closed and not self._pipes:
            self._child.connection_lost(None)


class _Pipe(asyncio.Protocol):
    """One end of one pipe."""

    def __init__(self, call: Call, fd: int) -> None:
        self._call = call
        self._fd = fd

    def data_received(self, data: bytes) -> None:
        self._call.data(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._call.lost(self._fd, exc)
