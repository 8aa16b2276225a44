"""One child: its streams, its group, its end.

Descendants are found by their process group, and by a mark in their environment: one that makes a session of its own
(``setsid``, a daemon) leaves the group, but inherits the environment. Where there is no /proc, only the group is known.
A process that also cleans its environment is not found, unless a fork server started the child (`launcher`): what runs
for the model starts so, or is held by its confinement.
"""

import asyncio
import os
import signal as signals
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from instar.process.output import Output, ProcessError, Seen, reason

T = TypeVar("T")
Feed = bytes | int  # what a child reads: these bytes, or an open descriptor

GRACE: Final = 0.3
"""Seconds between SIGTERM and SIGKILL."""

DRAIN: Final = 0.2
"""Seconds for which a pipe is still read after the child has gone."""

_SWEEPS: Final = 5
_CHUNK: Final = 1 << 18
"""Bytes that are read at once."""

MIB: Final = 1 << 20

VARIABLE: Final = "INSTAR_RUN"
"""The variable of the mark. Runs inside runs are joined by a colon, the outer one first."""
_PROC: Final = Path("/proc")


Launch = Callable[["Child"], Awaitable[asyncio.SubprocessTransport]]
"""Starts a program whose output and end the child is told of. Raises `ProcessError`."""


def plainly(argv: Sequence[str], stdin: Feed, merge: bool, **where: Any) -> Launch:
    """Return the launch of a fresh process; `where` is what `subprocess.Popen` takes: `cwd`, `env`, `pass_fds`."""

    async def launch(child: "Child") -> asyncio.SubprocessTransport:
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: child,
                *argv,
                stdin=stdin if isinstance(stdin, int) else PIPE if stdin else DEVNULL,
                stdout=PIPE,
                stderr=STDOUT if merge else PIPE,
                **where,
                start_new_session=True,
            )
        except (OSError, ValueError, TypeError) as error:
            raise ProcessError(reason(argv, where["cwd"], error)) from error
        feed = transport.get_pipe_transport(0) if stdin else None
        if isinstance(feed, asyncio.WriteTransport) and isinstance(stdin, bytes):
            # Written in the background; a child that stops reading breaks the pipe, which is its right.
            feed.write(stdin)
            feed.write_eof()
        return transport

    return launch


