"""What a JavaScript plugin contributes, as instar's: hooks, tools, logins, workspace adapters.

Each call crosses over to the child and back. Functions in values (``auth``, ``provider``, workspace adapters) cross
over as numbers: ``{"$function": 7}`` of the child is a coroutine function here, and a coroutine function without
arguments that is given to one becomes ``{"$value": what it gives}``. The messages of a session are sent once, then
what differs.
"""

import base64
import inspect
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from instar import wire
from instar.event import Event
from instar.jshost.peer import JavaScriptError
from instar.message import FilePart, WithParts
from instar.plugin import (
    Ask,
    FetchRequest,
    FetchResponse,
    Hooks,
    LocalTarget,
    PermissionDenied,
    RemoteTarget,
    Target,
    Tool,
    ToolContext,
    ToolFailure,
    ToolResult,
    WorkspaceInfo,
    points,
)
from instar.wire import Plain, ids

log = logging.getLogger("instar.jshost")

_MOST_SESSIONS: Final = 8
"""Sessions whose messages the child keeps."""
_MESSAGES: Final = (points.MESSAGES.name, *points.MESSAGES.aliases)


class HostConnection(Protocol):
    """The way to the child. Every method raises `JavaScriptError` if there is none, or if JavaScript throws."""

    @property
    def is_up(self) -> bool:
        """Whether the child runs."""
        ...

    async def request(self, method: str, params: Plain) -> Any:
        """Ask the child."""
        ...

    async def tell(self, method: str, params: Plain) -> None:
        """Tell the child something, without an answer."""
        ...

    async def send_messages(self, params: Plain, messages: Sequence[WithParts]) -> Plain | None:
        """Let a hook change messages; None when it changed none."""
        ...

    def keep_login(self, plugin: str, get_auth: Callable[[], Awaitable[Any]]) -> None:
        """Answer the child's questions for the login of a plugin with `get_auth`."""
        ...

    async def run_tool(self, call: "RunningTool", params: Plain) -> Plain:
        """Run a tool; `call` is what the child may ask while it runs."""
        ...


_SYNCHRONOUS: Final = ("validate", "condition")
"""Functions of a login's questions that opencode calls at once; over the socket nothing can be: they are left out."""


def revived(host: HostConnection, value: Any) -> Any:
    """Return `value` of the child with its functions callable."""
    if isinstance(value, dict):
        if "$function" in value:
            return _function(host, value["$function"])
        return {key: revived(host, item) for key, item in value.items() if key not in _SYNCHRONOUS}
    return [revived(host, item) for item in value] if isinstance(value, list) else value


def _function(host: HostConnection, number: int) -> Callable[..., Awaitable[Any]]:
    """Return a function of the child. It raises `JavaScriptError`."""

    async def called(*args: Any) -> Any:
        sent = [await _portable(arg) for arg in args]
        return revived(host, await host.request("call", {"function": number, "args": sent}))

    return called


async def _portable(arg: Any) -> Any:
    if inspect.iscoroutinefunction(arg):
        return {"$value": wire.to_plain(await arg())}
    return wire.to_plain(arg)


