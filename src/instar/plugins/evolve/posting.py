"""Posting: messages of evolve's own in sessions, which the model reads with its next step and is not asked about."""

from collections.abc import Sequence
from typing import Final

from instar.plugin import Client, Invalid, NotFound, PromptBody, ids, message
from instar.plugins.evolve import protocol
from instar.plugins.evolve.effects import Effects
from instar.plugins.evolve.notices import Notice, NotNow
from instar.plugins.evolve.resting import Resting
from instar.plugins.evolve.scripts import Scripts

HOOK: Final = "format_notification"

NOTICE: Final = "evolve.notice"
"""The source of messages that tell what others changed."""

UNREAD: Final = 8
"""Messages on end that a resting session is sent; what else there is waits for its next prompt."""

_NEAR: Final = 64
"""Messages among which the last prompt is looked for first."""


class Letters:
    """Puts messages into sessions."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._own: set[str] = set()

    def is_own(self, message_id: str | None) -> bool:
        """Whether this is a message that is being put into a session now."""
        return message_id in self._own

    async def has(self, session_id: str, message_id: str) -> bool:
        """Whether the session has a message of this id."""
        try:
            await self._client.session.message(session_id, message_id)
        except NotFound:
            return False
        return True

    async def put(self, session_id: str, text: str, source: str, message_id: str | None = None) -> None:
        """Put a synthetic message into a session. Raises `NotFound` and `Invalid`."""
        message_id = message_id or ids.new("msg")
        body = await self._body(session_id, text, message_id)
        # The turn that runs stays what it is: a heartbeat's, or one that actions led to.
        origin = (await self._client.session.origin(session_id)).by(source)
        self._own.add(message_id)
        try:
            await self._client.session.prompt(session_id, body, origin)
        finally:
            self._own.discard(message_id)

    async def unread(self, session_id: str) -> int:
        """How many synthetic messages stand at the end of a session, up to `UNREAD`."""
        count = 0
        for one in reversed(await self._client.session.messages(session_id, UNREAD)):
            texts = [part for part in one.parts if isinstance(part, message.TextPart)]
            if not isinstance(one.info, message.User) or not all(part.synthetic for part in texts):
                break
            count += 1
        return count

    async def _body(self, session_id: str, text: str, message_id: str) -> PromptBody:
        """A message that changes nothing of what was asked for: agent, model, tools, form of the answer."""
        asked = await self._asked(session_id, _NEAR) or await self._asked(session_id, None)
        if asked is None:
            return PromptBody.text(text, synthetic=True, no_reply=True, message_id=message_id)
        return PromptBody.text(
            text,
            synthetic=True,
            no_reply=True,
            message_id=message_id,
            agent=asked.agent,
            model=asked.model,
            variant=asked.model.variant,
            tools=asked.tools,
            format=asked.format,
            system=asked.system,
        )

    async def _asked(self, session_id: str, limit: int | None) -> message.User | None:
        history = await self._client.session.messages(session_id, limit)
        return next((one.info for one in reversed(history) if isinstance(one.info, message.User)), None)


class Letter:
    """A message that is put into a session that is between two steps, or about to be prompted."""

    def __init__(self, letters: Letters) -> None:
        self._letters = letters

    async def check(self, session_id: str) -> None:
        """Raise `NotNow` where the session should not be told at this moment."""

    async def put(self, session_id: str, message_id: str, text: str) -> None:
        """Save it. Raises `NotNow`, `NotFound` and `Invalid`."""
        await self._letters.put(session_id, text, NOTICE, message_id)

    async def has(self, session_id: str, message_id: str) -> bool:
        """Whether it was saved. Raises `NotNow`."""
        await self.check(session_id)
        return await self._letters.has(session_id, message_id)


class RestingLetter(Letter):
    """A message that is put into a session that rests."""

    def __init__(self, letters: Letters, resting: Resting) -> None:
        super().__init__(letters)
        self._resting = resting

    async def check(self, session_id: str) -> None:
        """Raise `NotNow` for a session that was told often enough since it last spoke, or does not rest."""
        why_not = await self._resting.why_not(session_id)
        if why_not:
            raise NotNow(why_not)
        if await self._letters.unread(session_id) >= UNREAD:
            raise NotNow(
                f"it was told {UNREAD} times since it last spoke: the rest waits for its next prompt"
            )

    async def put(self, session_id: str, message_id: str, text: str) -> None:
        """Save it while no prompt can come in."""
        async with self._resting.held(session_id):
            await self.check(session_id)
            await super().put(session_id, message_id, text)


class Posting:
    """How sessions are told notices: worded by the scripts, put as `letter` says (`notices.Post`).

    `key` tells the scripts' answers from all others (`Effects`).
    """

    def __init__(self, scripts: Scripts, effects: Effects, letter: Letter, key: str) -> None:
        self._scripts = scripts
        self._effects = effects
        self._letter = letter
        self._key = key
        self.has = letter.has

    async def word(self, session_id: str, notices: Sequence[Notice]) -> str | None:
        """Let the scripts word it (seed 000 "format_notification"); what they ask for beside is carried out."""
        if not self._scripts.answers(HOOK):
            return None
        fields = {"session": {"id": session_id}, "notifications": [notice.said for notice in notices]}
        outcome = await self._scripts.call_all(HOOK, fields)
        origin, hops = notices[-1].origin, max(notice.hops for notice in notices)
        answer, key = outcome.answer, self._key
        await self._effects.carry_out(HOOK, session_id, answer, key=key, origin=origin, hops=hops + 1)
        return protocol.text(answer, "message") if "message" in answer else None

    async def put(self, session_id: str, message_id: str, text: str) -> None:
        """Save the message. Raises `NotNow`."""
        try:
            await self._letter.put(session_id, message_id, text)
        except (NotFound, Invalid) as error:
            raise NotNow(str(error)) from None
