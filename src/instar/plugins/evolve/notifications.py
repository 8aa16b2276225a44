"""Notifies sessions of changes by others and of rollbacks, by evolve's own messages in them.

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

from instar.plugin import Client, Invalid, NotFound, PromptBody, event, ids, message, points
from instar.plugins.evolve import protocol, script
from instar.plugins.evolve.effects import HookEffects
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.notices import HookNotice, Notices, NotNow
from instar.plugins.evolve.scripts import Scripts


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


HOOK: Final = "format_notification"

NOTICE: Final = "evolve.notice"
"""The source of messages about changes by others."""

UNREAD: Final = 8
"""Unread messages that an idle session may have; further ones wait for its next prompt."""

_NEAR: Final = 64
"""The number of newest messages in which the last prompt is searched first."""


class PostedMessages:
    """Puts messages into sessions."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._own: set[str] = set()

    def is_own(self, message_id: str | None) -> bool:
        """Return whether this message is being saved now."""
        return message_id in self._own

    async def has(self, session_id: str, message_id: str) -> bool:
        """Return whether the session has a message of this id."""
        try:
            await self._client.session.message(session_id, message_id)
        except NotFound:
            return False
        return True

    async def put(self, session_id: str, text: str, source: str, message_id: str | None = None) -> None:
        """Put a synthetic message into a session. Raises `NotFound` and `Invalid`."""
        message_id = message_id or ids.new("msg")
        body = await self._body(session_id, text, message_id)
        # The origin of the running turn stays: a heartbeat, or an action.
        origin = (await self._client.session.origin(session_id)).by(source)
        self._own.add(message_id)
        try:
            await self._client.session.prompt(session_id, body, origin)
        finally:
            self._own.discard(message_id)

    async def unread(self, session_id: str) -> int:
        """Return how many synthetic messages are at the end of a session, up to `UNREAD`."""
        count = 0
        for one in reversed(await self._client.session.messages(session_id, UNREAD)):
            texts = [part for part in one.parts if isinstance(part, message.TextPart)]
            if not isinstance(one.info, message.User) or not all(part.synthetic for part in texts):
                break
            count += 1
        return count

    async def _body(self, session_id: str, text: str, message_id: str) -> PromptBody:
        """Return a message with the agent, model, tools and answer format of the last prompt."""
        asked = await self._asked(session_id, _NEAR) or await self._asked(session_id, None)
        body = PromptBody.text(text, synthetic=True, no_reply=True, message_id=message_id)
        if asked is not None:
            for name in ("agent", "model", "tools", "format", "system"):
                setattr(body, name, getattr(asked, name))
            body.variant = asked.model.variant
        return body

    async def _asked(self, session_id: str, limit: int | None) -> message.User | None:
        return message.newest_user(await self._client.session.messages(session_id, limit))


class NotificationPoster:
    """Posts notices to sessions (`notices.Post`): the scripts format them.

    `key` tells the scripts' answers from all others (`HookEffects`). The sessions are between two steps, or before a
    prompt; with `resting` they are idle ones.
    """

    def __init__(
        self,
        scripts: Scripts,
        effects: HookEffects,
        messages: PostedMessages,
        key: str,
        resting: IdleSessions | None = None,
    ) -> None:
        self._scripts = scripts
        self._effects = effects
        self._messages = messages
        self._key = key
        self._resting = resting

    async def has(self, session_id: str, message_id: str) -> bool:
        """Return whether the message was saved. Raises `NotNow`."""
        await self._check(session_id)
        return await self._messages.has(session_id, message_id)

    async def word(self, session_id: str, notices: Sequence[HookNotice]) -> str | None:
        """Let the scripts format the text, and carry out the actions of their answers."""
        if not self._scripts.answers(HOOK):
            return None
        fields = {"session": {"id": session_id}, "notifications": [notice.said for notice in notices]}
        outcome = await self._scripts.call_all(HOOK, fields)
        origin, hops = notices[-1].origin, max(notice.hops for notice in notices)
        answer, key = outcome.answer, self._key
        await self._effects.carry_out(HOOK, session_id, answer, key=key, origin=origin, hops=hops + 1)
        return protocol.text(answer, "message") if "message" in answer else None

    async def put(self, session_id: str, message_id: str, text: str) -> None:
        """Save the message, while no prompt of an idle session can be saved. Raises `NotNow`."""
        held = self._resting.held(session_id) if self._resting else contextlib.nullcontext()
        try:
            async with held:
                await self._check(session_id)
                await self._messages.put(session_id, text, NOTICE, message_id)
        except (NotFound, Invalid) as error:
            raise NotNow(str(error)) from None

    async def _check(self, session_id: str) -> None:
        """Raise `NotNow` for a session that is not idle, or has too many unread messages."""
        if self._resting is None:
            return
        if why_not := await self._resting.why_not(session_id):
            raise NotNow(why_not)
        if await self._messages.unread(session_id) >= UNREAD:
            raise NotNow(
                f"it was told {UNREAD} times since it last spoke: the rest waits for its next prompt"
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
        effects.filled = self.wake

    async def settle(self) -> None:
        """Perform the rollbacks that are due, and bring the workspace together with others; `tell` reports it."""
        if self._engine.safe is None:
            self._untold += await self._engine.rollback.settle()
            self._untold += await self._engine.shared.meet()

    async def tell(self, session_id: str) -> None:
        """Deliver to a session that is between two steps, or at the end of its turn."""
        while self._untold:
            # Away before the wait: another session is not to be told it too.
            said = self._untold.pop(0)
            try:
                await self._messages.put(session_id, f"[evolve] {said}", TAKEN_BACK)
            except BaseException as error:
                self._untold.insert(0, said)
                if not isinstance(error, NotFound | Invalid):
                    raise
                log.warning("session=%s untold=%s reason=%s", session_id, script.show(said), error)
                return
        await self._deliver([session_id])

    async def prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Deliver what waits for a session before its next prompt is saved, unless a step runs there."""
        if self._messages.is_own(given.message_id):
            return
        try:
            await self._resting.prompted(given.session_id)
            waits = given.session_id in self._notices.waiting()
            if waits and given.session_id not in await self._client.session.status():
                await self._deliver([given.session_id])
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

    def _resting_ones(self) -> list[str]:
        return [session for session in self._notices.waiting() if self._resting.rests(session)]

    async def _tell_resting(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._deliver(self._resting_ones(), self._resting)
            except Exception:
                log.exception("notices=untold")

    async def _deliver(self, sessions: Sequence[str], resting: IdleSessions | None = None) -> None:
        waiting = self._notices.waiting()
        wanted = [session for session in sessions if session in waiting]
        if not wanted:
            return
        key, scripts = ids.new("evt"), self._engine.scripts
        # What scripts change while they format the text is committed.
        recording = self._engine.recording.recording(HOOK, wanted[0], key)
        async with recording if scripts.answers(HOOK) else contextlib.nullcontext():
            posting = NotificationPoster(scripts, self._effects, self._messages, key, resting)
            told = await self._notices.deliver(wanted, posting)
            # Notices that came while an earlier batch waited.
            await self._notices.deliver(told, posting)
        if told:
            log.info("notices=told sessions=%s", ",".join(told))
