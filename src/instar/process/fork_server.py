"""The processes that fork for calls: warm interpreters for Python scripts, launchers for all other programs.

Each forks from a process that has already started. A warm interpreter is behind the confinement of its scripts, since
a script names it; a launcher is where nothing else confines its forks. `docs/reference/hook-protocol.md` lists
what a script can tell. `launcher.py` and `zygote.py` are the programs on the other side.
"""

import asyncio
import logging
import marshal
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.process.child import Capture, Child, Feed, ForkedProcess, Launch, plainly, whole
from instar.process.confine import Confinement, Policy, Shared, Wrapped
from instar.process.output import ProcessError, Seen
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.process")

Signature = tuple[tuple[str, int, int, int], ...]

_LINE: Final = late_pattern(
    rb"#!\s*(?:(?P<env>/(?:usr/)?bin/env)[ \t]+)?(?P<name>[^\s]*python[0-9.]*)[ \t]*\n"
)
_STARTS: Final = late_pattern(
    r"PATH|HOME|LANG|LANGUAGE|LC_.*|TZ|LD_.*|PYTHON.*|GLIBC_TUNABLES|MALLOC_.*|VIRTUAL_ENV|XDG_.*_HOME"
    r"|(?:PYENV|ASDF|MISE)_.*"
)
"""Variables that can change how an interpreter starts: a warm one gets these, and serves calls with the same."""
_WARM: Final = str(Path(__file__).with_name("zygote.py"))
_CHOICES: Final = (".python-version", ".tool-versions", "mise.toml", ".mise.toml")
_ELF: Final = b"\x7fELF"


class Interpreter(msgspec.Struct, frozen=True):
    """An interpreter as one script starts it.

    `name` is its ``argv[0]``, `path` its file. `environment` is the part of the call's environment that can
    change its start; `version` the state of the files that decide what it is. `folder` is where it starts:
    a version manager's shim chooses by the folder. `arguments` are what it is started with.
    """

    name: str
    path: str
    environment: tuple[tuple[str, str], ...]
    version: Signature
    folder: str
    arguments: tuple[str, ...] = (_WARM,)


LAUNCHER: Final = Interpreter(
    sys.executable,
    sys.executable,
    (),
    (),
    "/",
    ("-I", "-S", "-B", str(Path(__file__).with_name("launcher.py"))),
)
"""Stands for this Python where a script names its interpreter."""
_HELLO: Final = 20.0
"""Seconds in which an interpreter must have started."""
_BEGIN: Final = 5.0
"""Seconds in which a call must have begun; then the interpreter is given up."""
_LEAVE: Final = 1.0
"""Seconds in which an interpreter ends by itself."""
_MESSAGE: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("=iII")
_LARGEST: Final = 150_000
"""Bytes of a request; a socket's buffer holds no more."""

MOST: Final = 6
"""Interpreters that one runtime keeps warm: of each Python one for each shield, at some 12 MB."""
LAUNCHERS: Final = 3
"""Launchers that one runtime keeps: one for each shield that is made of mounts, and one for all others."""


