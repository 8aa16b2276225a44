"""One server of the ``mcp`` block: connected when it is needed, watched, and connected again after it was lost."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from instar.config import McpConfig
from instar.mcp import definition
from instar.mcp.protocol import Connect, Link, LinkError, Place, Progress, config_fault, first_of
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.mcp.definition import Definition

log = logging.getLogger("instar.mcp")

State = Literal["disabled", "waiting", "connecting", "connected", "failed"]

PATIENCE: Final = 5.0
"""Seconds that a step waits for a server, unless its block gives a timeout."""
CALL: Final = 60.0
"""Seconds that a call may take without a word of progress, unless its block gives a timeout."""
_LONGEST_START: Final = 30.0
"""Seconds that a server without a timeout may take to start, while steps go on without it."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_STEADY: Final = 30.0
"""Seconds after which a connection counts as sound: the next one is tried at once when it is lost."""


class Status(msgspec.Struct, frozen=True):
    """How a server is, for people: `tools` by the name that the model uses, `left_out` with the reason.

    `prompts` by the name of their command, known once somebody asked for them.
    """

    server: str
    state: State
    tools: list[str] = []
    left_out: list[str] = []
    resources: bool = False
    prompts: list[str] = []
    error: str | None = None


class Server:
    """A server. `say` is given one line for the person, `changed` is called when its tools may be others."""

    def __init__(
        self,
        name: str,
        config: McpConfig,
        place: Place,
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.enabled = config.enabled
        self.state: State = "waiting" if config.enabled else "disabled"
        self.error: str | None = None
        self.definitions: list[Definition] = []
        self.left_out: list[str] = []
        self.capabilities: Plain = {}
        self.config = config
        self._place = place
        self._say = say
        self._changed = changed
        self._timeout = config.timeout / 1000 if config.timeout else None
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._woken = asyncio.Event()
        self._stale = False
        self._closed = False
        self._final = False
        self._was_up = False
        self._waited = False
        self._losses = 0
        self._due = 0.0

    async def ready(self, connect: Connect) -> None:
        """See that the server is connected if it can be; waits no longer than its patience.

        A server that was never up and let one step wait does not let another wait.
        """
        self._start(connect)
        if self.state != "connecting" or (self._waited and not self._was_up):
            return
        patience = self._timeout or PATIENCE
        try:
            await asyncio.wait_for(self._settled.wait(), patience)
        except TimeoutError:
            self._waited = True
            self.error = f"it has not answered in {patience:g} s"
            self._say(f"the MCP server {self.name!r} has not answered in {patience:g} s: going on without it")

    async def call(
        self, method: str, params: Plain, connect: Connect, progress: Progress | None = None
    ) -> Any:
        """Send a request and return its result. Raises `LinkError` naming the server.

        Its time starts again with every word of progress that the server sends.
        """
        await self.ready(connect)
        limit = self._timeout or CALL
        if self.is_starting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), limit)
        link = self._link
        if link is None:
            raise LinkError(f"The MCP server {self.name!r} is not connected: {self.error or 'it was lost'}.")
        loop = asyncio.get_running_loop()

        async def heard(done: float, total: float | None, message: str | None) -> None:
            patience.reschedule(loop.time() + limit)
            if progress is not None:
                await progress(done, total, message)

        try:
            async with asyncio.timeout(limit) as patience:
                return await link.request(method, params, heard)
        except TimeoutError:
            raise LinkError(f"The MCP server {self.name!r} has not answered in {limit:g} s.") from None
        except LinkError as error:
            if not error.lost:
                raise LinkError(f"The MCP server {self.name!r} answered: {error}") from error
            await self._gone()
            reason = self.error or str(error)
            raise LinkError(f"The MCP server {self.name!r} was lost during this call: {reason}.") from error

    @property
    def is_starting(self) -> bool:
        """Whether it has not been up since this process began, and still may be soon."""
        return self.state == "connecting" and not self._was_up

    async def pages(self, method: str, key: str) -> list[Any]:
        """Return all entries of a list, within the call's time; none when it is not connected. Raises `LinkError`."""
        if self._link is None:
            return []
        try:
            async with asyncio.timeout(self._timeout or CALL):
                return await self._link.pages(method, key)
        except TimeoutError:
            raise LinkError(f"The MCP server {self.name!r} has not answered to {method}.") from None

    async def close(self, grace: float) -> None:
        """End the connection and its child, gently for `grace` seconds."""
        self._closed = True
        self._woken.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=grace if self.state == "connected" else 0)
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self, connect: Connect) -> None:
        running = self._task is not None and not self._task.done()
        if running or self._closed or self._final or not self.enabled or time.monotonic() < self._due:
            return
        fault = config_fault(self.name, self.config)
        if fault is not None:
            self._final = True
            self._fail(fault)
            return
        self.state = "connecting"
        self._settled, self._woken = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run(connect), name=f"mcp {self.name}")

    async def _run(self, connect: Connect) -> None:
        """One connection, from start to end."""
        limit = self._timeout or _LONGEST_START
        started = time.monotonic()
        try:
            async with asyncio.timeout(limit) as patience:
                async with connect(self.config, self._place, self._hear) as link:
                    await self._list(link)
                    patience.reschedule(None)
                    self._up(link)
                    started = time.monotonic()
                    await self._serve(link)
                    reason = link.lost.result() if link.lost.done() else "it was closed"
        except TimeoutError as error:
            # Its cause is what the connection was cancelled with: what it printed instead of an answer.
            reason = "; ".join(
                filter(None, [f"it has not answered in {limit:g} s", str(error.__cause__ or "")])
            )
        except (Exception, BaseExceptionGroup) as error:
            found = first_of(error)
            self._final = isinstance(found, LinkError) and found.final
            reason = str(found) or type(found).__name__
        finally:
            # Also when it was cancelled: nobody may wait for it any longer.
            self._link = None
            self._settled.set()
        self._down(reason, time.monotonic() - started)

    async def _serve(self, link: Link) -> None:
        """Keep the connection until it is lost or closed, and read the tools again when they changed."""
        woken = self._woken
        link.lost.add_done_callback(lambda _: woken.set())
        while not (link.lost.done() or self._closed):
            if self._stale:
                self._stale = False
                await self._list_again(link)
            self._woken.clear()
            if not (link.lost.done() or self._closed or self._stale):
                await self._woken.wait()

    async def _list_again(self, link: Link) -> None:
        """Read the tools again; what cannot be read leaves them as they were."""
        try:
            async with asyncio.timeout(self._timeout or CALL):
                await self._list(link)
        except (TimeoutError, LinkError) as error:
            reason = str(error) or "it has not answered"
            self._say(f"the MCP server {self.name!r} did not list its changed tools: {reason}")

    async def _list(self, link: Link) -> None:
        found: list[Definition] = []
        faults: list[str] = []
        listed = await link.pages("tools/list", "tools") if "tools" in link.capabilities else []
        for raw in listed:
            try:
                read = definition.read(raw)
                fault = link.schema_fault(read.parameters)
            except ValueError as error:
                faults.append(str(error))
                continue
            if fault is None:
                found.append(read)
            else:
                faults.append(f"{read.tool}: its inputSchema is wrong: {fault}")
        for fault in faults:
            if fault not in self.left_out:
                self._say(f"a tool of the MCP server {self.name!r} is left out: {fault}")
        self.definitions, self.left_out, self.capabilities = found, faults, link.capabilities
        self._changed()

    def _hear(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._stale = True
            self._woken.set()

    def _up(self, link: Link) -> None:
        self._link, self.state, self.error = link, "connected", None
        self._was_up = True
        self._settled.set()
        log.info("connected server=%s tools=%d", self.name, len(self.definitions))

    def _down(self, reason: str, lasted: float) -> None:
        """Note how a connection ended; the next one is tried later the oftener this happened."""
        self._link = None
        if self._closed:
            self.state = "disabled"
            self._settled.set()
            return
        self._losses = 0 if self._was_up and lasted > _STEADY else self._losses + 1
        wait = _FIRST_WAIT * 2 ** (self._losses - 1) if self._losses else 0.0
        self._due = time.monotonic() + min(wait, _LONGEST_WAIT)
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        known = self.error == reason
        self.state, self.error = "failed", reason
        self._settled.set()
        log.warning("not connected server=%s reason=%s", self.name, reason)
        if not known:
            self._say(f"the MCP server {self.name!r} is not connected: {reason}")

    async def _gone(self) -> None:
        """Wait until it is known how the connection ended, so that the call's error can say so."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=1.0)
