"""The launcher: a process that forks for each call, and each fork confines itself and becomes a program.

``python -I -S -B launcher.py`` is started once and stays, since a fork costs a tenth of a start; `zygote` is the same
for Python scripts. Nothing of instar and as little as possible of the standard library (Python 3.9 and later) is
imported here: the modules `socket`, `json` and `signal` take longer than all the rest. Standard input is a SEQPACKET
socket. Messages:

- to us, in marshal's format 2: the environment that we were given; then calls ``{"id", "argv", "env", "cwd", "policy",
  "applies"}`` with three descriptors, which become 0, 1 and 2; ``{"end": id}`` when a run is over and its group is
  gone. ``policy`` is given to ``apply`` of the file ``applies`` (`instar.process.confine` says what that does).
- from us, in JSON: ``{"hello": …}`` once; from each fork ``{"id"}`` before anything of the program ran, and ``{"id",
  "start"}`` when it did not start; from its anchor ``{"id", "status"}`` with its exit code, or the negative number of
  the signal. A call with a status alone did not begin, and nothing of it ran.

The parent of a program is its anchor, a fork of the launcher that stays until nothing of the call is left. Both are
forked before the call comes. When the socket is closed, instar is gone: everything is killed, and this ends.
"""

from __future__ import annotations

import _socket
import ctypes
import importlib.machinery
import marshal
import os
import select
import sys
import warnings  # noqa: F401 - `os.execvpe` imports it, which each fork would do anew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

    Request = dict[str, Any]

_MESSAGE = 1 << 18  # bytes
_KILL = 9
_NAME, _PARENT_DIES, _ADOPT = 15, 1, 36  # what prctl is asked for
_LIBC = ctypes.PyDLL(None)


