"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import AsyncIterator

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Event


class EventCalls:
    """``event``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def subscribe(
        self, *, last_event_id: str | None = None, directory: str | None = None, workspace: str | None = None
    ) -> AsyncIterator[Event]:
        """Follow a directory's events."""
        return self._connection.events(
            Request(
                "GET",
                "/event",
                query={"lastEventID": last_event_id, "directory": directory, "workspace": workspace},
            )
        )
