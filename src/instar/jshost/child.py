"""The child that runs JavaScript: one process of one instance, on a socket of its own, behind the shield."""

import asyncio
import logging
import signal
import socket
from collections import deque
from typing import Any, Final

from instar.jshost.engine import Engine
from instar.jshost.history import Histories
from instar.jshost.peer import Answer, JavaScriptError, Peer
from instar.plugin import PluginInput
from instar.process import Output, ProcessError
from instar.wire import Plain

log = logging.getLogger("instar.jshost")

_ENDING: Final = 2.0
"""Seconds that a child has to end once it has closed its socket."""
_LINE: Final = 4_000


class Child:
    """A running child; `peer` speaks with it, `histories` are what it knows of sessions. Make it with `start`."""

    def __init__(self, peer: Peer, running: "asyncio.Task[Output]", lines: "Lines") -> None:
        self.peer = peer
        self.histories = Histories()
        self.about: Plain = {}
        self._running = running
        self._lines = lines
        self._closing = ""
        self._watching = asyncio.create_task(self._watch(), name="JavaScript host")

    @classmethod
    async def start(cls, engine: Engine, given: PluginInput, answer: Answer, greeting: Plain) -> "Child":
        """Start a child and greet it. Raises `JavaScriptError` when it does not come up."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        lines = Lines()
        run = given.children.run(
            engine.argv,
            cwd=given.directory,
            env=given.children.environment(given.environment),
            stdin=theirs.fileno(),
            merge=True,
            limit=0,
            on_output=lines.take,
        )
        child = cls(Peer(reader, writer, answer), asyncio.create_task(run, name="JavaScript child"), lines)
        try:
            child.about = await child.peer.request("initialize", greeting)
        except BaseException:
            await child.close("it did not come up")
            raise
        finally:
            # Held until it has its own, or is gone.
            theirs.close()
        return child

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._watching.done() or self._running.done()

    async def close(self, reason: str) -> None:
        """End it; whoever waits for it is told the `reason`."""
        self._closing = self._closing or reason
        self._running.cancel()
        await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        reading = asyncio.create_task(self.peer.run())
        await asyncio.wait([reading, self._running], return_when=asyncio.FIRST_COMPLETED)
        nonsense = reading.result() if reading.done() else ""
        if not self._running.done():
            await asyncio.wait([self._running], timeout=0 if nonsense else _ENDING)
            self._running.cancel()
            await asyncio.wait([self._running])
        reading.cancel()
        await asyncio.wait([reading])
        reason = self._closing or nonsense or self._reason()
        log.log(logging.INFO if self._closing else logging.ERROR, "the JavaScript host is gone: %s", reason)
        await self.peer.close(f"the JavaScript host is gone: {reason}")

    def _reason(self) -> str:
        if self._running.cancelled():
            return "it closed its socket"
        error = self._running.exception()
        if error is not None:
            return str(error)
        done = self._running.result()
        how = f"it ended with code {done.code}"
        if done.signal is not None:
            how = f"it was ended by {signal.Signals(done.signal).name}"
        return how + (f" ({self._lines.last[-1]})" if self._lines.last else "")


class Lines:
    """Cuts what plugins print into lines for the log; `last` holds the last few."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=5)
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Log the lines that are whole."""
        *lines, rest = (self._rest + data).split(b"\n")
        # A plugin that never ends its line must not fill the memory.
        self._rest = rest[-_LINE:]
        for line in lines:
            text = line[:_LINE].decode("utf-8", "replace").rstrip()
            self.last.append(text)
            log.info("printed line=%s", text)


async def answers(child: Child, seconds: float) -> bool:
    """Whether a child answers within `seconds`: one whose code never awaits does not."""
    asking: asyncio.Task[Any] = asyncio.create_task(child.peer.request("ping", {}))
    await asyncio.wait([asking], timeout=seconds)
    if not asking.done():
        asking.cancel()
        await asyncio.wait([asking])
        return False
    return asking.exception() is None or isinstance(asking.exception(), JavaScriptError | ProcessError)