class ForkServers:
    """The warm interpreters and the launchers of one runtime."""

    def __init__(self, mark: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        self._mark = mark
        self._known: dict[_Key, ForkServer] = {}
        self._leaving: set[ForkServer] = set()
        self._closed = False

    def ready(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], confine: Confinement | None = None
    ) -> "ForkServer | None":
        """Return the interpreter that can run the script `argv` now, confined by `confine`; None: start it plainly.

        An interpreter that is not there yet is started in the background for the next call, behind the confinement
        that its forks are to have. Raises `ProcessError` when that cannot be had.
        """
        # The kernel would be given any other script by another name.
        is_named = os.path.isabs(argv[0]) and cwd.is_dir()
        wanted = interpreter(Path(argv[0]), cwd, env) if is_named else None
        if wanted is None or self._closed:
            return None
        shared = None if confine is None else confine.shared(env, cwd)
        if confine is not None and shared is None:
            return None
        given = env if shared is None else shared.environment(env)
        if given is not env:
            wanted = interpreter(Path(argv[0]), cwd, given) or wanted
        found = self._kept((msgspec.structs.replace(wanted, version=()), confine), wanted, shared)
        return found if found is not None and found.usable else None

    async def launcher(
        self, cwd: Path, env: Mapping[str, str], confine: Confinement
    ) -> "tuple[ForkServer, Policy] | None":
        """Return what starts programs, and how its fork is confined by `confine`; None: start them plainly.

        The first call waits for its start, which takes no longer than to confine one program.
        """
        shared = None if self._closed else confine.shared(env, cwd)
        if shared is None:
            return None
        alone = shared.alone()
        policy = alone or shared.policy()
        if not policy.data:
            return None
        if alone:
            found = self._kept((LAUNCHER, None), LAUNCHER, None)
        else:
            found = self._kept((LAUNCHER, confine), LAUNCHER, shared)
        return (found, policy) if found is not None and await found.started() else None

    def _kept(self, key: "_Key", wanted: Interpreter, shared: Shared | None) -> "ForkServer | None":
        known = self._known.pop(key, None)
        if known is not None and (known.interpreter, known.shared) == (wanted, shared) and not known.stale:
            # Used last, it stands last.
            self._known[key] = known
            return known
        if known is not None:
            self._retire(known)
        try:
            return self._start(key, wanted, shared)
        except OSError as error:
            log.debug("warm=not interpreter=%s reason=%s", wanted.path, error)
            return None

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        await asyncio.gather(*(one.close() for one in [*self._known.values(), *self._leaving]))

    def _retire(self, one: "ForkServer") -> None:
        """Let one go; until it has ended, `close` waits for it too."""
        self._leaving = {other for other in self._leaving if not other.ended} | {one}
        one.retire()

    def _start(self, key: "_Key", wanted: Interpreter, shared: Shared | None) -> "ForkServer | None":
        alike = {
            other: one
            for other, one in self._known.items()
            if (one.interpreter is LAUNCHER) == (wanted is LAUNCHER)
        }
        if len(alike) >= (LAUNCHERS if wanted is LAUNCHER else MOST):
            # The one that was used longest ago, whatever confines it.
            idle = next((other for other, one in alike.items() if one.idle), None)
            if idle is None:
                return None
            self._retire(self._known.pop(idle))
        env = {} if wanted is LAUNCHER else self._mark(dict(wanted.environment))
        made = self._known[key] = ForkServer(wanted, env, shared)
        return made


_Key = tuple[Interpreter, Confinement | None]


class _Hello(msgspec.Struct):
    """What an interpreter says of itself: why it cannot serve, and the files that decide how it starts."""

    refused: str | None
    watched: list[str]


class _Said(msgspec.Struct):
    """One message of an interpreter or of its fork. It is untrusted: a script may name its interpreter."""

    hello: _Hello | None = None
    id: int = 0
    status: int | None = None
    start: tuple[int, int, int, str] | None = None
    """Why a program did not start: the error's number, what was seen of its file, its first line in hexadecimal."""


