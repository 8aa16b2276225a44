"""`instar serve --workers N`: N servers that accept from one socket, and the process that keeps them running."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from instar.cli.door import Failure
from instar.cli.text import note

log = logging.getLogger("instar.server")

_LONGEST: Final = 30.0
"""Seconds that are waited at most before a worker that keeps ending is started again."""
_STEADY: Final = 60.0
"""Seconds after which a worker counts as one that runs."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Workers:
    """The servers of one socket. `arguments` are those of `instar serve`, without the socket."""

    def __init__(
        self, count: int, listener: socket.socket, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._listener = listener
        self._command = [sys.executable, "-m", "instar", "serve", "--listener", str(listener.fileno())]
        self._command += arguments
        self._environment = environment
        self._count = count
        self._ending = asyncio.Event()
        self._running: dict[int, asyncio.subprocess.Process] = {}

    async def run(self, announce: Callable[[], None]) -> None:
        """Keep the workers running until a signal comes; `announce` is called once all of them listen.

        Raises `Failure` when one does not start at first.
        """
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._end)
        listening = [asyncio.Event() for _ in range(self._count)]
        keeping = [asyncio.create_task(self._keep(one)) for one in listening]
        ready = asyncio.create_task(_all_set(listening))
        try:
            await asyncio.wait([ready, *keeping], return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                announce()
            await asyncio.gather(*keeping)
        finally:
            ready.cancel()
            self._end()
            for task in keeping:
                task.cancel()
            await asyncio.gather(*(one.wait() for one in self._running.values()))

    def _end(self) -> None:
        """Tell every worker to end; a second time, to end at once."""
        self._ending.set()
        for one in self._running.values():
            if one.returncode is None:
                one.terminate()

    async def _keep(self, listening: asyncio.Event) -> None:
        pause = 1.0
        while not self._ending.is_set():
            began = time.monotonic()
            code = await self._once(listening)
            if self._ending.is_set():
                return
            if not listening.is_set():
                raise Failure(f"a worker ended with {code} before it listened; what it said stands above")
            if time.monotonic() - began > _STEADY:
                pause = 1.0
            note(f"a worker ended ({code}); another one starts in {pause:g} s")
            try:
                await asyncio.wait_for(self._ending.wait(), pause)
            except TimeoutError:
                pause = min(2 * pause, _LONGEST)

    async def _once(self, listening: asyncio.Event) -> int:
        """Start a worker and wait for its end; return its exit code."""
        # Its input tells a worker whether we live; in a session of its own it hears of Ctrl-C from us alone.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=dict(self._environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[self._listener.fileno()],
            start_new_session=True,
        )
        self._running[process.pid] = process
        if self._ending.is_set():
            process.terminate()
        try:
            assert process.stdout is not None
            async for _ in process.stdout:  # the first line says that it listens
                listening.set()
            return await process.wait()
        finally:
            if process.returncode is not None:
                del self._running[process.pid]


async def _all_set(events: Sequence[asyncio.Event]) -> None:
    for one in events:
        await one.wait()


def follow_parent() -> None:
    """End as on a signal once the process is gone that started this worker."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(0, gone)
