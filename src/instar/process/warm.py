"""Warm interpreters: a call of a Python script forks one that has already started.

The script cannot tell, but for what docs/evolve.md lists; `zygote` is the program on the other side. Source: issue 5,
item 5.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from instar.process import shebang
from instar.process.call import Call
from instar.process.child import Child, Transport, plainly, whole
from instar.process.kept import Kept
from instar.process.output import ProcessError

log = logging.getLogger("instar.process")

MOST: Final = 4
"""Interpreters that one runtime keeps warm."""
_PROGRAM: Final = str(Path(__file__).with_name("zygote.py"))
_HELLO: Final = 20.0
"""Seconds in which an interpreter must have started."""
_BEGIN: Final = 5.0
"""Seconds in which a call must have begun; then the interpreter is given up."""
_LEAVE: Final = 1.0
"""Seconds in which an interpreter ends by itself."""
_MESSAGE: Final = 1 << 16
_LARGEST: Final = 150_000
"""Bytes of a request; a socket's buffer holds no more."""


class Warm:
    """The warm interpreters of one runtime."""

    def __init__(self, mark: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        self._mark = mark
        self._known: dict[shebang.Interpreter, Zygote] = {}
        self._closed = False

    def ready(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "Zygote | None":
        """Return the interpreter that can run the script `argv` now; None: start it plainly.

        An interpreter that is not there yet is started in the background for the next call.
        """
        named = _script(argv, cwd)
        wanted = shebang.interpreter(named, cwd, env) if named else None
        if wanted is None or self._closed:
            return None
        key = wanted._replace(version=())
        known = self._known.get(key)
        if known is not None and (known.interpreter != wanted or known.stale):
            del self._known[key]
            known.retire()
            known = None
        if known is None:
            try:
                self._start(key, wanted)
            except OSError as error:
                log.debug("warm=not interpreter=%s reason=%s", wanted.path, error)
            return None
        return known if known.usable else None

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        await asyncio.gather(*(one.close() for one in self._known.values()))

    def _start(self, key: shebang.Interpreter, wanted: shebang.Interpreter) -> None:
        if len(self._known) >= MOST:
            idle = next((other for other, one in self._known.items() if one.idle), None)
            if idle is None:
                return
            self._known.pop(idle).retire()
        self._known[key] = Zygote(wanted, self._mark(dict(wanted.environment)))


class Zygote:
    """One warm interpreter, as instar sees it."""

    def __init__(self, interpreter: shebang.Interpreter, env: Mapping[str, str]) -> None:
        self.interpreter = interpreter
        self._env = env
        self._calls: dict[int, Call] = {}
        self._number = 0
        self._watched: shebang.Signature = ()
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._child = Child(Kept(4096), Kept(4096))
        self._retired = self._gone = self._refused = False
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.usable = False
        self._starting = asyncio.ensure_future(self._start())
        self._ending: asyncio.Future[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no call runs."""
        return not self._calls

    @property
    def stale(self) -> bool:
        """Whether it has ended, or files changed that a fresh interpreter would read at its start.

        One that cannot serve is never stale: it would be asked again at each call.
        """
        if self._gone:
            return not self._refused
        return self.usable and shebang.signature([path for path, *_ in self._watched]) != self._watched

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
        self, child: Child, request: Mapping[str, Any], stdin: bytes, merge: bool
    ) -> Transport | None:
        """Start a call; None when it was not begun, and should be started plainly."""
        self._number += 1
        call = Call(child, self._number, self._over)
        self._calls[call.number] = call
        theirs = call.open(merge)
        try:
            data = json.dumps({"id": call.number, **request}).encode()
            if len(data) > _LARGEST:
                raise OSError("the request is too large")
            socket.send_fds(self._socket, [data], theirs)
            await asyncio.wait([call.begun], timeout=_BEGIN)
        except OSError as error:
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
        reading, writing = os.pipe()
        os.close(writing)
        one, theirs = self.interpreter, self._theirs.fileno()
        launch = plainly(
            [one.name, _PROGRAM, str(theirs)],
            reading,
            False,
            executable=one.path,
            cwd=Path(one.folder),
            env=self._env,
            pass_fds=(theirs,),
        )
        try:
            self._socket.send(json.dumps(dict(self._env)).encode())
            await whole(self._child.start(launch, False))
            asyncio.get_running_loop().add_reader(self._socket, self._heard)
            self._theirs.close()
            hello = await asyncio.wait_for(self._hello, _HELLO)
        except (ProcessError, OSError, TimeoutError) as error:
            self._refuse(str(error) or "it did not answer")
            return
        finally:
            os.close(reading)
            self._theirs.close()
        if hello["refused"]:
            self._refuse(hello["refused"])
            return
        self._watched = shebang.signature(hello["watched"])
        self.usable = not self._retired

    def _refuse(self, reason: str) -> None:
        log.debug("warm=not interpreter=%s reason=%s", self.interpreter.path, reason)
        self._refused = True
        self._end()

    def _heard(self) -> None:
        try:
            data = self._socket.recv(_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        said = json.loads(data)
        if "hello" in said:
            self._hello.set_result(said["hello"])
        elif call := self._calls.get(said["id"]):
            call.begin(said["pid"]) if "pid" in said else call.exit(said["status"])

    def _lost(self) -> None:
        """The interpreter is gone: what had begun is killed, what had not is started plainly."""
        self._gone, self.usable = True, False
        asyncio.get_running_loop().remove_reader(self._socket)
        for call in list(self._calls.values()):
            call.lose()
        if not self._hello.done():
            self._hello.set_result({"refused": "it ended at its start", "watched": []})
        self._end()

    def _over(self, call: Call) -> None:
        """A run is over, and its group gone."""
        self._calls.pop(call.number, None)
        if not self._gone:
            try:
                self._socket.send(json.dumps({"end": call.number}).encode())
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


def _script(argv: Sequence[str], cwd: Path) -> Path | None:
    """The script of a command, None when it is none that an interpreter would be given by the same name."""
    return Path(argv[0]) if argv and os.path.isabs(argv[0]) and cwd.is_dir() else None
