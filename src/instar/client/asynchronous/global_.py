"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import AsyncIterator
from typing import Any

from instar.api.config import Config
from instar.api.instance import UpgradeBody, Upgraded
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Event


class GlobalConfigCalls:
    """``global_.config``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> Config:
        """Get the person's own settings, in opencode's form."""
        answer: Config = await self._connection.ask(Request("GET", "/global/config"), Config)
        return answer

    async def update(self, body: Config) -> Config:
        """Put settings into the person's own file, and end every instance."""
        answer: Config = await self._connection.ask(Request("PATCH", "/global/config", body=body), Config)
        return answer


class GlobalCalls:
    """``global_``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.config = GlobalConfigCalls(connection)

    async def health(self) -> dict[str, Any]:
        """Say that the server is well, and its version."""
        answer: dict[str, Any] = await self._connection.ask(Request("GET", "/global/health"), dict[str, Any])
        return answer

    async def doc(self) -> dict[str, Any]:
        """Get this document."""
        answer: dict[str, Any] = await self._connection.ask(Request("GET", "/doc"), dict[str, Any])
        return answer

    def event(self, *, last_event_id: str | None = None) -> AsyncIterator[Event]:
        """Follow the events of all directories; a durable event comes a second time in the form of its row."""
        return self._connection.events(Request("GET", "/global/event", query={"lastEventID": last_event_id}))

    async def dispose(self) -> bool:
        """End every instance, as ``/instance/dispose`` ends one."""
        answer: bool = await self._connection.ask(Request("POST", "/global/dispose"), bool)
        return answer

    async def upgrade(self, body: UpgradeBody) -> Upgraded:
        """Say that instar does not upgrade itself."""
        answer: Upgraded = await self._connection.ask(Request("POST", "/global/upgrade", body=body), Upgraded)
        return answer
