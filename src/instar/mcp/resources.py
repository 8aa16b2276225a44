"""Two tools for what servers offer to read; both go by the permission ``read``."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from instar.mcp.protocol import Connect, LinkError
from instar.mcp.result import resource_result
from instar.mcp.server import Server
from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.wire import Plain

log = logging.getLogger("instar.mcp")

_SERVER = {"type": "string", "description": "The MCP server's name"}


def resource_tools(servers: Mapping[str, Server], sdk: Callable[[], Awaitable[Connect]]) -> dict[str, Tool]:
    """Return ``list_mcp_resources`` and ``read_mcp_resource`` over `servers`."""

    async def listing(args: Plain, context: ToolContext) -> ToolResult:
        wanted = [_server(servers, args["server"])] if args.get("server") else servers.values()
        lines: list[str] = []
        for server in wanted:
            if "resources" in server.capabilities:
                lines += await _listed(server)
        return ToolResult(
            output="\n".join(lines) or "There are no resources.", title=f"{len(lines)} resources"
        )

    async def reading(args: Plain, context: ToolContext) -> ToolResult:
        server = _server(servers, args["server"])
        try:
            answer = await server.call("resources/read", {"uri": args["uri"]}, await sdk())
        except LinkError as error:
            raise ToolFailure(str(error)) from error
        found = resource_result(answer, context)
        found.title = args["uri"]
        return found

    return {
        "list_mcp_resources": Tool(
            description="List what MCP servers offer to read: each line is a resource as JSON.",
            parameters={"type": "object", "properties": {"server": _SERVER}},
            execute=listing,
            permission="read",
            permissions=lambda args, _: [Ask("read", [f"mcp:{args.get('server') or '*'}"])],
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
        ),
    }


async def offered_by(servers: Mapping[str, Server]) -> dict[str, list[Plain]]:
    """Return the resources of connected servers by server; one that does not list them offers none."""
    found = {}
    for name, server in servers.items():
        if "resources" in server.capabilities:
            try:
                listed = await server.pages("resources/list", "resources")
            except LinkError as error:
                log.warning("resources not listed server=%s: %s", name, error)
                continue
            found[name] = [one for one in listed if isinstance(one, dict) and isinstance(one.get("uri"), str)]
    return found


def _server(servers: Mapping[str, Server], name: str) -> Server:
    if name not in servers:
        raise ToolFailure(f"There is no MCP server {name!r}; there are: {', '.join(servers)}.")
    return servers[name]


async def _listed(server: Server) -> list[str]:
    try:
        found = await server.pages("resources/list", "resources")
    except LinkError as error:
        return [f"(The resources of {server.name} could not be listed: {error})"]
    return [_line(server.name, entry) for entry in found]


def _line(server: str, entry: Any) -> str:
    kept = ("uri", "name", "description", "mimeType")
    fields = {key: entry[key] for key in kept if key in entry} if isinstance(entry, dict) else {}
    return json.dumps({"server": server, **fields}, ensure_ascii=False)
