"""What `instar bridge` answers: the plugins' side of ``docs/reference/plugin-protocol.md``, over stdin and stdout.

`CallContext` is the `ToolContext` of a Python plugin's tool that opencode calls.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from instar import __version__, wire
from instar.client import Invalid
from instar.jshost.peer import Answer, JavaScriptError, Peer
from instar.message import WithParts, decode_with_parts
from instar.opencode.bridge import record
from instar.opencode.bridge.derived_hooks import DerivedHooks
from instar.opencode.bridge.hooks import Hooks, StepRefused
from instar.opencode.bridge.plugins import Opened, read
from instar.plugin import Ask, Client, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.plugin.door import kept
from instar.plugin.outcome import json_copy
from instar.process import Processes
from instar.tool.call import validate, without_nulls
from instar.wire import Plain


async def connect(answer: Answer) -> Peer:
    """Take stdin and stdout over, and return who speaks on them.

    From then on stdin is empty and what is printed goes to stderr: a plugin's ``print`` must not break a frame, and a
    child must not read one.
    """
    loop = asyncio.get_running_loop()
    taken, given = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(taken, "rb", 0))
    # A protocol serves one pipe; that of the other is never read from.
    idle = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: idle, os.fdopen(given, "wb", 0))
    return Peer(reader, asyncio.StreamWriter(transport, idle, None, loop), answer)


log = logging.getLogger("instar.bridge")

PROTOCOL: Final = 1
"""The version of the protocol that is spoken."""
KEY: Final = "instar"
"""The one plugin that opencode sees: all of instar's, in their order."""


async def serve(environment: Mapping[str, str]) -> None:
    """Serve the plugins of the directory that the other end names, until it closes its end or a signal comes."""
    bridge = Bridge(environment)
    bridge.peer = await connect(bridge.answer)
    try:
        if wrong := await bridge.peer.run():
            log.error("opencode's half of the bridge: %s", wrong)
    except asyncio.CancelledError:
        log.info("the bridge was ended by a signal")
    finally:
        await bridge.close()


