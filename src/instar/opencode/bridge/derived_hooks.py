"""Hook points that opencode has not, made from its events: of one session in order, of several side by side.

``docs/guides/opencode.md`` has the table. What is made from an event comes after the fact: a handler cannot hold it up.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from instar import event as events
from instar import wire
from instar.api.session import Invalid, NotFound, PromptBody
from instar.client.request import decode_event
from instar.event import Event
from instar.event.bus import Bus
from instar.message import Assistant, CompactionPart, Part, ToolError, ToolPart, User, WithParts
from instar.opencode.bridge.client import Opencode
from instar.plugin import Refused, points
from instar.plugin.door import Plugins

log = logging.getLogger("instar.bridge")

MOST_ON_END: Final = 8
"""Follow-ups of ``turn.end`` in a row, as in instar."""
_NEAR: Final = 40
"""Messages among which the end of a turn is looked for."""
_GRACE: Final = 3.0
"""Seconds that what was heard has to become hook points once opencode ends."""
_REFUSED: Final = (NotFound, Invalid)
"""What a request raises that opencode does not carry out."""


class DerivedHooks:
    """Passes opencode's events to the plugins' ``event`` hooks, and derives hook points from them."""

    def __init__(self, plugins: Plugins, client: Opencode, bus: Bus) -> None:
        self._plugins = plugins
        self._client = client
        self._bus = bus
        self._chains: dict[str, asyncio.Task[None]] = {}
        self._created: set[str] = set()
        self._started: set[str] = set()
        self._told: set[str] = set()
        self._continued: dict[str, int] = {}
        self._follow_ups: dict[str, str] = {}
        self._since = time.time() * 1000
        self._written: dict[str, dict[str, Part]] = {}
        """The parts of answers that are being written, as events tell them: a request costs opencode more."""
        self._answers: dict[str, WithParts] = {}
        """The last message of a session, where that is an answer whose parts are known."""
        self.called: dict[str, str] = {}
        """The tool of each call, by the call's id."""
        self.failures: dict[str, str] = {}
        """What the model is to read of calls that failed, by their ids."""

    def hear(self, said: wire.Plain) -> None:
        """Take an event; one of a type that instar does not know is passed over."""
        try:
            happened = decode_event(said)
        except (msgspec.ValidationError, TypeError, KeyError):
            return
        self._bus.publish(happened)
        made = self._made_of(happened)
        session_id = happened.session_id
        if made is not None and session_id is not None:
            before = self._chains.get(session_id)
            self._chains[session_id] = asyncio.create_task(self._after(before, made))

    async def settled(self, session_id: str) -> None:
        """Wait until what was heard of a session has been made into hook points."""
        if (chain := self._chains.get(session_id)) is not None:
            await asyncio.wait([chain])

    async def begin(self, session_id: str) -> None:
        """A session is about to be used: ``session.start``, once."""
        if session_id in self._started:
            return
        self._started.add(session_id)
        source: Any = "new" if session_id in self._created else "resume"
        given = points.SessionStartInput(session_id=session_id, source=source)
        await self._plugins.trigger(points.SESSION_START, given, points.Empty())

    def prompted(self, session_id: str, texts: list[str]) -> None:
        """A prompt came: one that no ``turn.end`` asked for lets that ask anew."""
        if self._follow_ups.get(session_id) not in texts:
            self._continued.pop(session_id, None)

    async def close(self) -> None:
        """opencode ends: sessions that were used are used no more."""
        chains = list(self._chains.values())
        if chains:
            # `opencode run` ends with its turn: what is made of the turn's end is made now or never.
            await asyncio.wait(chains, timeout=_GRACE)
        for chain in chains:
            chain.cancel()
        await asyncio.gather(*chains, return_exceptions=True)
        for session_id in sorted(self._started):
            await self._ended(session_id, "closed")

    async def _after(self, before: "asyncio.Task[None] | None", made: Callable[[], Awaitable[None]]) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await made()
        except _REFUSED as error:
            log.warning("opencode refused what a hook point needs: %s", error)

    def _made_of(self, happened: Event) -> Callable[[], Awaitable[None]] | None:
        self._write(happened.properties)
        match happened.properties:
            case events.SessionCreated(info=info):
                self._created.add(info.id)
            case events.SessionDeleted(info=info):
                return lambda: self._ended(info.id, "deleted")
            case events.SessionUpdated(info=info) if info.time.archived and info.id in self._started:
                return lambda: self._ended(info.id, "archived")
            case events.MessageUpdated(info=Assistant() as info) if info.time.completed is not None:
                found = self._answers.get(info.session_id)
                return self._once(info.id, lambda: self._completed(info, found))
            case events.PartUpdated(part=ToolPart(state=ToolError()) as part):
                return self._once(part.call_id, lambda: self._failed(part))
            case events.SessionIdle(session_id=session_id):
                return lambda: self._idle(session_id)
            case events.SessionCompacted(session_id=session_id):
                return lambda: self._compacted(session_id)
            case events.PermissionAsked() as asked:
                return lambda: self._asked(asked)
        return None

    def _write(self, properties: wire.Wire) -> None:
        """Keep what an event says of an answer. One that began before this process is never known as a whole."""
        match properties:
            case events.MessageUpdated(info=info):
                answer = self._answers.get(info.session_id)
                # An earlier prompt is told of again, once it is known what its turn changed.
                if answer is not None and answer.info.id < info.id:
                    del self._answers[info.session_id]
                if not isinstance(info, Assistant):
                    return
                if info.time.completed is None and info.time.created >= self._since:
                    self._written.setdefault(info.id, {})
                elif info.time.completed is not None and info.id in self._written:
                    parts = sorted(self._written.pop(info.id).items())
                    self._answers[info.session_id] = WithParts(info, [part for _, part in parts])
            case events.PartUpdated(part=part) if part.message_id in self._written:
                self._written[part.message_id][part.id] = part
            case events.PartRemoved(message_id=message_id, part_id=part_id) if message_id in self._written:
                self._written[message_id].pop(part_id, None)

    def _once(self, key: str, made: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]] | None:
        if key in self._told:
            return None
        self._told.add(key)
        return made

    async def _ended(self, session_id: str, reason: Any) -> None:
        if session_id in self._started:
            self._started.discard(session_id)
            given = points.SessionEndInput(session_id=session_id, reason=reason)
            await self._plugins.trigger(points.SESSION_END, given, points.Empty())
        self._continued.pop(session_id, None)

    async def _completed(self, info: Assistant, found: WithParts | None) -> None:
        if not self._plugins.listens(points.MESSAGE_COMPLETED):
            return
        if found is None or found.info.id != info.id:
            found = await self._client.session.message(info.session_id, info.id)
        given = points.CompletedInput(session_id=info.session_id, message=info, parts=found.parts)
        await self._plugins.trigger(points.MESSAGE_COMPLETED, given, points.Empty())

    async def _failed(self, part: ToolPart) -> None:
        state = part.state
        self.called.pop(part.call_id, None)
        if not self._plugins.listens(points.TOOL_FAILURE) or not isinstance(state, ToolError):
            return
        given = points.ToolAfterInput(
            tool=part.tool, session_id=part.session_id, call_id=part.call_id, args=dict(state.input)
        )
        output = points.ToolFailureOutput(error=state.error)
        await self._plugins.trigger(points.TOOL_FAILURE, given, output)
        if output.error != state.error:
            self.failures[part.call_id] = output.error

    async def _idle(self, session_id: str) -> None:
        """The turn is over: follow-ups are prompts, which begin another one."""
        self._client.session.rests(session_id)
        answer = self._answers.pop(session_id, None)
        if not self._plugins.listens(points.TURN_END):
            return
        if answer is None:
            answer = _last_answer(await self._client.session.messages(session_id, _NEAR))
        if answer is None or not isinstance(answer.info, Assistant) or answer.info.error is not None:
            return
        count = self._continued.get(session_id, 0)
        given = points.TurnEndInput(
            session_id=session_id,
            agent=answer.info.agent,
            message=answer.info,
            parts=answer.parts,
            continued=count,
        )
        output = await self._plugins.trigger(points.TURN_END, given, points.TurnEndOutput(follow_ups=[]))
        for one in output.follow_ups:
            await self._follow(session_id, answer.info.agent, one)

    async def _follow(self, session_id: str, agent: str, one: wire.Plain) -> None:
        count = self._continued.get(session_id, 0)
        if count >= MOST_ON_END:
            log.warning("session=%s went on %d times in a row: no more", session_id, count)
            return
        try:
            body = wire.decode({"agent": agent, **dict(one["prompt"])}, PromptBody)
            source = str(one["source"])
        except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
            log.error("session=%s a follow-up cannot be used: %s", session_id, error)
            return
        self._continued[session_id] = count + 1
        self._follow_ups[session_id] = next((str(part["text"]) for part in body.parts if "text" in part), "")
        origin = (await self._client.session.origin(session_id)).by(source)
        await self._client.session.follow_up(session_id, body, source, origin)

    async def _compacted(self, session_id: str) -> None:
        if not self._plugins.listens(points.COMPACTION_AFTER):
            return
        found = await self._client.session.messages(session_id)
        summary = next(
            (one for one in reversed(found) if isinstance(one.info, Assistant) and one.info.summary), None
        )
        if summary is None or not isinstance(summary.info, Assistant):
            return
        marks = [part for one in found for part in one.parts if isinstance(part, CompactionPart)]
        given = points.CompactedInput(
            session_id=session_id,
            message=summary.info,
            parts=summary.parts,
            auto=bool(marks and marks[-1].auto),
            overflow=bool(marks and getattr(marks[-1], "overflow", False)),
        )
        await self._plugins.trigger(points.COMPACTION_AFTER, given, points.Empty())

    async def _asked(self, asked: events.PermissionAsked) -> None:
        """A person is asked: a plugin may answer. What it leaves as ``ask`` stays the person's."""
        if not self._plugins.listens(points.PERMISSION_ASK):
            return
        call_id = asked.tool.call_id if asked.tool is not None else ""
        given = points.PermissionInput(
            session_id=asked.session_id,
            permission=asked.permission,
            patterns=list(asked.patterns),
            always=list(asked.always),
            metadata=dict(asked.metadata),
            tool=self.called.get(call_id, asked.permission),
            call_id=call_id,
        )
        try:
            output = await self._plugins.trigger(
                points.PERMISSION_ASK, given, points.PermissionOutput(status="ask")
            )
        except Refused as error:
            await self._client.permission.reply(asked.id, "reject", str(error))
            return
        if output.status == "allow":
            await self._client.permission.reply(asked.id, "once")
        elif output.status == "deny":
            await self._client.permission.reply(asked.id, "reject", "A plugin refused it.")


def _last_answer(found: list[WithParts]) -> WithParts | None:
    """The answer that ended a turn: the last message, unless that is a prompt that nobody answered."""
    if not found or isinstance(found[-1].info, User):
        return None
    return found[-1]
