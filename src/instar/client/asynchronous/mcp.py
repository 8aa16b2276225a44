"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.mcp import Authorization, CodeBody, McpBody, MCPStatus, Removed
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class McpAuthCalls:
    """``mcp.auth``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def start(self, name: str) -> Authorization:
        """Begin a login to a server; no server is logged in to here."""
        answer: Authorization = await self._connection.ask(
            Request("POST", "/mcp/{}/auth", (name,)), Authorization
        )
        return answer

    async def authenticate(self, name: str) -> MCPStatus:
        """Log in to a server; no server is logged in to here."""
        answer: MCPStatus = await self._connection.ask(
            Request("POST", "/mcp/{}/auth/authenticate", (name,)), MCPStatus
        )
        return answer

    async def callback(self, name: str, body: CodeBody) -> MCPStatus:
        """End a login to a server; none is begun here."""
        answer: MCPStatus = await self._connection.ask(
            Request("POST", "/mcp/{}/auth/callback", (name,), body=body), MCPStatus
        )
        return answer

    async def remove(self, name: str) -> Removed:
        """Forget a login to a server; none is kept here."""
        answer: Removed = await self._connection.ask(Request("DELETE", "/mcp/{}/auth", (name,)), Removed)
        return answer


class McpCalls:
    """``mcp``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.auth = McpAuthCalls(connection)

    async def status(self) -> dict[str, MCPStatus]:
        """Tell how each MCP server is, once those are connected that can be."""
        answer: dict[str, MCPStatus] = await self._connection.ask(
            Request("GET", "/mcp"), dict[str, MCPStatus]
        )
        return answer

    async def add(self, body: McpBody) -> dict[str, MCPStatus]:
        """Add a server until the instance ends, in place of one of that name."""
        answer: dict[str, MCPStatus] = await self._connection.ask(
            Request("POST", "/mcp", body=body), dict[str, MCPStatus]
        )
        return answer

    async def connect(self, name: str) -> bool:
        """Connect a server, also one that is switched off; true also where it failed (see ``GET /mcp``)."""
        answer: bool = await self._connection.ask(Request("POST", "/mcp/{}/connect", (name,)), bool)
        return answer

    async def disconnect(self, name: str) -> bool:
        """End a server's connection, and leave it off."""
        answer: bool = await self._connection.ask(Request("POST", "/mcp/{}/disconnect", (name,)), bool)
        return answer
