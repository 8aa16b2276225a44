"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import Iterator
from typing import Any

from instar.api.config import Config
from instar.api.instance import UpgradeBody, Upgraded
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import Event


class GlobalConfigCalls:
    """``global_.config``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Config:
        """Get the person's own settings, in opencode's form."""
        answer: Config = self._connection.ask(Request("GET", "/global/config"), Config)
        return answer

    def update(self, body: Config) -> Config:
        """Put settings into the person's own file, and end every instance."""
        answer: Config = self._connection.ask(Request("PATCH", "/global/config", body=body), Config)
        return answer


class GlobalCalls:
    """``global_``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.config = GlobalConfigCalls(connection)

    def health(self) -> dict[str, Any]:
        """Say that the server is well, and its version."""
        answer: dict[str, Any] = self._connection.ask(Request("GET", "/global/health"), dict[str, Any])
        return answer

    def doc(self) -> dict[str, Any]:
        """Get this document."""
        answer: dict[str, Any] = self._connection.ask(Request("GET", "/doc"), dict[str, Any])
        return answer

    def event(self, *, last_event_id: str | None = None) -> Iterator[Event]:
        """Follow the events of all directories; a durable event comes a second time in the form of its row."""
        return self._connection.events(Request("GET", "/global/event", query={"lastEventID": last_event_id}))

    def dispose(self) -> bool:
        """End every instance, as ``/instance/dispose`` ends one."""
        answer: bool = self._connection.ask(Request("POST", "/global/dispose"), bool)
        return answer

    def upgrade(self, body: UpgradeBody) -> Upgraded:
        """Say that instar does not upgrade itself."""
        answer: Upgraded = self._connection.ask(Request("POST", "/global/upgrade", body=body), Upgraded)
        return answer
