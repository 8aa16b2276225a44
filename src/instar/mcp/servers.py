"""All servers of an instance: what of theirs the model may use, and whether a person approved it.

A tool's description is a stranger's text that the model obeys. The first one seen in a project is pinned; if it
changes later, the tool is left out until a person has seen what changed.

What servers answer becomes results for the model and parts of a message: texts stay texts, media become attachments.
"""

import asyncio
import importlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from instar.mcp.login import PATIENCE, Login, offers_login
from instar.mcp.server import (
    LONGEST_NAME,
    Connect,
    LaunchContext,
    LinkError,
    MCPServer,
    McpTool,
    Status,
    difference,
    first_of,
    prompt_name,
    tool_name,
)
from instar.message import FilePart, Part, TextPart
from instar.plugin import KV, Ask, Hooks, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.provider.keys import Keys
from instar.settings.config import McpConfig
from instar.wire import Plain, ids

log = logging.getLogger("instar.mcp")

LARGEST_MEDIA: Final = 5 * 1024 * 1024
"""Bytes of base64 of one attachment; a larger one is named, not kept."""
_SERVER: Final = {"type": "string", "description": "The MCP server's name"}


AttachmentOwner = ToolContext | FilePart
"""What stands in the message that an attachment belongs to."""


def tool_result(name: str, answer: Any, owner: AttachmentOwner) -> ToolResult:
    """Return the result in a server's answer to ``tools/call``.

    Raises `ToolFailure` if the server says that the call failed, or if the answer is no result.
    """
    content = answer.get("content") if isinstance(answer, dict) else None
    structured = answer.get("structuredContent") if isinstance(answer, dict) else None
    if not isinstance(content, list) and structured is None:
        raise ToolFailure(f"{name} answered with what is no result of a tool: {_short(answer)}")
    result = _result(content or [], owner)
    if not result.output and not result.attachments and structured is not None:
        result.output = json.dumps(structured, ensure_ascii=False)
    if answer.get("isError"):
        raise ToolFailure(result.output or f"{name} failed and did not say why.")
    return result


async def read_resource(server: MCPServer, uri: str, owner: AttachmentOwner) -> ToolResult:
    """Return a resource's content. Raises `LinkError`, and `ToolFailure` if the answer is not a resource."""
    answer = await server.call("resources/read", {"uri": uri})
    contents = answer.get("contents") if isinstance(answer, dict) else None
    if not isinstance(contents, list):
        raise ToolFailure(f"The server answered with what is no resource: {_short(answer)}")
    return _result([{"type": "resource", "resource": entry} for entry in contents], owner)


def resource_tools(servers: Mapping[str, MCPServer]) -> dict[str, Tool]:
    """Return ``list_mcp_resources`` and ``read_mcp_resource`` over `servers`; both go by the permission ``read``."""

    async def listing(args: Plain, context: ToolContext) -> ToolResult:
        wanted = [_server(servers, args["server"])] if args.get("server") else servers.values()
        lines: list[str] = []
        for server in wanted:
            if "resources" not in server.capabilities:
                continue
            try:
                found = await server.pages("resources/list", "resources")
            except LinkError as error:
                lines.append(f"(The resources of {server.name} could not be listed: {error})")
                continue
            lines += [_line(server.name, entry) for entry in found]
        output = "\n".join(lines) or "There are no resources."
        return ToolResult(output=output, title=f"{len(lines)} resources")

    async def reading(args: Plain, context: ToolContext) -> ToolResult:
        server = _server(servers, args["server"])
        try:
            found = await read_resource(server, args["uri"], context)
        except LinkError as error:
            raise ToolFailure(str(error)) from error
        found.title = args["uri"]
        return found

    return {
        "list_mcp_resources": Tool(
            description="List what MCP servers offer to read: each line is a resource as JSON.",
            parameters={"type": "object", "properties": {"server": _SERVER}},
            execute=listing,
            permission="read",
            permissions=lambda args, _: [Ask("read", [f"mcp:{args.get('server') or '*'}"])],
            idempotent=True,
        ),
        "read_mcp_resource": Tool(
            description="Read a resource of an MCP server by its uri, as list_mcp_resources gave it.",
            parameters={
                "type": "object",
                "properties": {
                    "server": _SERVER,
                    "uri": {"type": "string", "description": "The resource's uri"},
                },
                "required": ["server", "uri"],
            },
            execute=reading,
            permission="read",
            permissions=lambda args, _: [Ask("read", [args["uri"]], always=[args["uri"]])],
            idempotent=True,
        ),
    }


