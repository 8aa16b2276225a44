"""For commands that another program talks to on stdin and stdout: their streams, and the runtimes behind them."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from instar.cli import collector, streams
from instar.cli.attach import Attached, client_to
from instar.cli.door import Context, in_process
from instar.client import AsyncClient
from instar.process import mark_own
from instar.server.app import application
from instar.server.instances import Asked, Instances
from instar.server.own_server import OwnServer
from instar.server.within import Transport

ClientOf = Callable[[str | None], AsyncClient]
"""Makes a client whose requests are about a directory; None is the directory that the command was started in."""

LONGEST: Final = 64 * 1024 * 1024
"""Bytes of one line."""
_MOST_WAITING: Final = 4 * 1024 * 1024
"""Bytes that may wait for a reader before who writes waits too."""
_PIECE: Final = 1 << 16


@asynccontextmanager
async def clients(context: Context, url: str | None, asked: Asked) -> AsyncIterator[ClientOf]:
    """Yield what makes clients: of the server at `url`, else of runtimes of this process, one for each directory.

    `asked` says who answers what these runtimes ask, as in `Instances`. No orders are given through these clients.
    """
    if url is not None:
        yield lambda folder: client_to(context, Attached(url, folder))
        return
    instances = Instances(
        context.directory, context.environment, http=in_process, serve=OwnServer, asked=asked
    )
    mark_own()
    collector.started()
    transport = Transport(application(instances))
    try:
        yield lambda folder: AsyncClient("http://instar", transport=transport, directory=folder)
    finally:
        await instances.close()


class Lines:
    """The lines of stdin, and those for stdout, where nothing else is printed from now on.

    What plugins and children print goes to stderr, and what they read from stdin is empty. Make it in the event loop.
    """

    def __init__(self) -> None:
        self._given, taken = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._printer = streams.Printer(taken, streams.PATIENCE)
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        # A thread reads: stdin may also be a file, which an event loop cannot wait for.
        threading.Thread(target=self._read, name="instar-input", daemon=True).start()

    async def line(self) -> bytes | None:
        """Return the next line that is not blank, None at the end. A line longer than `LONGEST` is cut there."""
        return await self._lines.get()

    async def write(self, line: bytes) -> None:
        """Write a line; lines keep their order. Waits while the reader is behind.

        Raises `BrokenPipeError` when there is no reader.
        """
        self._printer.put(line + b"\n", None)
        while self._printer.waiting > _MOST_WAITING:
            await asyncio.sleep(0.05)
            self._printer.check()

    async def close(self) -> None:
        """Wait a moment until what was written is read."""
        await asyncio.to_thread(self._printer.written)

    def _read(self) -> None:
        rest = bytearray()
        while piece := os.read(self._given, _PIECE):
            *whole, last = piece.split(b"\n")
            for line in whole:
                self._take(bytes(rest) + line)
                rest.clear()
            rest += last[: LONGEST - len(rest)]
        self._take(bytes(rest))
        self._put(None)

    def _take(self, line: bytes) -> None:
        if line.strip():
            self._put(line)

    def _put(self, line: bytes | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop was closed: nobody reads any more
            return
