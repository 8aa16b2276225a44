"""Children: the one way to start a program, and the promise that nothing of it is left behind.

Every child leads its own session and process group. When a run is over, whether it ended, timed out
or was cancelled, what remains of that group is ended too: SIGTERM, a short grace, SIGKILL. A
descendant that makes a session of its own escapes the group; the shield of a later part holds those.
"""

import asyncio
import errno
import os
import signal as signals
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

T = TypeVar("T")
Feed = bytes | int  # what a child reads: these bytes, or an open descriptor

MIB: Final = 1 << 20
SPILL_LIMIT: Final = 100 * MIB
"""Bytes that a spill file holds at most: a child that never stops must not fill the disk."""

GRACE: Final = 0.3
"""Seconds between SIGTERM and SIGKILL."""

_PROC: Final = Path("/proc")

DRAIN: Final = 0.2
"""Seconds for which a pipe is still read after the child has gone."""


class Output(msgspec.Struct, frozen=True):
    """How a child ended and what it printed.

    `code` is its exit code (None when a signal ended it), `signal` that signal. `stdout` and `stderr`
    are the first `limit` bytes of each stream; `truncated` says that one of them printed more, `size` how
    many bytes stdout printed in all, `spilled` the file that holds the whole of it. `duration` is in
    seconds by the monotonic clock.
    """

    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration: float
    size: int = 0
    spilled: Path | None = None


class ProcessError(Exception):
    """A child that could not be started; the text says which program, and why."""


class Processes:
    """The children of one runtime. Use it from one event loop."""

    def __init__(self) -> None:
        self._children: set[_Child] = set()
        self._closed = False

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: Feed = b"",
        timeout: float | None = None,
        limit: int = MIB,
        spill: Path | None = None,
        merge: bool = False,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Output:
        """Run `argv` in `cwd` to its end and return what it did; an exit code is never an exception.

        `env` is the whole environment (None: this process's own). `stdin` is written while output is
        read, or read from; else it is empty. After `timeout` seconds the group is ended and `timed_out` set.
        Of each stream the first `limit` bytes are kept, the rest is read and dropped; with `spill` the
        whole stdout (up to `SPILL_LIMIT`) goes to that file once it exceeds `limit`. `merge` sends
        stderr into stdout. `on_output` sees each chunk of stdout as it comes; what it raises ends the
        child and is raised here. Cancelling ends the group, within a second, before it is passed on.

        Raises `ProcessError` when the program cannot be started, or after `close`.
        """
        if self._closed:
            raise ProcessError(f"cannot start {_program(argv)}: the runtime is shutting down")
        child = _Child(_Kept(limit, spill), _Kept(limit), on_output)
        self._children.add(child)
        started = time.monotonic()
        try:
            await _whole(child.start(argv, stdin, merge, cwd=cwd, env=env))
            timed_out = not await child.exit(timeout)
        finally:
            await _whole(child.end())
            self._children.discard(child)
        return child.output(started, timed_out)

    async def close(self) -> None:
        """End every child that still runs, with its group; later calls of `run` are refused."""
        self._closed = True
        await asyncio.gather(*(_whole(child.end()) for child in list(self._children)))


