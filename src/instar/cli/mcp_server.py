"""``instar mcp serve``: the MCP server on stdin and stdout. Importing it costs a second."""

from collections.abc import AsyncIterator
from typing import Any, cast

from mcp.server.stdio import stdio_server

from instar.cli.stdio import Lines
from instar.client import AsyncClient
from instar.server.mcp_server import McpServer, SessionTools
from instar.settings.config import McpServerConfig


async def serve(client: AsyncClient, lines: Lines, settings: McpServerConfig) -> None:
    """Serve until there is no more to read; then the turns that were begun here end."""
    sessions = SessionTools(client)
    server = McpServer(sessions, settings)
    text = cast("Any", TextLines(lines))
    try:
        async with stdio_server(text, text) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await sessions.close()


class TextLines:
    """The lines as the SDK reads and writes files."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.line()) is not None:
            yield line.decode(errors="replace")

    async def write(self, text: str) -> None:
        """Write a line, which comes with its end."""
        await self._lines.write(text.removesuffix("\n").encode(errors="replace"))

    async def flush(self) -> None:
        """Wait for nothing: a line is on its way."""
