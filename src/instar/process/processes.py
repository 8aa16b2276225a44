"""The children of one runtime, and the promise that nothing of them is left behind."""

import asyncio
import logging
import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.process.child import GRACE, MIB, Capture, Child, Feed, ForkedProcess, marked, plainly, whole
from instar.process.confine import Confinement, Ending, Policy, Wrapped
from instar.process.fork_server import ForkServer, ForkServers
from instar.process.output import Output, ProcessError, program, told

log = logging.getLogger("instar.process")

_DESCRIPTORS: Final = 16
"""Descriptors that a child and what is done around it take at most."""
_OWN_DESCRIPTORS: Final = 32
_PATIENCE: Final = 60.0
"""Seconds that a child waits for descriptors before it is started all the same: others may run for days."""
_SHELL: Final = "/bin/sh"
_PROGRAM: Final = str(Path(__file__).with_name("instar-guard.sh"))


class Processes:
    """The children of one runtime. Use it from one event loop."""

    def __init__(self) -> None:
        self._children: set[Child] = set()
        self._closed = False
        self._token = os.urandom(8).hex()
        self._runs = 0
        self._guard = OrphanGuard(self._token)
        self._fork_servers = ForkServers(lambda env: marked(env, self._mark()))
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._room = asyncio.Semaphore(max(1, (allowed - _OWN_DESCRIPTORS) // _DESCRIPTORS))

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: Feed = b"",
        timeout: float | None = None,
        limit: int = MIB,
        merge: bool = False,
        on_output: Callable[[bytes], None] | None = None,
        confine: Confinement | None = None,
        warm: bool = False,
    ) -> Output:
        """Run `argv` in `cwd` to its end and return what it did; an exit code is never an exception.

        `env` is the whole environment (None: this process's own); the run's mark is added to it. `stdin` is
        written while output is read, or read from; else it is empty. After `timeout` seconds the group is ended and
        `timed_out` set. Of each stream the first `limit` bytes are kept, the rest is read and dropped. `merge` sends
        stderr into stdout. `on_output` sees each chunk of stdout as it comes; what it raises ends the
        child and is raised here. `confine` says what it may reach. `warm`: a Python script given bytes to read may
        be run by an interpreter that has already started, behind the same confinement. Cancelling ends the group,
        within a second, before it is passed on. Where descriptors are few (``ulimit -n``), children wait for others.

        Raises `ProcessError` when the program cannot be started, confined or not, or after `close`.
        """
        if self._closed:
            raise ProcessError(f"cannot start {program(argv)}: the runtime is shutting down", closing=True)
        if not argv:
            raise ProcessError("cannot start a command of no words: name a program")
        mark = self._mark()
        child = Child(Capture(limit), Capture(limit), on_output, mark)
        guard, servers = self._guard, self._fork_servers
        start = _Start(guard, servers, argv, cwd, marked(env, mark), stdin, merge, confine, warm)
        # A server of a plugin's, which is spoken to by a descriptor, would keep its place for ever.
        has_place = not isinstance(stdin, int) and await self._place()
        self._children.add(child)
        started = time.monotonic()
        ending = Ending()
        try:
            await whole(child.start(start.launch, merge))
            guard.take(child)
            timed_out = not await child.exit(timeout)
            ending = start.wrapped.ending()
        finally:
            await whole(child.end())
            guard.over(child)
            self._children.discard(child)
            if has_place:
                self._room.release()
            start.wrapped.after()
        if ending.failure:
            raise ProcessError(ending.failure)
        return child.output(started, timed_out, ending.signal)

    async def close(self) -> None:
        """End every child that still runs, with its group; later calls of `run` are refused."""
        self._closed = True
        await asyncio.gather(
            *(whole(child.end()) for child in list(self._children)), self._fork_servers.close()
        )
        await self._guard.close()

    async def _place(self) -> bool:
        """Wait for a place among the children that run; return whether there was one in time."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._room.acquire()
        except TimeoutError:
            return False

    def _mark(self) -> str:
        # The full stop tells run 1 from run 12 in an environment.
        self._runs += 1
        return f"{self._token}.{self._runs}."


class _Start(msgspec.Struct):
    """How one program is started: with `warm` by a warm interpreter where that is possible, else plainly."""

    guard: "OrphanGuard"
    servers: ForkServers
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    stdin: Feed
    merge: bool
    confine: Confinement | None
    warm: bool
    wrapped: Wrapped = Wrapped((), {})

    async def launch(self, child: Child) -> asyncio.SubprocessTransport:
        """Start it."""
        return await self._warmly(child) or await self._launched(child) or await self._plainly(child)

    async def _plainly(self, child: Child) -> asyncio.SubprocessTransport:
        confined = self.confine and self.confine.wrap(self.argv, self.cwd, self.env)
        self.wrapped = confined or Wrapped(self.argv, self.env)
        argv, env, pass_fds, *_ = self.wrapped
        # Before the child: what is started later would miss one whose instar is killed at once.
        self.guard.start()
        return await plainly(argv, self.stdin, self.merge, cwd=self.cwd, env=env, pass_fds=pass_fds)(child)

    async def _launched(self, child: Child) -> ForkedProcess | None:
        found = self.confine and await self.servers.launcher(self.cwd, self.env, self.confine)
        call = await self._forked(child, *found) if found else None
        if call is not None:
            self.wrapped = Wrapped((), {}, ending=lambda: self._ending(call))
        return call

    def _ending(self, call: ForkedProcess) -> Ending:
        return Ending() if call.failed is None else Ending(failure=told(self.argv, *call.failed))

    async def _warmly(self, child: Child) -> ForkedProcess | None:
        # Without bytes its standard input would not be a pipe, which a script can see.
        if not self.warm or not isinstance(self.stdin, bytes) or not self.stdin:
            return None
        interpreter = self.servers.ready(self.argv, self.cwd, self.env, self.confine)
        if interpreter is None:
            return None
        policy = interpreter.shared.policy() if interpreter.shared else Policy(b"", "")
        return await self._forked(child, interpreter, policy)

    async def _forked(self, child: Child, server: ForkServer, policy: Policy) -> ForkedProcess | None:
        env = self.env if server.shared is None else server.shared.environment(self.env)
        request = {
            "argv": list(self.argv),
            "env": list(env.items()),
            "cwd": str(self.cwd),
            "policy": policy.data,
            "applies": policy.applies if policy.data else "",
        }
        return await server.launch(child, request, self.stdin, self.merge)


class OrphanGuard:
    """Ends the children of an instar that was itself killed and could not; `mark` begins the marks of its runs.

    A shell of a few hundred kilobytes reads which groups live, from a pipe that only instar holds. When the pipe is
    closed without a word, instar is gone, and so are they: SIGTERM, a short grace, SIGKILL, and whatever carries the
    mark of its runs. It is started before the first child that no launcher guards.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._pid = 0
        self._pipe = -1
        self._groups: dict[Child, int] = {}
        self._refused = False

    def start(self) -> None:
        """Start it, once."""
        if self._pid or self._refused:
            return
        reading, writing = os.pipe()
        try:
            null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)
            self._pid = os.posix_spawn(
                _SHELL,
                [_SHELL, _PROGRAM, self._mark, str(GRACE)],
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), *null],
                setsid=True,
            )
            os.set_blocking(writing, False)
            self._pipe = writing
        except (OSError, NotImplementedError) as error:
            # Children are still ended by instar itself; only its own sudden death leaves them.
            os.close(writing)
            self._refused = True
            log.warning("guard=none reason=%s; if instar is killed, what it started lives on", error)
        finally:
            os.close(reading)

    def take(self, child: Child) -> None:
        """Guard the group of `child`; a launcher guards its own."""
        group = child.pid
        if group is not None and not child.launched:
            self._groups[child] = group
            self._say(f"+ {group}")

    def over(self, child: Child) -> None:
        """The run of `child` is over, and its group is gone."""
        group = self._groups.pop(child, None)
        if group is not None:
            self._say(f"- {group}")

    async def close(self) -> None:
        """End the guard; nothing is left for it to do."""
        if not self._pid:
            return
        self._say("q")
        os.close(self._pipe)
        pid, self._pid, self._pipe = self._pid, 0, -1
        until, pause = time.monotonic() + 1, 0.001
        while _runs(pid) and time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _say(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode() + b"\n")
            except OSError as error:
                log.debug("guard=deaf reason=%s", error)


_own: Final[list[OrphanGuard]] = []


def mark_own() -> None:
    """Mark what code in this process starts by itself, as plugins in Python do. A program of instar calls it once."""
    mark = os.urandom(8).hex()
    os.environ.update(marked(None, mark))
    _own.append(OrphanGuard(mark))


def guard_own() -> None:
    """Let what `mark_own` marks end with this process, however that ends."""
    for guard in _own:
        guard.start()


def _runs(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG) == (0, 0)