class _Kept:
    """The first `limit` bytes of a stream; all of it in a file once there are more, if there is a path."""

    def __init__(self, limit: int, spill: Path | None = None) -> None:
        self.head = bytearray()
        self.size = 0
        self.spilled: Path | None = None
        self._limit = limit
        self._spill = spill
        self._file: BinaryIO | None = None

    @property
    def truncated(self) -> bool:
        return self.size > len(self.head)

    def add(self, data: bytes) -> None:
        room = self._limit - len(self.head)
        rest = data[room:] if room > 0 else data
        if room > 0:
            self.head += data[:room]
        if rest and self._spill is not None:
            self._save(rest)
        self.size += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _save(self, rest: bytes) -> None:
        # A full disk costs the saved rest, not the command: its kept head and exit code still count.
        assert self._spill is not None
        try:
            if self._file is None:
                self._file = os.fdopen(
                    os.open(self._spill, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
                )
                self._file.write(self.head)
                self.spilled = self._spill
            self._file.write(rest[: max(0, SPILL_LIMIT - self._file.tell())])
        except OSError:
            self._spill = self.spilled = None
            self.close()


class _Child(asyncio.SubprocessProtocol):
    """One child and its group, from start to the last descriptor."""

    def __init__(self, out: _Kept, err: _Kept, on_output: Callable[[bytes], None] | None) -> None:
        loop = asyncio.get_running_loop()
        self._streams = {1: out, 2: err}
        self._open = set[int]()
        self._on_output = on_output
        self._failure: Exception | None = None
        self._exited, self._drained, self._lost = (loop.create_future() for _ in range(3))
        self._starting: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended = 0.0

    def start(self, argv: Sequence[str], stdin: Feed, merge: bool, **where: Any) -> asyncio.Future[None]:
        self._starting = asyncio.ensure_future(self._start(argv, stdin, merge, where))
        return self._starting

    async def exit(self, timeout: float | None) -> bool:
        """Wait for the child's exit; False when `timeout` seconds passed first."""
        await asyncio.wait([self._exited], timeout=timeout)
        if self._failure is not None:
            raise self._failure
        return self._exited.done()

    def end(self) -> asyncio.Future[None]:
        """End what is left of the group and let go of every descriptor; one ending however many ask."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        return self._ending

    def output(self, started: float, timed_out: bool) -> Output:
        assert self._transport is not None
        out, err = self._streams[1], self._streams[2]
        code = self._transport.get_returncode()
        killed = signals.SIGKILL if code is None else -code if code < 0 else None
        return Output(
            code=None if killed else code,
            signal=int(killed) if killed else None,
            stdout=bytes(out.head),
            stderr=bytes(err.head),
            timed_out=timed_out,
            truncated=out.truncated or err.truncated,
            duration=(self._ended or time.monotonic()) - started,
            size=out.size,
            spilled=out.spilled,
        )

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._streams[fd].add(data)
        if fd == 1 and self._on_output is not None and self._failure is None:
            try:
                self._on_output(data)
            except Exception as error:
                self._failure = error
                self.end()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _settle(self._drained)

    def process_exited(self) -> None:
        self._ended = time.monotonic()
        _settle(self._exited)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self._lost)

    async def _start(self, argv: Sequence[str], stdin: Feed, merge: bool, where: dict[str, Any]) -> None:
        self._open = {1} if merge else {1, 2}
        try:
            self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *argv,
                stdin=stdin if isinstance(stdin, int) else PIPE if stdin else DEVNULL,
                stdout=PIPE,
                stderr=STDOUT if merge else PIPE,
                **where,
                start_new_session=True,
            )
        except (OSError, ValueError, TypeError) as error:
            raise ProcessError(_reason(argv, where["cwd"], error)) from error
        feed = self._transport.get_pipe_transport(0) if stdin else None
        if isinstance(feed, asyncio.WriteTransport) and isinstance(stdin, bytes):
            # Written in the background; a child that stops reading breaks the pipe, which is its right.
            feed.write(stdin)
            feed.write_eof()

    async def _end(self) -> None:
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._transport is not None:
            await self._end_group(self._transport.get_pid())
            self._transport.close()
            await asyncio.wait([self._lost], timeout=GRACE)
        for kept in self._streams.values():
            kept.close()

    async def _end_group(self, group: int) -> None:
        if self._exited.done():
            await asyncio.wait([self._drained], timeout=DRAIN)
        if _send(group, signals.SIGTERM):
            await self._gone(group, GRACE)
            if _lives(group) and _send(group, signals.SIGKILL):
                await self._gone(group, DRAIN)
            await asyncio.wait([self._exited, self._drained], timeout=DRAIN)

    async def _gone(self, group: int, seconds: float) -> None:
        """Wait until no process of the group lives, for at most `seconds`."""
        until, pause = time.monotonic() + seconds, 0.002
        while time.monotonic() < until and _lives(group):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)


def _send(group: int, signal: int) -> bool:
    """Signal the group; False when there is nothing in it that we may signal."""
    try:
        os.killpg(group, signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _lives(group: int) -> bool:
    """Whether a process of the group still runs.

    A signal also reaches the dead that nobody has waited for, and in a container whose first process never
    waits orphans stay so for good: where there is a /proc, ask it for their state.
    """
    if not _send(group, 0):
        return False
    return not _PROC.is_dir() or any(_runs_in(group, file) for file in _PROC.glob("[0-9]*/stat"))


def _runs_in(group: int, file: Path) -> bool:
    try:
        state, _, its_group = file.read_bytes().rpartition(b")")[2].split()[:3]
    except OSError:
        return False
    return int(its_group) == group and state not in (b"Z", b"X")


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _whole(work: asyncio.Future[T]) -> T:
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


def _program(argv: Sequence[str]) -> str:
    return str(argv[0]) if argv else "nothing"


def _reason(argv: Sequence[str], cwd: Path, error: Exception) -> str:
    """Say why `argv` did not start, in words that tell what to do about it."""
    name = _program(argv)
    if not cwd.is_dir():
        return f"cannot start {name}: its folder {cwd} does not exist"
    if not isinstance(error, OSError):
        return f"cannot start {name!r}: {error}"
    path = cwd / name if "/" in name else None
    if error.errno == errno.ENOENT and path is not None and path.is_file():
        return f"cannot start {name}: {_shebang(path)}"
    if error.errno == errno.ENOENT:
        return f"cannot start {name}: there is no such {'file' if path else 'program on the PATH'}"
    if error.errno == errno.EACCES and path is not None and path.is_file() and not os.access(path, os.X_OK):
        return f"cannot start {name}: it has no run bit (chmod +x {path})"
    if error.errno == errno.ENOEXEC:
        return f"cannot start {name}: it has no #! line that names an interpreter, and it is no program"
    return f"cannot start {name}: {error.strerror or error}"


def _shebang(path: Path) -> str:
    """What is wrong with the first line of a script whose interpreter was not found."""
    with path.open("rb") as file:
        line = file.readline(256)
    if line.endswith(b"\r\n"):
        return "its #! line ends with a carriage return; save the file with LF line endings"
    interpreter = line.removeprefix(b"#!").strip().split(b" ")[0].decode(errors="replace")
    return f"its interpreter {interpreter or '(none)'} does not exist"
