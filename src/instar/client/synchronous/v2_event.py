"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import Iterator

from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import Event


class V2EventCalls:
    """``v2.event``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def subscribe(self, *, last_event_id: str | None = None) -> Iterator[Event]:
        """Follow the events of all directories, in the form of the newer routes."""
        return self._connection.events(Request("GET", "/api/event", query={"lastEventID": last_event_id}))