class Child(asyncio.SubprocessProtocol):
    """One child and its group, from start to the last descriptor."""

    def __init__(
        self, out: "Capture", err: "Capture", on_output: Callable[[bytes], None] | None = None, mark: str = ""
    ) -> None:
        loop = asyncio.get_running_loop()
        self._streams = {1: out, 2: err}
        self._open = set[int]()
        self._on_output = on_output
        self._mark = mark
        self._failure: Exception | None = None
        self._exited = loop.create_future()
        self._drained = loop.create_future()
        self._lost = loop.create_future()
        self._starting: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended = 0.0

    def start(self, launch: Launch, merge: bool) -> asyncio.Future[None]:
        """Start it by `launch`, which says how; `merge`: its stderr goes into its stdout."""
        self._starting = asyncio.ensure_future(self._start(launch, merge))
        return self._starting

    async def exit(self, timeout: float | None) -> bool:
        """Wait for the child's exit; False when `timeout` seconds passed first."""
        await _settled(self._exited, timeout)
        if self._failure is not None:
            raise self._failure
        return self._exited.done()

    def end(self) -> asyncio.Future[None]:
        """End what is left of the group and close every descriptor. Later calls wait for the same end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        return self._ending

    @property
    def pid(self) -> int | None:
        """Its process id, None before it was started."""
        return None if self._transport is None else self._transport.get_pid()

    @property
    def launched(self) -> bool:
        """Whether a fork server started it, which ends what it leaves behind."""
        return isinstance(self._transport, ForkedProcess) and not self._transport.deserted

    @property
    def running(self) -> bool:
        """Whether it has not exited."""
        return not self._exited.done()

    def output(self, started: float, timed_out: bool, signal: int | None = None) -> Output:
        """Return what it did, once it has ended; `signal` is the one that ended the program behind a confinement."""
        assert self._transport is not None
        out, err = self._streams[1], self._streams[2]
        code = self._transport.get_returncode()
        killed = signals.SIGKILL if code is None else -code if code < 0 else signal
        return Output(
            code=None if killed else code,
            signal=int(killed) if killed else None,
            stdout=bytes(out.head),
            stderr=bytes(err.head),
            timed_out=timed_out,
            truncated=out.truncated or err.truncated,
            duration=(self._ended or time.monotonic()) - started,
            size=out.size,
        )

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what came on a stream."""
        self._streams[fd].add(data)
        if fd == 1 and self._on_output is not None and self._failure is None:
            try:
                self._on_output(data)
            except Exception as error:
                self._failure = error
                self.end()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A stream is at its end."""
        self._open.discard(fd)
        if not self._open:
            _settle(self._drained)

    def process_exited(self) -> None:
        """The child has exited; its descendants may hold its streams."""
        self._ended = time.monotonic()
        _settle(self._exited)

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything of it is closed."""
        _settle(self._lost)

    async def _start(self, launch: Launch, merge: bool) -> None:
        self._open = {1} if merge else {1, 2}
        self._transport = await launch(self)

    async def _end(self) -> None:
        if self._starting is not None:
            await _settled(self._starting, None)
        if self._transport is not None:
            await self._end_group(self._transport.get_pid())
            if not self.launched:
                self._sweep(self._transport.get_pid())
            self._transport.close()
            await _settled(self._lost, GRACE)

    async def _end_group(self, group: int) -> None:
        if self._exited.done():
            await _settled(self._drained, DRAIN)
        if send(group, signals.SIGTERM):
            await self._gone(group, GRACE)
            if lives(group) and send(group, signals.SIGKILL):
                await self._gone(group, DRAIN)
            await asyncio.wait([self._exited, self._drained], timeout=DRAIN)

    def _sweep(self, first: int) -> None:
        """Kill what left the group; again when there was some, since it may have forked meanwhile."""
        for _ in range(_SWEEPS if self._mark else 0):
            if not kill(self._mark, first):
                break

    async def _gone(self, group: int, seconds: float) -> None:
        """Wait until no process of the group lives, for at most `seconds`."""
        until, pause = time.monotonic() + seconds, 0.002
        while time.monotonic() < until and lives(group):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)


async def _settled(future: asyncio.Future[None], timeout: float | None) -> None:
    """Wait for it at most `timeout` seconds; at once where it is done, since each wait is a round of the event loop."""
    if not future.done():
        await asyncio.wait([future], timeout=timeout)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def whole(work: asyncio.Future[T]) -> T:
    """Await `work` to its end even when cancelled meanwhile; then pass the cancellation on."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    if not work.cancelled():
        work.exception()  # seen here, so that the event loop does not report it as forgotten
    raise cancelled


class ForkedProcess(asyncio.SubprocessTransport):
    """A transport of one call; `over` is called once when the child lets go of it.

    `failed` says why a program did not start although its process had begun: the error's number and what was seen of
    its file. `deserted`: the interpreter is gone, and ends nothing any more.
    """

    def __init__(self, child: Child, number: int, over: Callable[["ForkedProcess"], None]) -> None:
        super().__init__()
        self.number = number
        self.failed: tuple[int, Seen] | None = None
        self.deserted = False
        self.begun: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.child = child
        self._over = over
        self._pid = 0
        self._code: int | None = None
        self._pipes: dict[int, BinaryIO | asyncio.BaseTransport] = {}
        self._rest = b""
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
        os.set_blocking(reading, False)
        self._pipes[fd] = os.fdopen(reading, "rb", 0)
        return writing

    def _feed(self, stdin: Feed) -> int:
        if isinstance(stdin, int):
            return os.dup(stdin)
        if not stdin:
            return os.open(os.devnull, os.O_RDWR)
        reading, feed = os.pipe()
        os.set_blocking(feed, False)
        # As much as the pipe holds, which mostly is all of it.
        self._rest = stdin[os.write(feed, stdin) :]
        if self._rest:
            self._pipes[0] = os.fdopen(feed, "wb", 0)
        else:
            os.close(feed)
        return reading

    async def connect(self) -> None:
        """Read its output and write what is left of `stdin`, in the background."""
        loop = asyncio.get_running_loop()
        for fd, file in list(self._pipes.items()):
            assert not isinstance(file, asyncio.BaseTransport)
            if fd:
                loop.add_reader(file, self._read, fd, file)
                continue
            feed, _ = await loop.connect_write_pipe(lambda: _Feed(self), file)
            self._pipes[0] = feed
            # A script that stops reading breaks the pipe, which is its right.
            feed.write(self._rest)
            feed.write_eof()

    def _read(self, fd: int, file: BinaryIO) -> None:
        try:
            data = os.read(file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if data:
            self.child.pipe_data_received(fd, data)
        else:
            self._shut(fd)

    def _shut(self, fd: int) -> None:
        pipe = self._pipes[fd]
        if not isinstance(pipe, asyncio.BaseTransport):
            asyncio.get_running_loop().remove_reader(pipe)
            self.lost(fd, None)
        pipe.close()

    def abandon(self) -> None:
        """Let go of a call that was not begun."""
        for fd in list(self._pipes):
            self._shut(fd)
        self._over(self)

    def begin(self, pid: int) -> None:
        """The fork reported its number: from here on the script may have run."""
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
            self.child.process_exited()

    def lose(self) -> None:
        """The interpreter is gone and cannot report the fork's end: end the fork."""
        self.deserted = True
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
        """Close the pipes; the fork server learns that the run is over."""
        if self._closed:
            return
        self._closed = True
        for fd in list(self._pipes):
            self._shut(fd)
        self._over(self)
        self._settle()

    def lost(self, fd: int, error: Exception | None) -> None:
        """A pipe is closed."""
        self._pipes.pop(fd, None)
        # A child whose call was not begun has other pipes by now.
        if fd and self._pid:
            self.child.pipe_connection_lost(fd, error)
        self._settle()

    def _settle(self) -> None:
        if self._closed and not self._pipes:
            self.child.connection_lost(None)


