"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import AsyncIterator

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Event


class V2EventCalls:
    """``v2.event``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def subscribe(self, *, last_event_id: str | None = None) -> AsyncIterator[Event]:
        """Follow the events of all directories, in the form of the newer routes."""
        return self._connection.events(Request("GET", "/api/event", query={"lastEventID": last_event_id}))
