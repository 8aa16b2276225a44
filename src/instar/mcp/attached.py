"""Resources that a person attaches to a prompt: read when the message is made, and shown beside its part.

A file part whose `source` is ``{"type": "resource", "clientName": …, "uri": …}`` (opencode 1.18's
`ResourceSource`) names one of a server's. What cannot be read refuses the prompt: `chat.message` is a gate.
"""

from collections.abc import Awaitable, Callable, Mapping

from instar import ids
from instar.mcp.protocol import Connect
from instar.mcp.result import resource_result
from instar.mcp.server import Server
from instar.message import FilePart, Part, TextPart
from instar.plugin import ToolFailure, points


async def show(
    servers: Mapping[str, Server],
    sdk: Callable[[], Awaitable[Connect]],
    given: points.ChatMessageInput,
    output: points.ChatMessageOutput,
) -> None:
    """Put what a message's resources hold after their parts. Raises `ToolFailure`, and `LinkError` of the server."""
    found: list[Part] = []
    for part in output.parts:
        found.append(part)
        source = part.source if isinstance(part, FilePart) else None
        if isinstance(part, FilePart) and source and source.get("type") == "resource":
            found += await _read(servers, sdk, part)
    output.parts[:] = found


async def _read(
    servers: Mapping[str, Server], sdk: Callable[[], Awaitable[Connect]], part: FilePart
) -> list[Part]:
    source = part.source or {}
    server = servers.get(str(source.get("clientName")))
    if server is None:
        raise ToolFailure(
            f"there is no MCP server {source.get('clientName')!r}; there are: {', '.join(servers) or 'none'}"
        )
    uri = str(source.get("uri") or part.url)
    read = resource_result(await server.call("resources/read", {"uri": uri}, await sdk()), part)
    text = f'<resource server="{server.name}" uri="{uri}">\n{read.output}\n</resource>'
    shown = TextPart(
        id=ids.new("prt"),
        session_id=part.session_id,
        message_id=part.message_id,
        text=text,
        synthetic=True,
    )
    return [shown, *read.attachments]