class _Feed(asyncio.Protocol):
    """The way of what a pipe did not hold at once."""

    def __init__(self, call: ForkedProcess) -> None:
        self._call = call

    def connection_lost(self, exc: Exception | None) -> None:
        self._call.lost(0, exc)


class Capture:
    """The first `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self.head = bytearray()
        self.size = 0
        self._limit = limit

    @property
    def truncated(self) -> bool:
        """Whether more came than is kept."""
        return self.size > len(self.head)

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.head += data[: self._limit - len(self.head)]
        self.size += len(data)


def send(group: int, signal: int) -> bool:
    """Signal the group; False when there is nothing in it that we may signal."""
    try:
        os.killpg(group, signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def lives(group: int) -> bool:
    """Whether a process of the group still runs.

    A signal also reaches the dead that nobody has waited for, and in a container whose first process never
    waits orphans stay so for good: where there is a /proc, ask it for their state.
    """
    if not send(group, 0):
        return False
    try:
        names = os.listdir(_PROC)
    except OSError:
        return True
    return any(_runs_in(group, _PROC / name / "stat") for name in names if name.isdigit())


def _runs_in(group: int, file: Path) -> bool:
    try:
        state, _, its_group = file.read_bytes().rpartition(b")")[2].split()[:3]
    except OSError:  # it ended meanwhile
        return False
    return int(its_group) == group and state not in (b"Z", b"X")


def marked(env: Mapping[str, str] | None, mark: str) -> dict[str, str]:
    """Return `env` (None: this process's own) with the mark; a mark that stands there already stays."""
    given = dict(os.environ if env is None else env)
    outer = given.get(VARIABLE)
    return {**given, VARIABLE: f"{outer}:{mark}" if outer else mark}


def kill(mark: str, first: int) -> bool:
    """Kill (SIGKILL) every process with `mark` that was started after the process `first`; whether any was."""
    needle, found = mark.encode(), False
    for pid in _since(first):
        # Of another user's process, or of one that is just ending, nothing can be read: it is none of ours.
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            if needle in file.read(1 << 20):
                found = True
                os.kill(pid, signals.SIGKILL)
    return found


def _since(first: int) -> list[int]:
    """Processes with a number that was given out after `first`; numbers begin anew when they are used up."""
    try:
        last = int((_PROC / "loadavg").read_text().split()[-1])
        names = os.listdir(_PROC)
    except (OSError, ValueError):
        return []
    wrapped, own = last < first, os.getpid()
    there = map(int, filter(str.isdigit, names))
    return [pid for pid in there if pid != own and (pid > first or (wrapped and pid <= last))]
