"""A process that forks for each call, as instar sees it: `launcher` and `zygote` are the programs on the other side."""

import asyncio
import logging
import marshal
import os
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.process import shebang
from instar.process.call import Call
from instar.process.child import Child, Feed, Launch, plainly, whole
from instar.process.confine import Shared, Wrapped
from instar.process.kept import Kept
from instar.process.output import ProcessError
from instar.process.reason import Seen

log = logging.getLogger("instar.process")

LAUNCHER: Final = shebang.Interpreter(
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


class _Hello(msgspec.Struct):
    """What an interpreter says of itself: why it cannot serve, and the files that decide how it starts."""

    refused: str | None
    watched: list[str]


class _Said(msgspec.Struct):
    """One message of an interpreter or of its fork; whoever wrote the script may have named the interpreter."""

    hello: _Hello | None = None
    id: int = 0
    status: int | None = None
    start: tuple[int, int, int, str] | None = None
    """Why a program did not start: the error's number, what was seen of its file, its first line in hexadecimal."""


class Zygote:
    """One process that forks; with `shared` it, and so its forks, are behind that."""

    def __init__(
        self, interpreter: shebang.Interpreter, env: Mapping[str, str], shared: Shared | None = None
    ) -> None:
        self.interpreter = interpreter
        self.shared = shared
        self._env = env
        self._calls: dict[int, Call] = {}
        self._number = 0
        self._watched: shebang.Signature = ()
        self._pid = 0
        self._confined = b""
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        # The kernel says who wrote a message: no interpreter's word is taken for which process is to be ended.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._child = Child(Kept(4096), Kept(4096))
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
            shebang.signature([path for path, *_ in self._watched]) != self._watched or not self._holds()
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

    async def launch(self, child: Child, request: Mapping[str, Any], stdin: Feed, merge: bool) -> Call | None:
        """Start a call; None when it was not begun, and should be started plainly."""
        self._number += 1
        call = Call(child, self._number, self._over)
        self._calls[call.number] = call
        theirs: list[int] = []
        try:
            theirs = call.open(stdin, merge)
            data = marshal.dumps({"id": call.number, **request}, 2)
            if len(data) > _LARGEST:
                raise OSError("the request is too large")
            socket.send_fds(self._socket, [data], theirs)
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
        await call.connect(stdin)
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
        self._watched = shebang.signature(hello.watched)
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
        """Whether it is confined as it was when it started."""
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
        """The interpreter is gone: what had begun is killed, what had not is started plainly."""
        self._gone, self.usable = True, False
        asyncio.get_running_loop().remove_reader(self._socket)
        self._hear_last()
        for call in list(self._calls.values()):
            call.lose()
        if not self._hello.done():
            self._hello.set_result(_Hello("it ended at its start", []))
        self._end()

    def _hear_last(self) -> None:
        """Hear what was said so far and nothing more: a fork that can say nothing does not begin."""
        try:
            self._socket.shutdown(socket.SHUT_RD)
            while (message := _received(self._socket))[0]:
                self._told(msgspec.json.decode(message[0], type=_Said), message[1])
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.debug("warm=silent reason=%s", error)

    def _over(self, call: Call) -> None:
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
