"""One server of the ``mcp`` block: connected when it is needed, watched, and connected again after it was lost.

Also what the rest of the room shares: what a connection can do (`Link`; `link` implements it with the SDK), and the
definitions of tools, which are read with distrust and compared with what was approved before.
"""

import asyncio
import contextlib
import difflib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from instar.process import Processes
from instar.settings.config import McpConfig
from instar.wire import Plain

log = logging.getLogger("instar.mcp")

State = Literal["disabled", "waiting", "connecting", "connected", "needs_auth", "failed"]

LONGEST_NAME: Final = 64
"""Characters of a tool's name that every provider accepts."""
LARGEST_DEFINITION: Final = 64 * 1024
"""Characters of one tool's definition: it is sent to the model at every step."""
STEP_TIMEOUT: Final = 5.0
"""Seconds that a step waits for a server, unless its block gives a timeout."""
CALL_TIMEOUT: Final = 60.0
"""Seconds that a call may take without a word of progress, unless its block gives a timeout."""
_START_TIMEOUT: Final = 30.0
"""Seconds that a server without a timeout may take to start, while steps go on without it."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_STEADY: Final = 30.0
"""Seconds after which a connection counts as sound: when it is lost, the next one is tried at once."""
_MOST_PAGES: Final = 100


class LinkError(Exception):
    """A request failed or a connection ended; the text says why.

    `lost` means that the connection cannot be used any more, `final` that trying again is no use, `login` that a
    person has to log in.
    """

    def __init__(self, message: str, *, lost: bool = False, final: bool = False, login: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
        self.final = final
        self.login = login


class LaunchContext(msgspec.Struct, frozen=True):
    """Where local servers run: in `directory`, with `environment`, as children of `processes`.

    `logins` is the file that keeps the logins to remote ones.
    """

    processes: Processes
    directory: Path
    environment: Mapping[str, str]
    logins: Path


class Progress(Protocol):
    """Hears how far a call is: `progress` of `total`, and a text."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take note of it."""
        ...


class Link(Protocol):
    """An open connection."""

    capabilities: Plain
    """What the server offers: ``tools``, ``resources``, ``prompts``."""
    lost: "asyncio.Future[str]"
    """Set when the connection ended, with the reason."""

    async def request(self, method: str, params: Plain, progress: Progress | None = None) -> Any:
        """Send a request and return its result as it came. Raises `LinkError`."""
        ...

    def check(self, definition: "McpTool") -> None:
        """Raise `ValueError` if a tool's parameters are not a JSON Schema."""
        ...


Connect = Callable[..., AbstractAsyncContextManager[Link]]
"""Opens a connection (`instar.mcp.link.connected`)."""


class McpTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it; `parameters` is a JSON Schema of an object."""

    tool: str
    description: str
    parameters: Plain
    idempotent: bool = False

    @property
    def text(self) -> str:
        """All that the model would read of it, in one form: what a person approves."""
        content = {"description": self.description, "parameters": self.parameters}
        return json.dumps(content, sort_keys=True, ensure_ascii=False)

    @classmethod
    def read(cls, raw: Any) -> "McpTool":
        """Read an entry of ``tools/list``. Raises `ValueError` with what is wrong with it."""
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not raw["name"]:
            raise ValueError("a tool without a name")
        name, description = raw["name"], raw.get("description")
        schema = raw.get("inputSchema")
        if not isinstance(schema, dict):
            raise ValueError(f"{name}: its inputSchema is not an object")
        if schema.get("type", "object") != "object":
            raise ValueError(f"{name}: its inputSchema is of the type {schema['type']!r}, not of an object")
        if not isinstance(schema.get("properties", {}), dict):
            raise ValueError(f"{name}: the properties of its inputSchema are not an object")
        parameters = {**schema, "type": "object", "properties": schema.get("properties", {})}
        # Servers in some languages list keys in another order at each start; the model's tools keep their bytes.
        parameters = json.loads(json.dumps(parameters, sort_keys=True))
        hints = raw.get("annotations")
        idempotent = isinstance(hints, dict) and True in (
            hints.get("readOnlyHint"),
            hints.get("idempotentHint"),
        )
        found = cls(name, description if isinstance(description, str) else "", parameters, idempotent)
        if len(found.text) > LARGEST_DEFINITION:
            raise ValueError(
                f"{name}: its description and schema are longer than {LARGEST_DEFINITION // 1024} KiB"
            )
        return found

    @classmethod
    def approved(cls, tool: str, text: str) -> "McpTool":
        """Return the approved definition of a tool, read from its `text`."""
        return cls(tool, **json.loads(text))


class Status(msgspec.Struct, frozen=True):
    """A server's status for people: `tools` by the name that the model uses, `left_out` with the reason.

    `prompts` are names of commands, known after `Servers.prompts` was called.
    """

    server: str
    state: State
    tools: list[str] = []
    left_out: list[str] = []
    resources: bool = False
    prompts: list[str] = []
    error: str | None = None


class MCPServer:
    """A server of the ``mcp`` block.

    `sdk` imports the SDK, `say` is called with one line for the person, `changed` when the tools may have changed.
    """

    def __init__(
        self,
        name: str,
        config: McpConfig,
        context: LaunchContext,
        sdk: Callable[[], Awaitable[Connect]],
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.enabled = config.enabled
        self.state: State = "waiting" if config.enabled else "disabled"
        self.error: str | None = None
        self.definitions: list[McpTool] = []
        self.left_out: list[str] = []
        self.capabilities: Plain = {}
        self.config = config
        self._context = context
        self._sdk = sdk
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

    async def ready(self) -> None:
        """Connect the server if that is possible; waits no longer than its timeout.

        A server that was never connected and let one step wait does not let another wait.
        """
        self._start(await self._sdk())
        if self.state != "connecting" or (self._waited and not self._was_up):
            return
        timeout = self._timeout or STEP_TIMEOUT
        try:
            await asyncio.wait_for(self._settled.wait(), timeout)
        except TimeoutError:
            self._waited = True
            self.error = f"it has not answered in {timeout:g} s"
            self._say(f"the MCP server {self.name!r} has not answered in {timeout:g} s: going on without it")

    async def call(self, method: str, params: Plain, on_progress: Progress | None = None) -> Any:
        """Send a request and return its result. Raises `LinkError` naming the server.

        A server that was lost is started again, after the pause that its losses cost. A call's time starts again with
        every progress notification of the server.
        """
        limit = self._timeout or CALL_TIMEOUT
        pause = self._due - time.monotonic()
        if 0 < pause <= limit:
            await asyncio.sleep(pause)
        await self.ready()
        if self.state == "connecting":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), limit)
        link = self._link
        if link is None:
            again = f"; it is started again in {pause:.0f} s" if pause > limit else ""
            raise LinkError(
                f"The MCP server {self.name!r} is not connected: {self.error or 'it was lost'}{again}."
            )
        loop = asyncio.get_running_loop()

        async def extend(progress: float, total: float | None, message: str | None) -> None:
            deadline.reschedule(loop.time() + limit)
            if on_progress is not None:
                await on_progress(progress, total, message)

        try:
            async with asyncio.timeout(limit) as deadline:
                return await link.request(method, params, extend)
        except TimeoutError:
            raise LinkError(f"The MCP server {self.name!r} has not answered in {limit:g} s.") from None
        except LinkError as error:
            if not error.lost:
                raise LinkError(f"The MCP server {self.name!r} answered: {error}") from error
            if self._task is not None:
                # Its end sets `error`.
                await asyncio.wait([self._task], timeout=1.0)
            reason = self.error or str(error)
            raise LinkError(f"The MCP server {self.name!r} was lost during this call: {reason}.") from error

    @property
    def is_starting(self) -> bool:
        """True while it is connecting and was not connected before in this process."""
        return self.state == "connecting" and not self._was_up

    async def pages(self, method: str, key: str) -> list[Any]:
        """Return all entries of a list, within the call's time; none when it is not connected. Raises `LinkError`."""
        if self._link is None:
            return []
        try:
            async with asyncio.timeout(self._timeout or CALL_TIMEOUT):
                return await _pages(self._link, method, key)
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
        limit = self._timeout or _START_TIMEOUT
        started = time.monotonic()
        state: State = "failed"
        try:
            async with asyncio.timeout(limit) as deadline:
                async with connect(self.name, self.config, self._context, self._hear) as link:
                    await self._list(link)
                    deadline.reschedule(None)
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
            if isinstance(found, LinkError):
                self._final = found.final
                state = "needs_auth" if found.login else state
            reason = str(found) or type(found).__name__
        finally:
            # Also when it was cancelled: nobody may wait for it any longer.
            self._link = None
            self._settled.set()
        self._down(reason, time.monotonic() - started, state)

    async def _serve(self, link: Link) -> None:
        """Keep the connection until it is lost or closed, and read the tools again when they changed."""
        woken = self._woken
        link.lost.add_done_callback(lambda _: woken.set())
        while not (link.lost.done() or self._closed):
            if self._stale:
                self._stale = False
                try:
                    async with asyncio.timeout(self._timeout or CALL_TIMEOUT):
                        await self._list(link)
                except (TimeoutError, LinkError) as error:
                    # The tools stay as they were.
                    reason = str(error) or "it has not answered"
                    self._say(f"the MCP server {self.name!r} did not list its changed tools: {reason}")
            self._woken.clear()
            if not (link.lost.done() or self._closed or self._stale):
                await self._woken.wait()

    async def _list(self, link: Link) -> None:
        found: list[McpTool] = []
        faults: list[str] = []
        listed = await _pages(link, "tools/list", "tools") if "tools" in link.capabilities else []
        for raw in listed:
            try:
                definition = McpTool.read(raw)
                link.check(definition)
                found.append(definition)
            except ValueError as error:
                faults.append(str(error))
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

    def _down(self, reason: str, lasted: float, state: State) -> None:
        """Note how a connection ended; each loss in a row doubles the wait before the next one."""
        if self._closed:
            self.state = "disabled"
            return
        self._losses = 0 if self._was_up and lasted > _STEADY else self._losses + 1
        wait = _FIRST_WAIT * 2 ** (self._losses - 1) if self._losses else 0.0
        self._due = time.monotonic() + min(wait, _LONGEST_WAIT)
        self._fail(reason, state)

    def _fail(self, reason: str, state: State = "failed") -> None:
        known = self.error == reason
        self.state, self.error = state, reason
        log.warning("not connected server=%s reason=%s", self.name, reason)
        if not known:
            self._say(f"the MCP server {self.name!r} is not connected: {reason}")


