"""Terminals: programs that a person runs in a pseudo terminal of an instance, for clients that show it.

Their children are the person's own, not the model's: they are started by `Processes`, without the shield, with the
environment that has no secrets.

May import `turn` and what stands before it. Begin with `Terminals`; `Terminal` is one of them.
"""

import asyncio
import codecs
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from instar import wire
from instar.event import Pty, PtyCreated, PtyDeleted, PtyExited, PtyUpdated, make
from instar.plugin import Invalid, NotFound, points
from instar.process import Output, ProcessError, Processes
from instar.session.instance import Instance
from instar.wire import ids

LIMIT: Final = 2 * 1024 * 1024
"""Units that are kept, as in opencode; what is older is let go of."""
_UNIT: Final = 2
_HIGH: Final = range(0xD8, 0xDC)
"""The upper byte of the first half of a pair of units that are one character."""


class Lost(Exception):
    """What was printed at a place is not kept any more."""


class Scrollback:
    """The newest `limit` units of what was printed: from the place `start` to the place `end`."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.start = 0
        self._limit = limit
        self._kept = bytearray()

    @property
    def end(self) -> int:
        """The place behind what was printed last."""
        return self.start + len(self._kept) // _UNIT

    def add(self, text: str) -> None:
        """Take what was printed."""
        self._kept += text.encode("utf-16-le", "replace")
        over = len(self._kept) - self._limit * _UNIT
        if over > 0:
            del self._kept[:over]
            self.start += over // _UNIT

    def after(self, place: int, most: int) -> tuple[str, int]:
        """Return what stands from `place` on, at most `most` units (2 or more), and the place behind it.

        No character is cut at its end; where one is cut at the beginning, U+FFFD stands for the rest of it. Raises
        `Lost` for a place before `start`; a place behind `end` is taken for `end`.
        """
        if place < self.start:
            raise Lost(f"what was printed before {self.start} is not kept")
        place = min(place, self.end)
        first = (place - self.start) * _UNIT
        piece = bytes(self._kept[first : first + most * _UNIT])
        if len(piece) == most * _UNIT and piece[-1] in _HIGH:
            piece = piece[:-_UNIT]
        return piece.decode("utf-16-le", "replace"), place + len(piece) // _UNIT


ROWS: Final = 24
COLUMNS: Final = 80
MOST_INPUT: Final = 1024 * 1024
"""Bytes that may wait for a program which does not read."""

_LEAD: Final = 'exec 3>&1 <>"$1" >&0 2>&0 || exit 127; shift; echo "$$" >&3; exec 3>&-; exec "$@"'
"""Opens the terminal, which makes it the new session's own, says the process id and becomes the program."""
_REST: Final = 0.2
"""Seconds for which the rest of the output is read after the program has exited."""
_AT_ONCE: Final = 64 * 1024
_LAST_READS: Final = 256
"""So many reads at most of the rest: another program may go on printing."""
_LARGEST: Final = 65535


class Full(Exception):
    """More input waits than a program may be given that does not read it."""