async def attach(servers: Mapping[str, MCPServer], output: points.ChatMessageOutput) -> None:
    """Put the content of the resources that a person attached to a prompt after their parts.

    A file part whose `source` is ``{"type": "resource", "clientName": …, "uri": …}`` (opencode 1.18's
    `ResourceSource`) names a resource. One that cannot be read refuses the prompt: `chat.message` is a gate.
    Raises `ToolFailure` and `LinkError`.
    """
    parts: list[Part] = []
    for part in output.parts:
        parts.append(part)
        source = part.source if isinstance(part, FilePart) else None
        if not isinstance(part, FilePart) or source is None or source.get("type") != "resource":
            continue
        server = servers.get(str(source.get("clientName")))
        if server is None:
            raise ToolFailure(
                f"there is no MCP server {source.get('clientName')!r}; there are: {', '.join(servers) or 'none'}"
            )
        uri = str(source.get("uri") or part.url)
        read = await read_resource(server, uri, part)
        content = TextPart(
            id=ids.new("prt"),
            session_id=part.session_id,
            message_id=part.message_id,
            text=f'<resource server="{server.name}" uri="{uri}">\n{read.output}\n</resource>',
            synthetic=True,
        )
        parts += [content, *read.attachments]
    output.parts[:] = parts


def prompt_text(messages: Sequence[Any]) -> str:
    """Return the texts of a prompt's messages, one after the other; other content is left out."""
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return "\n".join(
        str(content.get("text", ""))
        for content in contents
        if isinstance(content, dict) and content.get("type") == "text"
    )


def _server(servers: Mapping[str, MCPServer], name: str) -> MCPServer:
    if name not in servers:
        raise ToolFailure(f"There is no MCP server {name!r}; there are: {', '.join(servers)}.")
    return servers[name]


def _line(server: str, entry: Any) -> str:
    keys = ("uri", "name", "description", "mimeType")
    fields = {key: entry[key] for key in keys if key in entry} if isinstance(entry, dict) else {}
    return json.dumps({"server": server, **fields}, ensure_ascii=False)


def _result(blocks: list[Any], owner: AttachmentOwner) -> ToolResult:
    found = [_block(block, owner) for block in blocks]
    return ToolResult(
        output="\n\n".join(one for one in found if isinstance(one, str)),
        attachments=[one for one in found if isinstance(one, FilePart)],
    )


def _block(block: Any, owner: AttachmentOwner) -> str | FilePart:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return _media(block, block.get("data"), owner)
    if kind == "resource_link":
        return f"Resource: {block.get('uri')} {block.get('description') or ''}".strip()
    if kind != "resource":
        return f"(The server sent something of an unknown kind: {_short(block)})"
    resource = block.get("resource")
    if not isinstance(resource, dict):
        return f"(The server sent a resource that is none: {_short(resource)})"
    if isinstance(resource.get("text"), str):
        return str(resource["text"])
    return _media(resource, resource.get("blob"), owner)


def _media(block: Plain, data: Any, owner: AttachmentOwner) -> str | FilePart:
    mime = str(block.get("mimeType") or "application/octet-stream")
    if not isinstance(data, str):
        return f"(The server sent {mime} without its data.)"
    if len(data) > LARGEST_MEDIA:
        return f"(The server sent {mime} of {len(data)} bytes: too large, it was left out.)"
    uri = block.get("uri")
    return FilePart(
        id=ids.new("prt"),
        session_id=owner.session_id,
        message_id=owner.message_id,
        mime=mime,
        filename=str(uri) if uri else None,
        url=f"data:{mime};base64,{data}",
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}…"


_OFFERED: Final = "offered\n"
"""The prefix of a pin that holds what a server offered last."""
_GRACE: Final = 1.0
"""Seconds that servers get to end by themselves."""

Approve = Callable[[str, str, Ask], Awaitable[None]]
"""Asks a person on behalf of a session and its agent; raises if it is not allowed."""
Question = Callable[[Ask], Awaitable[None]]


