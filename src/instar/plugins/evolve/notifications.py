"""Notifies sessions of changes by others, and of rollbacks.

Each is a message of its own, which the model reads with its next step and is not asked about. It is written between two
steps, never inside one: the answer to what stood before it would come after it in the history, and it would be
answered a second time. A session of this process that rests is told at once; any other one before its next prompt,
by whichever process that comes to: nobody opens, or takes the lease of, sessions that it does not use.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from instar.plugin import Client, Invalid, NotFound, event, ids, points
from instar.plugins.evolve import script
from instar.plugins.evolve.effects import HookEffects
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.idle_sessions import IdleSessions
from instar.plugins.evolve.notices import Notices
from instar.plugins.evolve.posted_messages import (
    HOOK,
    IdleMessage,
    NotificationPoster,
    PostedMessage,
    PostedMessages,
)

log = logging.getLogger("instar.evolve")

TAKEN_BACK: Final = "evolve.taken_back"
"""The source of messages about rollbacks."""


class Notifications:
    """Delivers waiting notices to sessions, and performs the rollbacks that probation decided."""

    def __init__(self, engine: EvolveEngine, client: Client, effects: HookEffects, notices: Notices) -> None:
        self._engine = engine
        self._effects = effects
        self._notices = notices
        self._messages = PostedMessages(client)
        self._client = client
        self._resting = IdleSessions(client)
        self._untold: list[str] = []
        self._awake: asyncio.Task[None] | None = None
        self._again = False
        effects.listen(self.wake)

    async def settle(self) -> None:
        """Perform the rollbacks that are due; `tell` reports them."""
        if self._engine.safe is None:
            self._untold += await self._engine.rollback.settle()

    async def tell(self, session_id: str) -> None:
        """Deliver to a session that is between two steps, or at the end of its turn."""
        while self._untold:
            said = self._untold[0]
            try:
                await self._messages.put(session_id, f"[evolve] {said}", TAKEN_BACK)
            except (NotFound, Invalid) as error:
                log.warning("session=%s untold=%s reason=%s", session_id, script.show(said), error)
                return
            self._untold.remove(said)
        await self._deliver([session_id], PostedMessage(self._messages))

    async def prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Deliver what waits for a session before its next prompt is saved, unless a step runs there."""
        if self._messages.is_own(given.message_id):
            return
        try:
            await self._resting.prompted(given.session_id)
            if given.session_id not in await self._client.session.status():
                await self._deliver([given.session_id], PostedMessage(self._messages))
        except Exception:
            # This hook point is a gate: a failed delivery must not refuse a person's prompt.
            log.exception("session=%s notices=untold", given.session_id)

    async def heard(self, happened: event.Event) -> None:
        """Handle the event that a session is idle, or deleted."""
        properties = happened.properties
        if isinstance(properties, event.SessionIdle):
            if self._resting.idle(properties.session_id, happened.id) and self._resting_ones():
                self.wake()
        elif isinstance(properties, event.SessionDeleted):
            self._resting.forget(properties.session_id)
            self._notices.forget(properties.session_id)

    def wake(self) -> None:
        """Deliver to the idle sessions in the background."""
        self._again = True
        if self._awake is None or self._awake.done():
            self._awake = asyncio.create_task(self._tell_resting())

    async def close(self) -> None:
        """Stop. Undelivered notices wait for the next start."""
        if self._awake is not None:
            self._awake.cancel()
            await asyncio.gather(self._awake, return_exceptions=True)

    def waiting(self) -> list[str]:
        """Return the idle sessions with waiting notices."""
        return self._notices.waiting()

    def _resting_ones(self) -> list[str]:
        return [session for session in self._notices.waiting() if self._resting.rests(session)]

    async def _tell_resting(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._deliver(self._resting_ones(), IdleMessage(self._messages, self._resting))
            except Exception:
                log.exception("notices=untold")

    async def _deliver(self, sessions: Sequence[str], letter: PostedMessage) -> None:
        waiting = self._notices.waiting()
        wanted = [session for session in sessions if session in waiting]
        if not wanted:
            return
        async with self._recorded(wanted[0]) as key:
            posting = NotificationPoster(self._engine.scripts, self._effects, letter, key)
            told = await self._notices.deliver(wanted, posting)
            # Notices that came while an earlier batch waited.
            await self._notices.deliver(told, posting)
        if told:
            log.info("notices=told sessions=%s", ",".join(told))

    @contextlib.asynccontextmanager
    async def _recorded(self, session_id: str) -> AsyncIterator[str]:
        """Commit what scripts change while they format the text. Yields the key of their answers."""
        key = ids.new("evt")
        if not self._engine.scripts.answers(HOOK):
            yield key
            return
        async with self._engine.recording.recording(HOOK, session_id, key):
            yield key
