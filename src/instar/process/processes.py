"""The children of one runtime, and the promise that nothing of them is left behind."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from instar.process.call import Call
from instar.process.child import Child, Feed, Launch, Transport, plainly, whole
from instar.process.confine import Confinement, Ending, Policy, Wrapped
from instar.process.group import marked
from instar.process.guard import Guard
from instar.process.kept import MIB, Kept
from instar.process.output import Output, ProcessError
from instar.process.reason import program, told
from instar.process.warm import Warm


class Processes:
    """The children of one runtime. Use it from one event loop."""

    def __init__(self) -> None:
        self._children: set[Child] = set()
        self._closed = False
        self._token = os.urandom(8).hex()
        self._runs = 0
        self._guard = Guard(self._token)
        self._warm = Warm(lambda env: marked(env, self._mark()))

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
        confine: Confinement | None = None,
        warm: bool = False,
    ) -> Output:
        """Run `argv` in `cwd` to its end and return what it did; an exit code is never an exception.

        `env` is the whole environment (None: this process's own); the run's mark is added to it. `stdin` is
        written while output is read, or read from; else it is empty. After `timeout` seconds the group is ended and
        `timed_out` set. Of each stream the first `limit` bytes are kept, the rest is read and dropped; with
        `spill` the whole stdout (up to `SPILL_LIMIT`) goes to that file once it exceeds `limit`. `merge` sends
        stderr into stdout. `on_output` sees each chunk of stdout as it comes; what it raises ends the
        child and is raised here. `confine` says what it may reach. `warm`: a Python script given bytes to read may
        be run by an interpreter that has already started, behind the same confinement. Cancelling ends the group,
        within a second, before it is passed on.

        Raises `ProcessError` when the program cannot be started, confined or not, or after `close`.
        """
        if self._closed:
            raise ProcessError(f"cannot start {program(argv)}: the runtime is shutting down", closing=True)
        if not argv:
            raise ProcessError("cannot start a command of no words: name a program")
        mark = self._mark()
        child = Child(Kept(limit, spill), Kept(limit), on_output, mark)
        start = _Start(argv, cwd, marked(env, mark), stdin, merge, confine)
        self._children.add(child)
        started = time.monotonic()
        guarding: asyncio.TimerHandle | None = None
        ending = Ending()
        try:
            await whole(child.start(start.launch(self._warm, scripts=warm), merge))
            guarding = self._guard.soon(child)  # not before: one that is slow to start would be passed over
            timed_out = not await child.exit(timeout)
            ending = start.wrapped.ending()
        finally:
            await whole(child.end())
            if guarding is not None:
                guarding.cancel()
            self._guard.over(child)
            self._children.discard(child)
            start.wrapped.after()
        if ending.failure:
            raise ProcessError(ending.failure)
        return child.output(started, timed_out, ending.signal)

    async def close(self) -> None:
        """End every child that still runs, with its group; later calls of `run` are refused."""
        self._closed = True
        await asyncio.gather(*(whole(child.end()) for child in list(self._children)), self._warm.close())
        await self._guard.close()

    def _mark(self) -> str:
        # The full stop tells run 1 from run 12 in an environment.
        self._runs += 1
        return f"{self._token}.{self._runs}."


class _Start:
    """How one program is started: warm where that is asked for and possible, else plainly."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: Feed,
        merge: bool,
        confine: Confinement | None,
    ) -> None:
        self.wrapped = Wrapped(argv, env)
        self._argv, self._cwd, self._env = argv, cwd, env
        self._stdin, self._merge, self._confine = stdin, merge, confine

    def launch(self, warm: Warm, *, scripts: bool) -> Launch:
        """Return the launch; `scripts`: a warm interpreter may run it."""

        async def launch(child: Child) -> Transport:
            found = await self._warmly(warm, child) if scripts else None
            return found or await self._launched(warm, child) or await self._plainly(child)

        return launch

    async def _plainly(self, child: Child) -> Transport:
        if self._confine is not None:
            self.wrapped = self._confine.wrap(self._argv, self._cwd, self._env)
        argv, env, pass_fds, *_ = self.wrapped
        return await plainly(argv, self._stdin, self._merge, cwd=self._cwd, env=env, pass_fds=pass_fds)(child)

    async def _launched(self, warm: Warm, child: Child) -> Transport | None:
        found = None if self._confine is None else await warm.launcher(self._env, self._confine)
        if found is None:
            return None
        launcher, policy = found
        call = await launcher.launch(child, self._request(policy), self._stdin, self._merge)
        if call is not None:
            self.wrapped = self.wrapped._replace(ending=lambda: self._ending(call))
        return call

    def _request(self, policy: Policy | None) -> dict[str, Any]:
        """What is asked of a process that forks."""
        return {
            "argv": list(self._argv),
            "env": list(self._env.items()),
            "cwd": str(self._cwd),
            "policy": policy.data if policy else b"",
            "applies": policy.applies if policy and policy.data else "",
        }

    def _ending(self, call: Call) -> Ending:
        return Ending() if call.failed is None else Ending(failure=told(self._argv, *call.failed))

    async def _warmly(self, warm: Warm, child: Child) -> Transport | None:
        # Without bytes its standard input would not be a pipe, which a script can see.
        if not isinstance(self._stdin, bytes) or not self._stdin:
            return None
        interpreter = warm.ready(self._argv, self._cwd, self._env, self._confine)
        if interpreter is None:
            return None
        policy = None if interpreter.shared is None else interpreter.shared.policy()
        return await interpreter.launch(child, self._request(policy), self._stdin, self._merge)
