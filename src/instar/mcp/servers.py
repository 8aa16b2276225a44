"""All servers of an instance: what of theirs the model may use, and whether a person approved it.

A tool's description is a stranger's text that the model obeys. The first one seen in a project is pinned; if it
changes later, the tool is left out until a person has seen what changed.
"""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from instar.mcp.resources import attach, prompt_text, resource_tools, tool_result
from instar.mcp.server import (
    LONGEST_NAME,
    Connect,
    LaunchContext,
    LinkError,
    MCPServer,
    McpTool,
    Status,
    difference,
    prompt_name,
    tool_name,
)
from instar.message import Rule
from instar.plugin import KV, Ask, Hooks, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.settings.config import McpConfig
from instar.wire import Plain

log = logging.getLogger("instar.mcp")

ASK: Final = Rule(permission="mcp", pattern="*", action="ask")
"""A changed description is asked about, unless the person's own rules say otherwise."""
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
    for the person, `taken` are the names that tools may not have. `tools` is changed in place.
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
        }

    async def ready(self) -> None:
        """Import the SDK and connect every server that can be, in parallel. Raises `LinkError` without the SDK."""
        wanted = [server for server in self._servers.values() if server.enabled]
        if wanted:
            await self._sdk()
            await asyncio.gather(*(server.ready() for server in wanted))

    async def prepare(self, session_id: str, agent: str) -> None:
        """Bring `tools` up to date for a step of a session, asking about what changed."""
        try:
            await self.ready()
        except LinkError as error:
            self._say_once(str(error))
            return
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
        """Connect every server and see what it offers, without asking or approving. Raises as `ready`."""
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
        """Add or replace a server until the instance ends, and connect it. Raises as `ready`."""
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

    async def resources(self) -> dict[str, list[Plain]]:
        """Return the resources of connected servers, by server, as they describe them. Raises as `ready`."""
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
        await asyncio.gather(*(server.close(_GRACE) for server in self._servers.values()))

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        await self.prepare(given.session_id, given.agent)

    async def _message(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        await attach(self._servers, output)

    async def _sdk(self) -> Connect:
        """Import the SDK in a thread: it takes a second, in which other sessions go on."""
        if self._connect is None:
            try:
                module = await asyncio.to_thread(importlib.import_module, "instar.mcp.link")
            except ModuleNotFoundError as error:
                raise LinkError(
                    f"MCP servers need the package {error.name}: pip install 'instar[mcp]'"
                ) from error
            self._connect = module.connected
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

    return Tool(description=definition.description, parameters=definition.parameters, execute=execute)
