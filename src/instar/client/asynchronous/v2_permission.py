"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.location import Located
from instar.api.session_v2 import PermissionsSaved, PermissionV2Request
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2PermissionRequestCalls:
    """``v2.permission.request``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> Located[list[PermissionV2Request]]:
        """List the calls of a directory that wait for a permission."""
        answer: Located[list[PermissionV2Request]] = await self._connection.ask(
            Request("GET", "/api/permission/request"), Located[list[PermissionV2Request]]
        )
        return answer


class V2PermissionSavedCalls:
    """``v2.permission.saved``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def remove(self, id: str) -> None:
        """Take back what was allowed for always; nothing happens where there is no such thing."""
        await self._connection.ask(Request("DELETE", "/api/permission/saved/{}", (id,)), None)

    async def list(self, *, project_id: str | None = None) -> PermissionsSaved:
        """List what was allowed for always in a directory's worktree."""
        answer: PermissionsSaved = await self._connection.ask(
            Request("GET", "/api/permission/saved", query={"projectID": project_id}), PermissionsSaved
        )
        return answer


class V2PermissionCalls:
    """``v2.permission``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.request = V2PermissionRequestCalls(connection)
        self.saved = V2PermissionSavedCalls(connection)
