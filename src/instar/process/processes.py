"""The children of one runtime, and the promise that nothing of them is left behind."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instar.process.child import Child, Feed, whole
from instar.process.kept import MIB, Kept
from instar.process.output import Output, ProcessError
from instar.process.reason import program


class Processes:
    """The children of one runtime. Use it from one event loop."""

    def __init__(self) -> None:
        self._children: set[Child] = set()
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
            raise ProcessError(f"cannot start {program(argv)}: the runtime is shutting down")
        child = Child(Kept(limit, spill), Kept(limit), on_output)
        self._children.add(child)
        started = time.monotonic()
        try:
            await whole(child.start(argv, stdin, merge, cwd=cwd, env=env))
            timed_out = not await child.exit(timeout)
        finally:
            await whole(child.end())
            self._children.discard(child)
        return child.output(started, timed_out)

    async def close(self) -> None:
        """End every child that still runs, with its group; later calls of `run` are refused."""
        self._closed = True
        await asyncio.gather(*(whole(child.end()) for child in list(self._children)))