class Histories:
    """The histories that one child has received; a new child has received none."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, list[bytes]] = OrderedDict()

    def patch(self, messages: Sequence[WithParts]) -> Plain:
        """Return what the child lacks of `messages`: `session`, `length`, `set` (place and message), `forget`."""
        session = messages[0].info.session_id if messages else ""
        texts = [message.to_json() for message in messages]
        known = self._known.pop(session, [])
        self._known[session] = texts
        forget = [self._known.popitem(last=False)[0] for _ in range(len(self._known) - _MOST_SESSIONS)]
        changed = [
            [place, msgspec.Raw(text)]
            for place, text in enumerate(texts)
            if place >= len(known) or known[place] != text
        ]
        return {"session": session, "length": len(texts), "set": changed, "forget": forget}


def restored(found: Plain, messages: Sequence[WithParts]) -> list[Any] | None:
    """Return the messages that a hook left: those it did not touch as they are, others as plain objects.

    None where it left no array.
    """
    if found.get("invalid"):
        return None
    left: list[Any] = found["messages"]
    return [messages[item] if type(item) is int else _whole(item, messages) for item in left]


def _whole(item: Any, messages: Sequence[WithParts]) -> Any:
    """A message that a hook made or changed, with what it left out.

    Published plugins add messages and parts without ids: opencode reads no more of them than what it sends.
    """
    info, parts = (item.get("info"), item.get("parts")) if isinstance(item, dict) else (None, None)
    if not isinstance(info, dict) or not isinstance(parts, list):
        return item
    like = next((one.info for one in reversed(messages) if one.info.role == info.get("role")), None)
    if like is not None and any(name not in info for name in _needed(type(like))):
        shown = wire.to_plain(like)
        info = {**{name: shown[name] for name in _needed(type(like))}, "id": ids.new("msg"), **info}
    own = {"messageID": info.get("id"), "sessionID": info.get("sessionID")}
    return {
        **item,
        "info": info,
        "parts": [
            {"id": ids.new("prt"), **own, **part} if isinstance(part, dict) else part for part in parts
        ],
    }


@cache
def _needed(kind: type) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.required]


class _Loader:
    """The ``loader`` of one plugin's ``auth``, named by the plugin: a child that is started anew has it again."""

    def __init__(self, host: HostConnection, plugin: str) -> None:
        self._host, self._plugin = host, plugin
        self._provider: Plain = {}

    async def __call__(self, get_auth: Callable[[], Awaitable[Any]], provider: Plain) -> Plain:
        """Return the options that the plugin makes of the login. Raises `JavaScriptError`."""
        self._provider = wire.to_plain(provider)
        self._host.keep_login(self._plugin, get_auth)
        return await self._load()

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Let the plugin send a request. Raises `JavaScriptError`, and `ConnectionError` when it reached nobody."""
        asked: Plain = {
            "plugin": self._plugin,
            "url": request.url,
            "method": request.method,
            "headers": request.headers,
            "body": request.body.decode(),
        }
        found = await self._host.request("fetch", asked)
        if found is None:
            # What the loader gave went with the child that it was given in.
            await self._load()
            found = await self._host.request("fetch", asked)
        if found is None:
            raise ConnectionError("the plugin's login sends no requests any more")
        if "unreached" in found:
            raise ConnectionError(found["unreached"])
        headers = [(str(name), str(value)) for name, value in found["headers"]]
        body = self._body(found["stream"])
        # Begun, so that closing it lets go of the stream also where nobody has read.
        await anext(body)
        return FetchResponse(int(found["status"]), headers, body)

    async def _load(self) -> Plain:
        found = await self._host.request("loader", {"plugin": self._plugin, "provider": self._provider})
        options: Plain = revived(self._host, found["options"])
        return {**options, "fetch": self.fetch} if found["fetch"] else options

    async def _body(self, stream: int | None) -> AsyncGenerator[bytes, None]:
        yield b""
        if stream is None:
            return
        given = {"plugin": self._plugin, "stream": stream}
        whole = False
        try:
            while (data := await self._host.request("read", given)) is not None:
                yield base64.b64decode(data)
            whole = True
        finally:
            if not whole and self._host.is_up:
                await self._host.tell("close", given)


class RunningTool(msgspec.Struct):
    """A call that runs, with what the child may ask of it; `denied` is the permission that it was not given."""

    context: ToolContext
    denied: PermissionDenied | None = None

    def show(self, params: Plain) -> None:
        """Show people how it gets on."""
        title, metadata = params.get("title"), params.get("metadata")
        self.context.metadata(
            title=title if isinstance(title, str) else None,
            metadata=metadata if isinstance(metadata, dict) else None,
        )

    async def ask(self, params: Plain) -> None:
        """Ask for a permission. Raises `PermissionDenied`, and `msgspec.ValidationError` for what asks for none."""
        asked = msgspec.convert({key: params[key] for key in _ASKED if params.get(key) is not None}, _Asked)
        try:
            await self.context.ask(Ask(asked.permission, asked.patterns, asked.always, asked.metadata))
        except PermissionDenied as denied:
            self.denied = denied
            raise


class _Asked(msgspec.Struct):
    """What a plugin gives to ``ask``."""

    permission: str
    patterns: list[str] = msgspec.field(default_factory=lambda: ["*"])
    always: list[str] = msgspec.field(default_factory=lambda: ["*"])
    metadata: Plain = msgspec.field(default_factory=dict)


_ASKED = _Asked.__struct_fields__


def tool_of(host: HostConnection, plugin: str, name: str, said: Plain) -> Tool:
    """Return a tool that a plugin has, described as `said`."""

    async def execute(args: Plain, context: ToolContext) -> ToolResult:
        call = RunningTool(context)
        try:
            found = await host.run_tool(
                call, {"plugin": plugin, "tool": name, "args": args, "context": _context_of(context)}
            )
        except JavaScriptError as error:
            raise call.denied or ToolFailure(str(error)) from error
        return _result(found, context)

    # As in opencode: it asks for nothing by itself; a rule that denies its name takes it away.
    flags = {"ordered": said["ordered"], "idempotent": said["idempotent"]}
    return Tool(said["description"], said["parameters"], execute, lambda *asked: (), **flags)


def _context_of(context: ToolContext) -> Plain:
    return {
        "sessionID": context.session_id,
        "messageID": context.message_id,
        "callID": context.call_id,
        "agent": context.agent,
        "directory": str(context.directory),
        "worktree": str(context.worktree),
    }


def _result(found: Plain, context: ToolContext) -> ToolResult:
    """What a tool gave as instar's result. Raises `ToolFailure` for what is none."""
    try:
        return ToolResult(
            output=found["output"],
            title=msgspec.convert(found.get("title") or "", str),
            metadata=msgspec.convert(found.get("metadata") or {}, dict[str, Any]),
            attachments=[_attachment(one, context) for one in found.get("attachments") or ()],
        )
    except (msgspec.ValidationError, TypeError) as error:
        raise ToolFailure(f"the tool returned what cannot be used: {error}") from error