class ForkServer:
    """One process that forks; with `shared` it, and so its forks, are behind that."""

    def __init__(
        self, interpreter: Interpreter, env: Mapping[str, str], shared: Shared | None = None
    ) -> None:
        self.interpreter = interpreter
        self.shared = shared
        self._env = env
        self._calls: dict[int, ForkedProcess] = {}
        self._number = 0
        self._watched: Signature = ()
        self._pid = 0
        self._confined = b""
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        # The kernel says who wrote a message: no interpreter's word is taken for which process is to be ended.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._child = Child(Capture(4096), Capture(4096))
        self._retired = self._gone = self._refused = False
        self._hello: asyncio.Future[_Hello] = asyncio.get_running_loop().create_future()
        self.usable = False
        self._starting = asyncio.ensure_future(self._start())
        self._ending: asyncio.Future[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no call runs."""
        return not self._calls

    @property
    def stale(self) -> bool:
        """Whether it has ended, or what confines it changed, or files that a fresh interpreter would read.

        One that cannot serve is never stale: it would be asked again at each call.
        """
        if self._gone:
            return not self._refused
        return self.usable and (
            signature([path for path, *_ in self._watched]) != self._watched or not self._holds()
        )

    async def started(self) -> bool:
        """Wait until it has started; whether it can be used."""
        await asyncio.wait([self._starting])
        return self.usable

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self._ending is not None and self._ending.done()

    def retire(self) -> None:
        """Let the calls that run end, then end."""
        self._retired, self.usable = True, False
        if self.idle:
            self._end()

    async def close(self) -> None:
        """End it now, with what it runs."""
        self.retire()
        await asyncio.wait([self._end()])

    async def launch(
        self, child: Child, request: Mapping[str, Any], stdin: Feed, merge: bool
    ) -> ForkedProcess | None:
        """Start a call; None when it was not begun, and should be started plainly."""
        self._number += 1
        call = ForkedProcess(child, self._number, self._over)
        self._calls[call.number] = call
        theirs: list[int] = []
        try:
            theirs = call.open(stdin, merge)
            data = marshal.dumps({"id": call.number, **request}, 2)
            if len(data) > _LARGEST:
                raise OSError("the request is too large")
            socket.send_fds(self._socket, [data], theirs)
            # Meanwhile it forks.
            await call.connect()
            await asyncio.wait([call.begun], timeout=_BEGIN)
        except (OSError, ValueError) as error:
            log.debug("warm=refused reason=%s", error)
            call.lose()
        finally:
            for descriptor in set(theirs):
                os.close(descriptor)
        if not call.begun.done():
            log.warning("warm=hangs interpreter=%s", self.interpreter.path)
            self._lost()
        if not call.begun.done() or call.begun.result() is None:
            call.abandon()
            return None
        return call

    async def _start(self) -> None:
        """Start the interpreter and wait for its first message; without one it is never usable."""
        wrapped = Wrapped((), {})
        try:
            wrapped = self._wrapped()
            # Its environment, by which it sees what the way to the interpreter changed.
            self._socket.send(marshal.dumps(dict(self._env), 2))
            await whole(self._child.start(self._launch(wrapped), False))
            asyncio.get_running_loop().add_reader(self._socket, self._heard)
            self._theirs.close()
            hello = await asyncio.wait_for(self._hello, _HELLO)
            self._confined = b"" if self.shared is None else self.shared.state(self._pid)
        except (ProcessError, OSError, TimeoutError) as error:
            self._refuse(str(error) or "it did not answer")
            return
        finally:
            self._theirs.close()
            wrapped.after()
        if hello.refused:
            self._refuse(hello.refused)
            return
        self._watched = signature(hello.watched)
        self.usable = not self._retired

    def _wrapped(self) -> Wrapped:
        argv = [self.interpreter.name, *self.interpreter.arguments]
        if self.shared is None:
            return Wrapped(argv, self._env)
        if self.interpreter is LAUNCHER:
            return self.shared.mounted(argv)
        return self.shared.wrap(argv, Path(self.interpreter.folder), self._env, lasting=True)

    def _launch(self, wrapped: Wrapped) -> Launch:
        return plainly(
            wrapped.argv,
            self._theirs.fileno(),
            False,
            executable=self.interpreter.path if self.shared is None else None,
            cwd=Path(self.interpreter.folder),
            env=wrapped.env,
            pass_fds=wrapped.pass_fds,
        )

    def _holds(self) -> bool:
        """Whether its confinement has not changed since it started."""
        try:
            return self.shared is None or self.shared.state(self._pid) == self._confined
        except OSError:
            return False

    def _refuse(self, reason: str) -> None:
        log.debug("warm=not interpreter=%s reason=%s", self.interpreter.path, reason)
        self._refused = True
        self._end()

    def _heard(self) -> None:
        try:
            data, sender = _received(self._socket)
            if data:
                self._told(msgspec.json.decode(data, type=_Said), sender)
                return
        except BlockingIOError:
            return
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("warm=lost interpreter=%s reason=%s", self.interpreter.path, error)
        self._lost()

    def _told(self, said: _Said, sender: int) -> None:
        if said.hello is not None:
            if not self._hello.done():
                self._pid = sender
                self._hello.set_result(said.hello)
        elif call := self._calls.get(said.id):
            if said.start is not None:
                number, file, runs, line = said.start
                call.fail(number, Seen(bool(file), bool(runs), bytes.fromhex(line)))
            elif said.status is None:
                call.begin(sender)
            else:
                call.exit(said.status)

    def _lost(self) -> None:
        """The interpreter is gone: calls that had begun are killed, others start plainly."""
        self._gone, self.usable = True, False
        asyncio.get_running_loop().remove_reader(self._socket)
        self._hear_last()
        for call in list(self._calls.values()):
            call.lose()
        if not self._hello.done():
            self._hello.set_result(_Hello("it ended at its start", []))
        self._end()

    def _hear_last(self) -> None:
        """Read the messages so far and then refuse more: a fork that cannot report does not begin."""
        try:
            self._socket.shutdown(socket.SHUT_RD)
            while (message := _received(self._socket))[0]:
                self._told(msgspec.json.decode(message[0], type=_Said), message[1])
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.debug("warm=silent reason=%s", error)

    def _over(self, call: ForkedProcess) -> None:
        """A run is over, and its group gone."""
        self._calls.pop(call.number, None)
        if not self._gone:
            try:
                self._socket.send(marshal.dumps({"end": call.number}, 2))
            except OSError as error:
                log.debug("warm=deaf reason=%s", error)
        if self._retired and self.idle:
            self._end()

    def _end(self) -> asyncio.Future[None]:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._finish())
        return self._ending

    async def _finish(self) -> None:
        self._gone, self.usable = True, False
        self._starting.cancel()
        if self._starting is not asyncio.current_task():
            await asyncio.wait([self._starting])
        asyncio.get_running_loop().remove_reader(self._socket)
        # Closing is the message: the interpreter kills what it runs, and ends.
        self._socket.close()
        if self._child.pid is not None:
            await self._child.exit(_LEAVE)
        await whole(self._child.end())
        for call in list(self._calls.values()):
            call.lose()


def _received(control: socket.socket) -> tuple[bytes, int]:
    """Read one message and the process id of who wrote it."""
    data, ancillary, _, _ = control.recvmsg(_MESSAGE, socket.CMSG_SPACE(_CREDENTIALS.size))
    found = [part for _, kind, part in ancillary if kind == socket.SCM_CREDENTIALS]
    pid = _CREDENTIALS.unpack(found[0])[0] if found else 0
    if data and pid <= 1:
        raise OSError("a message of nobody")
    return data, pid


def interpreter(script: Path, cwd: Path, env: Mapping[str, str]) -> Interpreter | None:
    """Return the Python that `script` names, None when the kernel should start it."""
    named = _named(script)
    if named is None:
        return None
    name, by_env = named
    path = _found(name, env) if by_env else name
    starts = tuple(sorted((key, value) for key, value in env.items() if _STARTS.fullmatch(key)))
    folders = env.get("PYTHONPATH", "").split(":")
    # A relative folder depends on where a call stands.
    if path is None or not path.startswith("/") or any(one and not one.startswith("/") for one in folders):
        return None
    shim = _head(path, 4) != _ELF
    return Interpreter(
        name,
        path,
        starts,
        signature([path, *(_choices(cwd, env) if shim else ())]),
        str(cwd) if shim else "/",
    )


def signature(paths: Iterator[str] | list[str]) -> Signature:
    """Return what tells one state of files from another: inode, size and time of change of each."""
    found = []
    for path in paths:
        try:
            state = os.stat(path)
            found.append((path, state.st_ino, state.st_size, state.st_mtime_ns))
        except OSError:
            found.append((path, 0, 0, 0))
    return tuple(found)


def _named(script: Path) -> tuple[str, bool] | None:
    """The interpreter's name in the first line and whether ``env`` looks for it."""
    try:
        state = os.stat(script)
        if not stat.S_ISREG(state.st_mode) or not os.access(script, os.X_OK):
            return None
    except OSError:
        return None
    match = _LINE.match(_head(str(script), 256))
    if match is None:
        return None
    by_env = match["env"] is not None
    name = os.fsdecode(match["name"])
    return (name, by_env) if by_env == ("/" not in name) else None


def _head(path: str, size: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except OSError:
        return b""


def _found(name: str, env: Mapping[str, str]) -> str | None:
    """The first program of this name on the PATH, as `env` finds it."""
    for folder in env.get("PATH", "").split(":"):
        path = f"{folder}/{name}"
        # A relative folder depends on where one stands: the kernel may find it.
        if not folder.startswith("/"):
            return None
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _choices(cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Files by which version managers choose: in the folder and those above it, and the person's own."""
    root = env.get("PYENV_ROOT") or f"{env.get('HOME', '')}/.pyenv"
    above = [f"{folder}/{name}" for folder in (cwd, *cwd.parents) for name in _CHOICES]
    return [*above, f"{root}/version", f"{env.get('HOME', '')}/.tool-versions"]
