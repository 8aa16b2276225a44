"""What servers answer, as results for the model and parts of a message; the tools for their resources.

Texts go to the model, media become attachments.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from instar.mcp.server import LinkError, MCPServer
from instar.message import FilePart, Part, TextPart
from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult, points
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