class Terminal:
    """A running program and its terminal. Use it from one event loop.

    `info` is what clients see of it; `lasting`: it is listed on after its program has exited.
    """

    def __init__(self, info: Pty, *, lasting: bool) -> None:
        self.info = info
        self.lasting = lasting
        self.printed = Scrollback()
        self._news = asyncio.Event()
        self._over = False
        self._master, self._slave = -1, -1
        self._input = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = asyncio.Event()
        self._run: asyncio.Task[Output] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will be printed."""
        return self._over

    async def start(
        self, processes: Processes, env: Mapping[str, str], exited: Callable[["Terminal"], None]
    ) -> None:
        """Start the program of `info`; `exited` is called once it has ended by itself, with all that it printed read.

        Raises `ProcessError` when it does not start, and `OSError` when the system has no terminal left.
        """
        self._master, self._slave = os.openpty()
        os.set_blocking(self._master, False)
        self.resize(ROWS, COLUMNS)
        said: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        argv = ["/bin/sh", "-c", _LEAD, "sh", os.ttyname(self._slave), self.info.command, *self.info.args]
        running = processes.run(argv, cwd=Path(self.info.cwd), env=env, on_output=_number(said))
        self._run = asyncio.create_task(running)
        asyncio.get_running_loop().add_reader(self._master, self._readable)
        try:
            begun: set[asyncio.Future[Any]] = {self._run, said}
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            if not said.done():
                why = self._run.result().stderr.decode(errors="replace").strip()
                raise ProcessError(f"cannot start {self.info.command}: {why or 'it ended at once'}")
        except BaseException:
            await self.end()
            raise
        self.info.pid = said.result()
        self._ending = asyncio.create_task(self._wait(self._run, exited))

    def resize(self, rows: int, columns: int) -> None:
        """Set the size, each 1 or more; the program gets SIGWINCH. Nothing happens once it has ended."""
        if self._master >= 0:
            size = struct.pack("HHHH", min(rows, _LARGEST), min(columns, _LARGEST), 0, 0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def write(self, data: bytes) -> None:
        """Type `data`. Raises `Full` when the program has not read what was typed before."""
        if self._master < 0:
            return
        if len(self._input) + len(data) > MOST_INPUT:
            raise Full(f"{self.info.command} does not read its input")
        self._input += data
        self._type()

    async def read(self, place: int, most: int) -> tuple[str, int]:
        """Return what was printed from `place` on, waiting for it, and the place behind it; "" when it is over.

        Raises `Lost` when that is not kept any more.
        """
        while place >= self.printed.end and not self._over:
            await self._news.wait()
        return self.printed.after(place, most)

    async def end(self) -> None:
        """End the program, with all that it started, and close the terminal."""
        # A hangup first: a shell that ignores SIGTERM ends by it, with its jobs.
        self._close()
        for task in (self._ending, self._run):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # seen here: whoever waits for the end has no use for it

    async def _wait(self, run: "asyncio.Task[Output]", exited: Callable[["Terminal"], None]) -> None:
        try:
            output = await asyncio.shield(run)
            code = output.code if output.code is not None else 128 + (output.signal or 0)
        except ProcessError:
            code = 127
        os.close(self._slave)
        self._slave = -1
        # With nobody else at it, the terminal is at its end when all of the output was read.
        try:
            await asyncio.wait_for(self._rest.wait(), _REST)
        except TimeoutError:
            # Another program has it open, or this one stood still for so long: what was printed is there to be read.
            for _ in range(_LAST_READS):
                if not self._readable():
                    break
            self._rest.set()
        self.info = wire.replace(self.info, status="exited", exit_code=code)
        self._close()
        exited(self)

    def _readable(self) -> bool:
        """Read some of what was printed; False when there is nothing now, or nothing more."""
        try:
            data = os.read(self._master, _AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:  # nobody has the other end open
            data = b""
        if data:
            self._print(self._decoder.decode(data))
        else:
            asyncio.get_running_loop().remove_reader(self._master)
            self._rest.set()
        return bool(data)

    def _print(self, text: str) -> None:
        if text:
            self.printed.add(text)
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _type(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._input:
                del self._input[: os.write(self._master, self._input[:_AT_ONCE])]
        except BlockingIOError:
            loop.add_writer(self._master, self._type)
            return
        except OSError:  # the program has gone
            self._input.clear()
        loop.remove_writer(self._master)

    def _close(self) -> None:
        if self._master >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._master)
            loop.remove_writer(self._master)
            os.close(self._master)
            self._master = -1
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1
        self._input.clear()
        if not self._over:
            self._over = True
            self._print(self._decoder.decode(b"", final=True))
            self._tell()


def _number(said: "asyncio.Future[int]") -> Callable[[bytes], None]:
    """What takes the line that names the process id."""
    line = bytearray()

    def hear(data: bytes) -> None:
        line.extend(data)
        if line.endswith(b"\n") and not said.done():
            said.set_result(int(line))

    return hear


def described(pty_id: str, title: str | None, command: str, args: Sequence[str], cwd: Path) -> Pty:
    """Return what clients see of a terminal before its program has started."""
    return Pty(
        id=pty_id,
        title=title or f"Terminal {pty_id[-4:]}",
        command=command,
        args=list(args),
        cwd=str(cwd),
        status="running",
        pid=0,
    )


_LIST: Final = Path("/etc/shells")
_UNLIKE: Final = frozenset(("fish", "nu"))
"""Shells with a language of their own: the commands that a model writes are not for them (as in opencode)."""
_LOGIN: Final = frozenset(("bash", "dash", "fish", "ksh", "sh", "zsh"))
"""Shells that are told to be a login shell."""


class LoginShell(NamedTuple):
    """A shell. `acceptable`: it understands the commands that a model writes."""

    path: str
    name: str
    acceptable: bool


def shells(variables: Mapping[str, str], listed: Path = _LIST) -> list[LoginShell]:
    """Return the shells that are there, in the order of `listed` (a file as ``/etc/shells``), the person's own last."""
    found = dict.fromkeys((*_lines(listed), *filter(None, [variables.get("SHELL", "")])))
    return [
        LoginShell(path, Path(path).name, Path(path).name not in _UNLIKE)
        for path in found
        if is_program(path)
    ]


def preferred(variables: Mapping[str, str]) -> str:
    """Return the shell of a terminal: the person's own (``SHELL``), else one that is there."""
    # Start-up time, here and below: most runtimes open no terminal.
    import shutil

    names = (variables.get("SHELL") or "bash", "bash", "sh")
    return next(filter(None, (shutil.which(one, path=variables.get("PATH")) for one in names)), "/bin/sh")


def login(command: str) -> list[str]:
    """Return the arguments that make a command a login shell; none if it is not a shell."""
    return ["-l"] if Path(command).name in _LOGIN else []


def is_program(path: str) -> bool:
    """Whether an absolute path is that of a program."""
    return path.startswith("/") and Path(path).is_file() and os.access(path, os.X_OK)


def _lines(listed: Path) -> list[str]:
    try:
        lines = listed.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.startswith("/")]