class Bridge:
    """The plugins of one directory, served to one opencode."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._greeting: Plain = {}
        self._opened: Opened | None = None
        self._hooks: Hooks | None = None
        self._derived: DerivedHooks | None = None
        self._histories: dict[str, list[WithParts]] = {}
        self._offered: Plain = {}
        self._record: Path | None = None
        self.peer: Peer
        self._methods: dict[str, Callable[[Plain], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "load": self._load,
            "hook": self._hook,
            "messages": self._messages,
            "config": self._config,
            "event": self._event,
            "tool": self._tool,
            "dispose": self._dispose,
            "ping": self._ping,
        }

    async def answer(self, method: str, params: Plain) -> Any:
        """Answer what opencode's half asks. Raises what is its answer's error."""
        answer = self._methods.get(method)
        if answer is None:
            raise Invalid(f"there is no method {method}")
        try:
            return await answer(params)
        finally:
            self._offer()
            if self._record is not None:
                record.heard(self._record)

    async def close(self) -> None:
        """Close the plugins, and the connection."""
        await self._end()
        await self.peer.close("the bridge ends")

    async def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            if self._derived is not None:
                await self._derived.close()
            await opened.close()

    @property
    def _hooked(self) -> Hooks:
        if self._hooks is None:
            raise Invalid("nothing is loaded yet")
        return self._hooks

    async def _initialize(self, params: Plain) -> Plain:
        self._greeting = params
        return {"runtime": "instar", "version": __version__, "protocol": PROTOCOL}

    async def _hook(self, params: Plain) -> Plain:
        return await self._hooked.hook(params["hook"], params["input"], params["output"])

    async def _event(self, params: Plain) -> None:
        if self._derived is not None:
            self._derived.hear(params["event"])

    async def _dispose(self, params: Plain) -> None:
        await self._end()

    async def _ping(self, params: Plain) -> str:
        return "pong"

    async def _load(self, params: Plain) -> Plain:
        told = self._greeting
        directory = Path(told["directory"])
        found = await read(directory, self._environment, Processes())
        self._opened = opened = Opened(found, directory, self._environment, self._asked)
        await opened.load(str(told.get("version") or ""), str(told.get("url") or ""))
        self._derived = DerivedHooks(opened.plugins, opened.client, opened.bus)
        self._hooks = Hooks(opened, self._derived)
        self._offered = tools = _described(opened)
        names = [*self._hooks.names, *(["event", "dispose"] if opened.plugins.loaded else [])]
        self._record = record.place(found.paths.data, directory)
        record.write(
            self._record, record.BridgeRecord(str(told.get("version") or "?"), names, len(self._offered))
        )
        one = {"key": KEY, "hooks": names, "tools": tools, "timeout": None}
        return {"id": KEY, "plugins": [one] if opened.plugins.loaded else []}

    def _offer(self) -> None:
        """Tell of tools that changed. Before an answer: opencode asks for the definitions at each step."""
        if self._opened is not None and (tools := _described(self._opened)) != self._offered:
            self._offered = tools
            self.peer.notify("tools", {"tools": tools})

    async def _asked(self, method: str, params: Plain) -> Any:
        return await self.peer.request(method, params)

    async def _messages(self, params: Plain) -> Plain | None:
        for one in params.get("forget") or ():
            self._histories.pop(one, None)
        session_id, length = params["session"], params["length"]
        kept = self._histories.setdefault(session_id, [])
        del kept[length:]
        for index, message in params["set"]:
            kept[index : index + 1] = [decode_with_parts(message)]
        try:
            return await self._hooked.messages(session_id, kept)
        except StepRefused as stopped:
            return {"stop": str(stopped)}

    async def _config(self, params: Plain) -> Plain | None:
        if self._opened is None:
            return None
        config: Plain = params["config"]
        before = json_copy(config)
        await self._opened.plugins.configure(config, lambda _config: None)
        return None if config == before else {"config": config}

    async def _tool(self, params: Plain) -> Plain:
        opened, name = self._opened, params["tool"]
        tool = opened.plugins.tools().get(name) if opened is not None else None
        if opened is None or tool is None:
            raise ToolFailure(f"There is no tool {name} any more: its plugin took it away.")
        history = await opened.client.session.messages(params["context"]["sessionID"])
        context = CallContext(opened, params, history, self._asked, self.peer.notify)
        return await run_tool(tool, name, params["args"], context)


def _described(opened: Opened) -> Plain:
    tools = opened.plugins.tools().items()
    return {name: {"description": one.description, "parameters": dict(one.parameters)} for name, one in tools}


Request = Callable[[str, Plain], Awaitable[Any]]
Notify = Callable[[str, Plain], None]


class CallContext:
    """A call that runs, and the context that its tool gets."""

    def __init__(
        self, opened: Opened, call: Plain, history: list[WithParts], request: Request, notify: Notify
    ) -> None:
        told = call["context"]
        self._opened, self._request, self._notify = opened, request, notify
        self._number = call["call"]
        self.session_id: str = told["sessionID"]
        self.message_id: str = told["messageID"]
        self.call_id: str = told.get("callID") or ""
        self.agent: str = told["agent"]
        self.abort = asyncio.Event()
        self.messages = history
        self.directory = Path(told["directory"])
        self.worktree = Path(told["worktree"])
        self.client = cast("Client", opened.client)
        self.process = opened.children

    def metadata(self, *, title: str | None = None, metadata: Plain | None = None) -> None:
        """Show people how the call gets on."""
        self._notify(
            "metadata", {"call": self._number, "title": title, "metadata": wire.to_plain(metadata or {})}
        )

    async def ask(self, ask: Ask) -> None:
        """Ask for a permission, as opencode's own tools do. Raises `PermissionDenied`."""
        asked = {
            "call": self._number,
            "permission": ask.permission,
            "patterns": list(ask.patterns),
            "always": list(ask.always),
            "metadata": wire.to_plain(dict(ask.metadata)),
        }
        try:
            await self._request("ask", asked)
        except JavaScriptError as error:
            raise PermissionDenied(str(error)) from error

    async def environment(self, cwd: Path) -> dict[str, str]:
        """Return the environment of a child for the model: without secrets, and with what the plugins here add."""
        given = points.ShellEnvInput(cwd=str(cwd), session_id=self.session_id, call_id=self.call_id)
        added = await self._opened.plugins.trigger(points.SHELL_ENV, given, points.ShellEnvOutput(env={}))
        return {**self._opened.children.environment(self._opened.environment), **added.env}

    async def tools(self) -> Mapping[str, Tool]:
        """Return no tool: opencode offers plugins none of its own."""
        return {}

    async def invoke(self, name: str, args: Plain) -> ToolResult:
        """Raise `ToolFailure`: opencode lets no tool call another."""
        raise ToolFailure(f"opencode lets no tool call another, so {name} was not called.")


async def run_tool(tool: Tool, name: str, args: Plain, context: CallContext) -> Plain:
    """Check a call, ask for what it needs, run it, and return its result as the protocol says it.

    Raises `ToolFailure` and `PermissionDenied` with what the model reads.
    """
    problem = validate(args, tool.parameters)
    if problem is not None:
        raise ToolFailure(f"The {name} tool was called with invalid arguments: {problem}")
    args = without_nulls(args, tool.parameters)
    given = cast("ToolContext", context)
    asks = [Ask(name, ["*"], ["*"])] if tool.permissions is None else tool.permissions(args, given)
    for ask in asks:
        await context.ask(ask)
    working = asyncio.ensure_future(kept(tool.execute, args, given))
    try:
        found = await asyncio.shield(working)
    except asyncio.CancelledError:
        # Before it is cancelled, so that it can tell.
        context.abort.set()
        working.cancel()
        await asyncio.wait([working])
        raise
    result = ToolResult(output=found) if isinstance(found, str) else found
    return {
        "title": result.title or "",
        "output": result.output,
        "metadata": wire.to_plain(dict(result.metadata or {})),
        "attachments": [wire.to_plain(one) for one in result.attachments or ()],
    }