class Launcher:
    """The parent of the forks. One waits for the next call, so that no call waits for a fork."""

    def __init__(self, control: _socket.socket) -> None:
        self.control = control
        # By the call's id the process id of its anchor, until we hear that the run is over.
        self.calls: dict[int, int] = {}
        # By process id of an anchor the call's id, 0 of one that waits, and a descriptor of the process.
        self.running: dict[int, tuple[int, int]] = {}
        # The anchor of the fork that waits for the next call, and the way to its program.
        self.waiting: tuple[int, _socket.socket] | None = None
        self.poll = select.poll()
        self.poll.register(control.fileno(), select.POLLIN)
        self.pid = os.getpid()
        # Orphans of the forks come to this process rather than to the machine's first one.
        _LIBC.prctl(_ADOPT, 1, 0, 0, 0)

    def serve(self) -> None:
        """Answer calls until the socket is closed, which ends this process. Only forks leave, by their end."""
        os.chdir("/")
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.control.fileno():
                    self.hear()
                else:
                    self.reap()

    def hear(self) -> None:
        """Do what the next message says; none means that instar is gone."""
        # Before the call's streams come: an anchor that had them would keep them open after its program's end.
        self.prefork()
        data, given = _received(self.control)
        if not data:
            self.end()
        request = marshal.loads(data)  # noqa: S302 - from instar
        if "end" in request:
            self.over(request["end"])
            return
        self.start(request["id"], data, given)
        for descriptor in given:
            os.close(descriptor)
        # For the forks to come; the one that has the call did so by itself.
        self.prepared(request)
        self.prefork()

    def prefork(self) -> None:
        """Let a fork wait for the next call, if none does."""
        try:
            self.waiting = self.waiting or self.fork()
        except OSError:
            return  # the next message tries it again

    def prepared(self, request: Request) -> Any:
        """Return the module that confines the fork, with the policy's rules ready; None: instar starts it plainly."""
        module = load(request["applies"])
        try:
            module.prepare(request["policy"])
        except Exception:
            # Instar hears why from a child that is confined by itself.
            return None
        return module

    def start(self, call: int, data: bytes, given: list[int]) -> None:
        """Hand a call to the fork that waits; where none could be made, instar starts it plainly."""
        if self.waiting is None:
            self.say(b'{"id":%d,"status":126}' % call)
            return
        (anchor, door), self.waiting = self.waiting, None
        self.calls[call] = anchor
        self.running[anchor] = call, self.running[anchor][1]
        packed = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in given)
        try:
            door.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])
        except OSError:
            self.say(b'{"id":%d,"status":126}' % call)
        door.close()

    def fork(self) -> tuple[int, _socket.socket]:
        """Fork what waits for a call; return its anchor and the way to it. Raises `OSError`."""
        door, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        # `os.fork` would also renew locks, threads and random numbers: as much work again, of no use to an anchor.
        anchor = _LIBC.fork()
        if not anchor:
            door.close()
            self.wait(theirs)
        theirs.close()
        # A fork that is not watched ends at once: its way is closed. One that failed is no process.
        descriptor = os.pidfd_open(anchor)
        self.poll.register(descriptor, select.POLLIN)
        self.running[anchor] = 0, descriptor
        return anchor, door

    def wait(self, door: _socket.socket) -> NoReturn:
        """Become a call's anchor; its program waits for the call, takes it and runs."""
        try:
            anchor = self.hold(door)
            data, given = _received(door)
            if not data:
                os._exit(0)
            door.close()
            request = marshal.loads(data)  # noqa: S302 - from instar
            os.write(anchor, b"%d" % request["id"])
            os.close(anchor)
            prepared = self.prepared(request)
            if prepared is None:
                os._exit(126)
            self.begin(request, given)
        except BaseException:
            os._exit(126)
        self.become(request, prepared)

    def hold(self, door: _socket.socket) -> int:
        """Fork once more, and return in the new process, with what tells this one the call's id.

        This one is the call's anchor, and reports its end. What loses its parent comes to the anchor, whatever it did
        to its session and environment, and to the launcher when the anchor is killed. An anchor with nothing left ends
        by itself.
        """
        call = b""
        try:
            _LIBC.prctl(_ADOPT, 1, 0, 0, 0)
            self.stay()
            for _, descriptor in self.running.values():
                os.close(descriptor)
            told, telling = os.pipe()
            program = os.fork()
            if not program:
                os.close(told)
                self.stay()
                return telling
            os.close(telling)
            door.close()
            while True:
                ended, status = os.wait()
                if ended == program and (call := os.read(told, 32)):
                    self.say(b'{"id":%s,"status":%d}' % (call, os.waitstatus_to_exitcode(status)))
        except ChildProcessError:
            os._exit(0 if call else 126)
        except BaseException:
            os._exit(126)

    def stay(self) -> None:
        """End with the process that this one was forked from."""
        _LIBC.prctl(_PARENT_DIES, _KILL, 0, 0, 0)
        if os.getppid() != self.pid:
            os._exit(126)
        self.pid = os.getpid()

    def begin(self, request: Request, given: list[int]) -> None:
        """Take the call's session, streams, folder and confinement. A fork that fails here exits without a message."""
        os.setsid()
        if len(given) != 3:
            os._exit(126)
        for target, descriptor in enumerate(given):
            os.dup2(descriptor, target)
        for descriptor in given:
            os.close(descriptor)
        os.chdir(request["cwd"])
        if request["applies"]:
            load(request["applies"]).apply(request["policy"])
        # One that nobody hears was given up: the program may run elsewhere by now.
        self.control.send(b'{"id":%d}' % request["id"])

    def become(self, request: Request, prepared: Any) -> NoReturn:
        """Become the program, or say why not; the socket is closed on the way."""
        failure = prepared.become(request["argv"], dict(request["env"]))
        self.say(b'{"id":%d,"start":[%d,%d,%d,"%s"]}' % (request["id"], *failure))
        os._exit(127)

    def say(self, message: bytes) -> None:
        """Send one message; when the other end is gone, the next read says so."""
        try:
            self.control.send(message)
        except OSError:
            return

    def reap(self) -> None:
        """Wait for what has ended, ours and what was left to us."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.ended(*ended)
        except ChildProcessError:
            return

    def ended(self, child: int, status: int) -> None:
        """When an anchor was killed, report that, and kill what it leaves to us."""
        if child not in self.running:
            return
        call, descriptor = self.running.pop(child)
        self.poll.unregister(descriptor)
        os.close(descriptor)
        if self.waiting and self.waiting[0] == child:
            self.waiting = None
        if status and call:
            self.say(b'{"id":%d,"status":%d}' % (call, os.waitstatus_to_exitcode(status)))
            self.kill_orphans()

    def over(self, call: int) -> None:
        """Forget a run, and end what it left."""
        anchor = self.calls.pop(call, 0)
        if anchor in self.running and _kill(anchor):
            self.ended(*os.waitpid(anchor, 0))

    def kill_orphans(self) -> None:
        """Kill what runs below us and is no anchor; what its end leaves comes to us too."""
        while killed := [pid for pid in self.children() if pid not in self.running and _kill(pid)]:
            for pid in killed:
                os.waitpid(pid, 0)

    def children(self) -> list[int]:
        """Return our children; none if the kernel does not list them."""
        try:
            with open(f"/proc/self/task/{self.pid}/children", "rb") as file:
                return [int(pid) for pid in file.read().split()]
        except OSError:
            return []

    def end(self) -> None:
        """Leave nothing running, and end."""
        self.running.clear()
        self.kill_orphans()
        os._exit(0)


def _received(control: _socket.socket) -> tuple[bytes, list[int]]:
    """Read one message and its descriptors."""
    data, rights, _, _ = control.recvmsg(_MESSAGE, _socket.CMSG_SPACE(3 * 4), _socket.MSG_CMSG_CLOEXEC)
    packed = b"".join(part for _, _, part in rights)
    return data, [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]


def _kill(pid: int) -> bool:
    """Kill a process; False when we may not."""
    try:
        os.kill(pid, _KILL)
    except OSError:
        return False
    return True


_LOADED: dict[str, ModuleType] = {}


def load(path: str) -> ModuleType:
    """Return the module of one of instar's files, which is not among those that a script finds."""
    if path not in _LOADED:
        name = "_instar_" + os.path.basename(path).partition(".")[0]
        module = type(sys)(name)
        importlib.machinery.SourceFileLoader(name, path).exec_module(module)
        _LOADED[path] = module
    return _LOADED[path]


def take_control() -> _socket.socket:
    """Return the socket, and read from /dev/null from here on: no fork finds a way back to it."""
    control = _socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control


def main() -> None:
    """Say hello, and serve."""
    # What the way here left open is no program's.
    os.closerange(3, 1 << 16)
    control = take_control()
    control.recv(_MESSAGE)
    _LIBC.prctl(_NAME, b"instar-launcher", 0, 0, 0)
    control.send(b'{"hello":{"refused":null,"watched":[]}}')
    Launcher(control).serve()


if __name__ == "__main__":
    main()
