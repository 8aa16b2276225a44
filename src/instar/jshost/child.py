"""The child that runs JavaScript: one process of one instance, on a socket of its own, behind the shield.

bun runs it where there is one, else node.
"""

import asyncio
import logging
import re
import shutil
import signal
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.jshost.contributed import Histories
from instar.jshost.peer import Answer, JavaScriptError, Peer
from instar.plugin import PluginInput
from instar.plugin.locate import LoadError
from instar.plugin.shell import LogLines
from instar.process import Output, ProcessError, Processes
from instar.wire import Plain

NEEDED: Final = 20
"""The oldest major version of node that will do."""
HOST: Final = Path(__file__).parent / "host" / "host.mjs"
"""The program that the child runs."""
_SOCKET: Final = "3"
# Programs that a plugin starts get its stdin: the socket must not be that.
_MOVED: Final = 'exec "$@" 3<&0 0</dev/null'


class JavaScriptEngine(msgspec.Struct, frozen=True):
    """A program that runs JavaScript, by its absolute `path`; `name` is ``bun`` or ``node``."""

    name: str
    path: str

    @property
    def argv(self) -> list[str]:
        """The command of the host, which finds its socket on stdin."""
        flags = ["--no-install"] if self.name == "bun" else ["--no-warnings"]
        return ["sh", "-c", _MOVED, "sh", self.path, *flags, str(HOST), _SOCKET]


def find_engine(environment: Mapping[str, str]) -> JavaScriptEngine:
    """Return what runs JavaScript on the person's ``PATH``. Raises `LoadError` when nothing does."""
    path = environment.get("PATH")
    for name in ("bun", "node"):
        if (found := shutil.which(name, path=path)) is not None:
            return JavaScriptEngine(name, found)
    raise LoadError(
        f"it is JavaScript, and there is neither bun nor node on PATH: install bun, or node {NEEDED} or newer"
    )


def demand_new(engine: JavaScriptEngine, version: str) -> None:
    """Raise `LoadError` for a node that is too old, by the `version` that it prints."""
    found = re.match(r"v(\d+)\.", version)
    if engine.name == "node" and (found is None or int(found[1]) < NEEDED):
        what = "no version" if found is None else f"version {found[1]}"
        raise LoadError(
            f"it is JavaScript, and {engine.path} has {what}: "
            f"install bun, or node {NEEDED} or newer, and put it on PATH"
        )


async def version_of(
    engine: JavaScriptEngine, environment: Mapping[str, str], processes: Processes, directory: Path
) -> str:
    """Return the version that a program prints, "" when it prints none. Asked when it did not come up."""
    try:
        said = await processes.run([engine.path, "--version"], cwd=directory, env=environment, timeout=10)
    except ProcessError:
        return ""
    return said.stdout.decode("utf-8", "replace").strip()


log = logging.getLogger("instar.jshost")

_ENDING: Final = 2.0
"""Seconds that a child has to end once it has closed its socket."""


class HostProcess:
    """A running child; `peer` speaks with it, `histories` are what it knows of sessions. Make it with `start`."""

    def __init__(self, peer: Peer, running: "asyncio.Task[Output]", lines: LogLines) -> None:
        self.peer = peer
        self.histories = Histories()
        self.about: Plain = {}
        self._running = running
        self._lines = lines
        self._closing = ""
        self._watching = asyncio.create_task(self._watch(), name="JavaScript host")

    @classmethod
    async def start(
        cls, engine: JavaScriptEngine, given: PluginInput, answer: Answer, greeting: Plain
    ) -> "HostProcess":
        """Start a child and greet it. Raises `JavaScriptError` when it does not come up."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        lines = LogLines(partial(log.info, "printed line=%s"))
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


async def answers(child: HostProcess, seconds: float) -> bool:
    """Whether a child answers within `seconds`: one whose code never awaits does not."""
    asking: asyncio.Task[Any] = asyncio.create_task(child.peer.request("ping", {}))
    await asyncio.wait([asking], timeout=seconds)
    if not asking.done():
        asking.cancel()
        await asyncio.wait([asking])
        return False
    return asking.exception() is None or isinstance(asking.exception(), JavaScriptError | ProcessError)
