"""The sessions of this process that are idle, and a lock that keeps prompts out while a message is saved.

A message that is put into a session while a step runs would be answered for itself, since the step's answer is
to what stood before it. A session rests from ``session.idle`` until the next prompt is on its way.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from instar.plugin import Client, NotFound, ids


class IdleSessions:
    """The sessions that had a turn in this process and have none now."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resting: set[str] = set()
        self._prompted: dict[str, str] = {}
        self._telling: dict[str, asyncio.Lock] = {}

    async def prompted(self, session_id: str) -> None:
        """Mark a session as busy before its prompt is saved. Waits for a message that is being saved."""
        self._resting.discard(session_id)
        self._prompted[session_id] = ids.new("evt")
        if session_id in self._telling:
            async with self._telling[session_id]:
                pass

    def idle(self, session_id: str, event_id: str) -> bool:
        """Handle the event that a turn ended. Return whether the session is idle.

        It does not when the event is older than a prompt: events come late.
        """
        if session_id not in self._prompted or event_id < self._prompted[session_id]:
            return False
        self._resting.add(session_id)
        return True

    def forget(self, session_id: str) -> None:
        """Forget a deleted session."""
        self._resting.discard(session_id)
        self._prompted.pop(session_id, None)

    def rests(self, session_id: str) -> bool:
        """Return whether the session is idle, by the events so far."""
        return session_id in self._resting

    @contextlib.asynccontextmanager
    async def held(self, session_id: str) -> AsyncIterator[None]:
        """Keep prompts out of the session."""
        lock = self._telling.setdefault(session_id, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._telling.pop(session_id, None)

    async def why_not(self, session_id: str) -> str:
        """Return why the session cannot get a message now, "" when it can."""
        if session_id not in self._resting or session_id in await self._client.session.status():
            return "it is at work"
        try:
            session = await self._client.session.get(session_id)
        except NotFound:
            return "it is gone"
        if session.revert is not None:
            # A new message would make the pending revert final.
            return "it was taken back, and may be taken forth again"
        return "it was put away" if session.time.archived else ""