MOST: Final = 64
"""Terminals of an instance whose programs run at once."""
KEPT: Final = 32
"""Terminals that are listed on after their programs have exited; the oldest goes for one more."""
_ALWAYS: Final = {"TERM": "xterm-256color", "OPENCODE_TERMINAL": "1"}
"""What the clients that show a terminal understand, and how a program knows where it runs (as in opencode)."""


class NoTerminal(NotFound):
    """No terminal has this id."""

    def __init__(self, pty_id: str) -> None:
        super().__init__(f"PTY session not found: {pty_id}")
        self.pty_id = pty_id


class TerminalRequest(msgspec.Struct, frozen=True):
    """What a person asks for; what is left out is chosen here.

    `cwd` is taken from the instance's directory. `env` is put over everything else.
    """

    command: str = ""
    args: Sequence[str] = ()
    cwd: str = ""
    title: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)


class Terminals:
    """The terminals of one instance, by id, oldest first. What happens to them is published on its bus."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._found: dict[str, Terminal] = {}
        self._starting = 0
        self._closed = False

    def list(self) -> list[Pty]:
        """Return what clients see of each terminal."""
        return [terminal.info for terminal in self._found.values()]

    def get(self, pty_id: str) -> Terminal:
        """Return a terminal. Raises `NoTerminal`."""
        found = self._found.get(pty_id)
        if found is None:
            raise NoTerminal(pty_id)
        return found

    async def create(self, asked: TerminalRequest, *, lasting: bool = False) -> Pty:
        """Start a program in a new terminal; `lasting`: it is listed on after the program has exited.

        Raises `Invalid` for a folder or a program that is not there, for what no program can be given, and for one
        terminal too many.
        """
        running = sum(not one.over for one in self._found.values()) + self._starting
        if self._closed or running >= MOST:
            raise Invalid(f"{running} terminals are open, and {MOST} may be: remove one")
        self._starting += 1
        try:
            terminal = await self._started(asked, lasting)
        except (ProcessError, OSError) as error:
            raise Invalid(str(error)) from error
        finally:
            self._starting -= 1
        if self._closed:
            await terminal.end()
            raise Invalid("the instance is closing")
        self._found[terminal.info.id] = terminal
        self._instance.bus.publish(make(PtyCreated(info=terminal.info)))
        return terminal.info

    def update(self, pty_id: str, title: str | None, size: tuple[int, int] | None) -> Pty:
        """Set a terminal's title, unless it is empty, and its size in rows and columns. Raises `NoTerminal`."""
        terminal = self.get(pty_id)
        if title:
            terminal.info = wire.replace(terminal.info, title=title)
        if size is not None:
            terminal.resize(*size)
        self._instance.bus.publish(make(PtyUpdated(info=terminal.info)))
        return terminal.info

    async def remove(self, pty_id: str) -> None:
        """End a terminal's program, with all that it started, and forget it. Raises `NoTerminal`."""
        terminal = self.get(pty_id)
        self._forget(pty_id)
        await terminal.end()

    async def close(self) -> None:
        """End every terminal; no more are opened."""
        self._closed = True
        ending = [terminal.end() for terminal in self._found.values()]
        self._found.clear()
        await asyncio.gather(*ending)

    async def _started(self, asked: TerminalRequest, lasting: bool) -> Terminal:
        cwd = self._instance.directory / asked.cwd
        if "\0" in asked.cwd or not await asyncio.to_thread(cwd.is_dir):
            raise Invalid(f"cannot open a terminal: there is no folder {str(cwd)!r}")
        env = await self._environment(cwd, asked.env)
        command = asked.command or preferred(env)
        if not _is_there(command, cwd, env):
            raise Invalid(f"cannot open a terminal: there is no program {command!r}")
        args = [*asked.args, *login(command)]
        terminal = Terminal(described(ids.new("pty"), asked.title, command, args, cwd), lasting=lasting)
        await terminal.start(self._instance.processes, env, self._exited)
        return terminal

    async def _environment(self, cwd: Path, given: Mapping[str, str]) -> dict[str, str]:
        said = await self._instance.variables(points.ShellEnvInput(cwd=str(cwd)))
        return {**said, "PWD": str(cwd), **_ALWAYS, **given}

    def _exited(self, terminal: Terminal) -> None:
        info = terminal.info
        if self._found.get(info.id) is not terminal or info.exit_code is None:
            return
        self._instance.bus.publish(make(PtyExited(id=info.id, exit_code=info.exit_code)))
        if not terminal.lasting:
            del self._found[info.id]
            return
        gone = [one.info.id for one in self._found.values() if one.over]
        for pty_id in gone[:-KEPT]:
            self._forget(pty_id)

    def _forget(self, pty_id: str) -> None:
        del self._found[pty_id]
        self._instance.bus.publish(make(PtyDeleted(id=pty_id)))


def _is_there(command: str, cwd: Path, env: Mapping[str, str]) -> bool:
    import shutil

    named = str(cwd / command) if "/" in command else command
    return "\0" not in command and shutil.which(named, path=env.get("PATH")) is not None
