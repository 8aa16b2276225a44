"""When a session is taken into use in this process, and when it is no longer: told to plugins once each."""

import asyncio
import logging
from typing import Literal

from instar.instance import Instance
from instar.plugin import points
from instar.plugin.patience import DISPOSE, Late, in_time

log = logging.getLogger("instar.session")


class Lifecycle:
    """The sessions that this process uses, by id."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._used: set[str] = set()

    async def start(self, session_id: str, source: Literal["new", "resume"] = "resume") -> None:
        """Tell plugins that a session is about to be used; nothing happens when it is in use already."""
        if session_id in self._used:
            return
        # Noted first: a hook that uses the session must not be told again.
        self._used.add(session_id)
        given = points.SessionStartInput(session_id=session_id, source=source)
        try:
            await self._instance.plugins.trigger(points.SESSION_START, given, points.Empty())
        except asyncio.CancelledError:
            self._used.discard(session_id)  # not everybody was told: whoever uses it next tells it again
            raise

    async def end(self, session_id: str, reason: Literal["deleted", "archived", "closed"]) -> None:
        """Tell plugins that a session is no longer used; nothing happens when it was not in use."""
        if session_id not in self._used:
            return
        self._used.discard(session_id)
        if (live := self._instance.sessions.known(session_id)) is not None:
            live.untune()
        given = points.SessionEndInput(session_id=session_id, reason=reason)
        await self._instance.plugins.trigger(points.SESSION_END, given, points.Empty())

    async def close(self) -> None:
        """The instance ends: tell plugins of every session in use, oldest first, for a few seconds at most."""
        try:
            await in_time(self._end_all(), DISPOSE)
        except Late as error:
            log.error("session.end was not told to everybody: %s", error)

    async def _end_all(self) -> None:
        for session_id in sorted(self._used, reverse=True):
            await self.end(session_id, "closed")