async def _pages(link: Link, method: str, key: str) -> list[Any]:
    """Return all entries of a list, page by page. Raises `LinkError`."""
    found: list[Any] = []
    params: Plain = {}
    for _ in range(_MOST_PAGES):
        page = await link.request(method, params)
        entries = page.get(key) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            raise LinkError(f"its answer to {method} holds no list of {key}")
        found += entries
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return found
        params = {"cursor": cursor}
    raise LinkError(f"its answer to {method} does not end after {_MOST_PAGES} pages")


def config_fault(name: str, config: McpConfig) -> str | None:
    """Return what is wrong with a server's block; None if a connection can be tried."""
    where = f"mcp.{name}"
    if config.type is None:
        return f'{where}.type is missing: say "local" (with command) or "remote" (with url)'
    if config.type == "local" and not (config.command and config.command[0]):
        return f'{where}.command is missing: a local server needs one, as ["program", "argument"]'
    if config.type == "remote" and not (config.url or "").startswith(("http://", "https://")):
        return f"{where}.url is missing or is no http or https address: a remote server needs one"
    return None


def first_of(error: BaseException) -> BaseException:
    """Return the first exception of a group; the SDK's task groups raise groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def tool_name(server: str, tool: str) -> str:
    """Return the name that the model calls a server's tool by, as opencode makes it: ``server_tool``."""
    return f"{_identifier(server)}_{_identifier(tool)}"


def prompt_name(server: str, prompt: str) -> str:
    """Return the name of the command that a server's prompt is, as opencode makes it: ``server:prompt``."""
    return f"{_identifier(server)}:{_identifier(prompt)}"


def difference(before: str, after: str) -> str:
    """Return the difference of two `McpTool.text`, line by line; invisible characters are written out."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "approved", "now", lineterm="", n=2)
    return "\n".join(lines)


def visible(text: str) -> str:
    """Return `text` with invisible characters written out (``\\u200b``)."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def _identifier(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _lines(text: str) -> list[str]:
    content = json.loads(text)
    schema = json.dumps(content["parameters"], indent=2, sort_keys=True, ensure_ascii=False)
    return [*visible(content["description"]).split("\n"), "", *visible(schema).split("\n")]
