"""Requests of plugins to the instance itself, while its server would wait for them.

A server answers for a directory once its instance is open, and that is once its plugins are loaded: one that asks
while it loads, and waits for the answer, would wait for itself.
"""

from typing import TYPE_CHECKING, Final

from instar.plugin import Invalid, PluginInput
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.client import AsyncClient

_KEPT: Final = ("accept", "content-type", "x-opencode-directory")
"""Headers that say something to the instance."""


class Tunnel:
    """The HTTP interface of the instance whose plugins are `given` theirs, in process."""

    def __init__(self, given: PluginInput) -> None:
        self._given = given
        self._http: AsyncClient | None = None

    async def carry(self, asked: Plain) -> Plain:
        """Send a request and return its `status`, `type` and `body`. Raises `Invalid`."""
        if self._http is None:
            if self._given.http is None:
                raise Invalid("this host offers plugins no requests in process")
            self._http = self._given.http()
        headers = {name: value for name, value in asked["headers"].items() if name in _KEPT}
        status, media, body = await self._http.carry(asked["method"], asked["path"], headers, asked["body"])
        return {"status": status, "type": media, "body": body}

    async def close(self) -> None:
        """Let go of it."""
        if self._http is not None:
            await self._http.aclose()