def _attachment(given: Plain, context: ToolContext) -> FilePart:
    own = {
        "id": ids.new("prt"),
        "sessionID": context.session_id,
        "messageID": context.message_id,
        "type": "file",
    }
    return wire.decode({**own, **given}, FilePart)


def hooks_of(host: HostConnection, offered: Plain) -> Hooks:
    """Return the hooks of one plugin that the child has `offered`."""
    key: str = offered["key"]
    own = {
        "event": partial(_tell, host, key),
        "config": partial(_configure, host, key),
        "dispose": partial(_dispose, host, key),
    }
    found: dict[str, Any] = {name: own.get(name, _Handler(host, key, name)) for name in offered["hooks"]}
    if "timeout" in offered:
        found["timeout"] = offered["timeout"]
    if offered["tools"]:
        found["tool"] = {name: tool_of(host, key, name, said) for name, said in offered["tools"].items()}
    for name in ("auth", "provider"):
        if offered.get(name):
            found[name] = revived(host, offered[name])
    if "auth" in found and "loader" in found["auth"]:
        found["auth"]["loader"] = _Loader(host, key)
    for name in offered.get("odd") or ():
        # What goes by no hook's name is a plugin's own business, as in opencode: many say their name and version.
        if points.CORE.find(name) or name in points.NOT_POINTS:
            log.warning("odd hook hook=%s: it is neither a function nor an object, and is never called", name)
    return found


class _Handler:
    """A handler of one hook point."""

    crosses: Final = True

    def __init__(self, host: HostConnection, plugin: str, hook: str) -> None:
        self._host, self._plugin, self._hook = host, plugin, hook

    async def __call__(self, given: Any, output: Any) -> Mapping[str, Any]:
        """Return what the hook changed in `output`; None for what it removed. Raises `JavaScriptError`."""
        called: Plain = {"plugin": self._plugin, "hook": self._hook}
        if self._hook in _MESSAGES:
            return await self._messages(called, output)
        called |= {"input": wire.to_plain(given), "output": wire.to_plain(output)}
        found = await self._host.request("hook", called)
        return {**found["changed"], **dict.fromkeys(found["removed"])}

    async def _messages(self, called: Plain, output: points.MessagesOutput) -> Mapping[str, Any]:
        found = await self._host.send_messages(called, output.messages)
        return {} if found is None else {"messages": restored(found, output.messages)}


async def _tell(host: HostConnection, plugin: str, event: Event) -> None:
    """The ``event`` hook: called in order and not awaited, as in opencode."""
    await host.tell("event", {"plugin": plugin, "event": event.to_plain()})


async def _configure(host: HostConnection, plugin: str, config: Plain) -> None:
    """The ``config`` hook: it may change `config`."""
    found = await host.request("config", {"plugin": plugin, "config": config})
    if found is not None:
        config.clear()
        config.update(found["config"])


async def _dispose(host: HostConnection, plugin: str) -> None:
    """The ``dispose`` hook: called when the instance ends, unless the child has already ended."""
    if host.is_up:
        await host.request("dispose", {"plugin": plugin})


class Adapter:
    """How workspaces of one type are made, by the functions of `given`, which the child has."""

    def __init__(self, given: Plain) -> None:
        self.name = str(given.get("name", ""))
        self.description = str(given.get("description", ""))
        self._given = given

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Return `info` as it will be kept. Raises `JavaScriptError`, and `msgspec.ValidationError`."""
        return wire.decode(await self._call("configure", info), WorkspaceInfo)

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Make the workspace. Raises `JavaScriptError`."""
        await self._call("create", info, dict(env), *([] if from_ is None else [from_]))

    async def remove(self, info: WorkspaceInfo) -> None:
        """Unmake the workspace. Raises `JavaScriptError`."""
        await self._call("remove", info)

    async def target(self, info: WorkspaceInfo) -> Target:
        """Return where the workspace is. Raises `JavaScriptError`, and `ValueError` for no place."""
        found = await self._call("target", info)
        if found.get("type") == "local":
            return LocalTarget(Path(found["directory"]))
        if found.get("type") == "remote":
            return RemoteTarget(str(found["url"]), dict(found.get("headers") or {}))
        raise ValueError(f"its target is {found!r}: expected a local or a remote one")

    async def _call(self, name: str, *args: Any) -> Any:
        if not callable(self._given.get(name)):
            raise ValueError(f"the adapter has no function {name}")
        return await self._given[name](*args)
