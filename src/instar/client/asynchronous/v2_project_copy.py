"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.project import CopyBody, CopyRemoveBody, ProjectCopy
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class V2ProjectCopyCalls:
    """``v2.project_copy``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, project_id: str, body: CopyBody) -> ProjectCopy:
        """Make a copy of the project's last commit in a new folder below the one that is named."""
        answer: ProjectCopy = await self._connection.ask(
            Request("POST", "/experimental/project/{}/copy", (project_id,), body=body), ProjectCopy
        )
        return answer

    async def remove(self, project_id: str, body: CopyRemoveBody) -> None:
        """Remove a copy; without `force` one that holds work of its own stays."""
        await self._connection.ask(
            Request("DELETE", "/experimental/project/{}/copy", (project_id,), body=body), None
        )

    async def refresh(self, project_id: str) -> None:
        """Look again which copies there are. There is nothing to do: they are looked for each time."""
        await self._connection.ask(
            Request("POST", "/experimental/project/{}/copy/refresh", (project_id,)), None
        )