class Servers:
    """The servers of one instance, by name.

    `pins` holds what was approved in this project, `approve` asks about what changed, `say` is called with one line
    for the person, `taken` are the names that tools may not have. `tools` is changed in place. `logins` are those that
    people are about to make.
    """

    def __init__(
        self,
        configs: Mapping[str, McpConfig],
        context: LaunchContext,
        pins: KV,
        approve: Approve,
        say: Callable[[str], None],
        taken: Collection[str] = (),
    ) -> None:
        self.tools: dict[str, Tool] = {}
        self.logins: dict[str, Login] = {}
        self._context = context
        self._say = say
        self._servers = {
            name: self._server(name, config)
            for name, config in configs.items()
            # What another layer only switches off, or on, has nothing to connect to.
            if config.type or config.command or config.url
        }
        self._pins = pins
        self._approve = approve
        self._taken = frozenset(taken)
        self._connect: Connect | None = None
        self._stale = True
        self._arranging = asyncio.Lock()
        self._refused: set[tuple[str, str]] = set()
        self._names: dict[str, list[str]] = {}
        self._left_out: dict[str, list[str]] = {}
        self._prompts: dict[str, list[str]] = {}
        self._said: set[str] = set()

    def hooks(self) -> Hooks:
        """Return the hooks that the runtime registers."""
        return {
            "tool": self.tools,
            "step.before": self._step,
            "chat.message": self._message,
            "dispose": self.close,
            # A server has a limit of its own, and a person may be asked.
            "timeout": None,
        }

    async def ready(self) -> None:
        """Import the SDK and connect every server that can be, in parallel."""
        wanted = [server for server in self._servers.values() if server.enabled]
        if wanted:
            await self._sdk()
            await asyncio.gather(*(server.ready() for server in wanted))

    async def prepare(self, session_id: str, agent: str) -> None:
        """Bring `tools` up to date for a step of a session, asking about what changed."""
        await self.ready()
        if not self._stale:
            return
        async with self._arranging:
            if self._stale:
                self._stale = False
                try:
                    await self._arrange(partial(self._approve, session_id, agent))
                except BaseException:
                    # An abort while a person was asked, or a store that failed: the next step begins again.
                    self._stale = True
                    raise

    async def look(self) -> None:
        """Connect every server and see what it offers, without asking or approving."""
        await self.ready()
        await self._arrange(None)
        await self.prompts()

    def status(self) -> list[Status]:
        """Return the status of every server, in the config's order."""
        return [
            Status(
                server=server.name,
                state=server.state,
                tools=self._names.get(server.name, []),
                left_out=[*server.left_out, *self._left_out.get(server.name, [])],
                resources="resources" in server.capabilities,
                prompts=self._prompts.get(server.name, []),
                error=server.error,
            )
            for server in self._servers.values()
        ]

    def config(self, name: str) -> McpConfig | None:
        """Return a server's block; None if there is no such server."""
        return self._servers[name].config if name in self._servers else None

    async def put(self, name: str, config: McpConfig) -> None:
        """Add or replace a server until the instance ends, and connect it."""
        await self.renew(name, config)
        await self.ready()

    async def renew(self, name: str, config: McpConfig | None) -> None:
        """Add, replace or (with None) remove a server; it is connected when it is needed."""
        old = self._servers.pop(name, None) if config is None else self._servers.get(name)
        if config is not None:
            self._servers[name] = self._server(name, config)
        self._changed()
        if old is not None:
            await old.close(_GRACE)

    async def log_in(self, name: str) -> Login | None:
        """Begin a person's login to a remote server, in place of one under way; None if it lets us in without.

        What raises `LinkError`, here or in `Login.made`, is the connection or the authorization server.
        """
        server = self._servers[name]
        if not offers_login(server.config):
            raise LinkError(f"the MCP server {name!r} has no OAuth: it is local, or its oauth is false")
        await self._end_login(name)
        login = Login(name, server.config, Keys(self._context.logins), attended=True)
        login.made = asyncio.create_task(self._log_in(login, server.config), name=f"login {name}")
        self.logins[name] = login
        either: list[asyncio.Future[Any]] = [login.made, login.url]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not login.made.done():
            return login
        login.made.result()
        return None

    async def log_out(self, name: str) -> bool:
        """Forget the login to a server, and disconnect it; False if there was none. Raises `KeysError`."""
        await self._end_login(name)
        was_kept = Keys(self._context.logins).remove(name)
        await self.renew(name, self._servers[name].config)
        return was_kept

    async def resources(self) -> dict[str, list[Plain]]:
        """Return the resources of connected servers, by server, as they describe them."""
        await self.ready()
        return {
            name: [one for one in listed if isinstance(one.get("uri"), str)]
            for name, listed in (await self._listed("resources")).items()
        }

    async def changes(self, name: str) -> dict[str, str]:
        """Return the tools of a connected server that changed since they were approved, each with the difference."""
        pinned = await self._pinned(name)
        return {
            found.tool: difference(pinned[found.tool], found.text)
            for found in self._servers[name].definitions
            if found.tool in pinned and pinned[found.tool] != found.text
        }

    async def approve(self, name: str) -> None:
        """Pin the current definitions of a connected server's tools."""
        await self._pin(name, {found.tool: found.text for found in self._servers[name].definitions})
        self._stale = True

    async def prompts(self) -> dict[str, list[Plain]]:
        """Return the prompts that connected servers offer, by server, as they describe them."""
        found = {
            name: [one for one in listed if one.get("name")]
            for name, listed in (await self._listed("prompts")).items()
        }
        self._prompts = {
            server: [prompt_name(server, str(one["name"])) for one in prompts]
            for server, prompts in found.items()
        }
        return found

    async def template(self, name: str) -> tuple[str, str] | None:
        """Return description and template of the command ``server:prompt``; None if there is no such prompt.

        As in opencode, the prompt's arguments are the places ``$1``, ``$2`` …. Raises `LinkError`.
        """
        await self.ready()
        for server, prompts in (await self.prompts()).items():
            for one in prompts:
                if prompt_name(server, str(one["name"])) == name:
                    listed = one.get("arguments")
                    arguments = listed if isinstance(listed, list) else []
                    names = [argument.get("name") for argument in arguments if isinstance(argument, dict)]
                    given = {str(argument): f"${at}" for at, argument in enumerate(names, 1)}
                    messages = await self.prompt(server, str(one["name"]), given)
                    return str(one.get("description") or ""), prompt_text(messages)
        return None

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> Sequence[Any]:
        """Return the messages of a server's prompt. Raises `LinkError`."""
        params = {"name": name, "arguments": dict(arguments)}
        answer = await self._servers[server].call("prompts/get", params)
        messages = answer.get("messages") if isinstance(answer, dict) else None
        if not isinstance(messages, list):
            raise LinkError(f"The MCP server {server!r} answered with what is no prompt.")
        return messages

    async def close(self) -> None:
        """End every connection, with what was started for it."""
        await asyncio.gather(
            *(server.close(_GRACE) for server in self._servers.values()),
            *(self._end_login(name) for name in self.logins),
        )

    async def _log_in(self, login: Login, config: McpConfig) -> None:
        try:
            connect = await self._sdk()
            async with asyncio.timeout(PATIENCE):
                async with connect(login.name, config, self._context, lambda _: None, login):
                    pass
        except TimeoutError:
            raise LinkError(f"nobody logged in to {login.name!r} within {PATIENCE:g} s") from None
        except (Exception, BaseExceptionGroup) as error:
            raise LinkError(f"no login to the MCP server {login.name!r}: {first_of(error)}") from error
        finally:
            login.close()
            del self.logins[login.name]
        await self.put(login.name, msgspec.structs.replace(config, enabled=True))

    async def _end_login(self, name: str) -> None:
        login = self.logins.get(name)
        if login is not None and login.made is not None:
            login.made.cancel()
            await asyncio.wait([login.made])

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        await self.prepare(given.session_id, given.agent)

    async def _message(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        await attach(self._servers, output)

    async def _sdk(self) -> Connect:
        """Import the SDK in a thread: it takes a second, in which other sessions go on."""
        if self._connect is None:
            self._connect = (await asyncio.to_thread(importlib.import_module, "instar.mcp.link")).connected
        assert self._connect is not None
        return self._connect

    def _server(self, name: str, config: McpConfig) -> MCPServer:
        return MCPServer(name, config, self._context, self._sdk, self._say, self._changed)

    def _changed(self) -> None:
        self._stale = True

    async def _listed(self, what: str) -> dict[str, list[Plain]]:
        """Return the ``resources`` or ``prompts`` of connected servers that offer any."""
        found: dict[str, list[Plain]] = {}
        for name, server in self._servers.items():
            if what in server.capabilities:
                try:
                    listed = await server.pages(f"{what}/list", what)
                except LinkError as error:
                    self._say_once(f"the {what} of the MCP server {name!r} are left out: {error}")
                    continue
                found[name] = [one for one in listed if isinstance(one, dict)]
        return found

    async def _arrange(self, ask: Question | None) -> None:
        """Make `tools` anew from the servers' definitions, in the config's order; without `ask` nothing is pinned."""
        found: dict[str, Tool] = {}
        self._names, self._left_out = {}, {}
        for server in self._servers.values():
            pinned = await self._pinned(server.name)
            for one in await self._offered(server, pinned, ask):
                name = tool_name(server.name, one.tool)
                if name in found or name in self._taken:
                    fault: str | None = f"another tool is called {name}"
                elif len(name) > LONGEST_NAME:
                    fault = f"{name} is longer than {LONGEST_NAME} characters; give its server a shorter name"
                else:
                    fault = await self._unapproved(server.name, one, name, pinned, ask)
                if fault is None:
                    found[name] = _tool(server, one, name)
                    self._names.setdefault(server.name, []).append(name)
                else:
                    self._left_out.setdefault(server.name, []).append(f"{one.tool}: {fault}")
                    self._say_once(
                        f"the tool {one.tool!r} of the MCP server {server.name!r} is left out: {fault}"
                    )
        if any("resources" in server.capabilities for server in self._servers.values()):
            found = {**resource_tools(self._servers), **found}
        self.tools.clear()
        self.tools.update(found)

    async def _offered(
        self, server: MCPServer, pinned: Mapping[str, str], ask: Question | None
    ) -> Sequence[McpTool]:
        """Return what a server offers; while it starts slowly, what it offered last and a person approved.

        So each request begins as the one before it, also the first after a restart: prompt caches work on prefixes.
        """
        if ask is None:
            return server.definitions
        last = await self._pins.get(_OFFERED + server.name) or {}
        if server.is_starting:
            server.capabilities = last.get("capabilities", {})
            names = last.get("tools", [])
            return [McpTool.approved(name, pinned[name]) for name in names if name in pinned]
        if server.state == "connected":
            capabilities: Plain = {name: {} for name in server.capabilities}
            now = {"tools": [one.tool for one in server.definitions], "capabilities": capabilities}
            if now != last:
                await self._pins.set(_OFFERED + server.name, now)
        return server.definitions

    async def _unapproved(
        self, server: str, one: McpTool, name: str, pinned: Mapping[str, str], ask: Question | None
    ) -> str | None:
        """Return why the model may not see a description; None if it is new here, or if a person approved it."""
        before = pinned.get(one.tool)
        if before == one.text:
            return None
        if before is not None:
            why = "its description changed since it was approved (instar mcp approve shows it)"
            if ask is None or (name, one.text) in self._refused:
                return why
            metadata: Plain = {"server": server, "tool": one.tool, "diff": difference(before, one.text)}
            try:
                # Nothing is remembered for always: the next change is asked about again.
                await ask(Ask("mcp", [name], always=[], metadata=metadata))
            except Exception as error:
                # A gate fails closed, whatever failed.
                log.warning("not approved tool=%s reason=%s", name, error)
                self._refused.add((name, one.text))
                return why
        if ask is not None:
            await self._pin(server, {one.tool: one.text})
        return None

    async def _pinned(self, server: str) -> dict[str, str]:
        return dict(await self._pins.get(server) or {})

    async def _pin(self, server: str, texts: Mapping[str, str]) -> None:
        await self._pins.set(server, {**await self._pinned(server), **texts})

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _tool(server: MCPServer, definition: McpTool, name: str) -> Tool:
    async def execute(args: Plain, context: ToolContext) -> ToolResult:
        async def show(progress: float, total: float | None, message: str | None) -> None:
            context.metadata(metadata={"progress": progress, "total": total, "message": message})

        try:
            answer = await server.call("tools/call", {"name": definition.tool, "arguments": args}, show)
        except LinkError as error:
            raise ToolFailure(str(error)) from error
        return tool_result(name, answer, context)

    return Tool(definition.description, definition.parameters, execute, idempotent=definition.idempotent)
