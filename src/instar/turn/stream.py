"""From a provider's deltas to parts: each delta goes to the part that is open, or opens the next one.

A part is saved and published when it opens and when it is whole; in between only its deltas are published.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from instar.message import (
    Part,
    ReasoningPart,
    Span,
    StepStartPart,
    TextPart,
    ToolPart,
    ToolPending,
    WithParts,
)
from instar.plugin import points
from instar.provider.protocol import (
    Delta,
    Finish,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from instar.session.instance import Instance
from instar.session.state import SessionState, now
from instar.wire import ids

if TYPE_CHECKING:
    import asyncio


class ToolCall(msgspec.Struct):
    """A tool call while it streams: its part and its argument text."""

    part: ToolPart
    text: list[str]

    @property
    def raw(self) -> str:
        """The whole argument text."""
        return "".join(self.text)


class AnswerWriter:
    """Writes one attempt of a model call into its message.

    `calls` are the tool calls in the order asked; `finish` is set once the answer is whole.
    """

    def __init__(self, instance: Instance, live: SessionState, holder: WithParts) -> None:
        self._instance = instance
        self._live = live
        self._holder = holder
        self._open: TextPart | ReasoningPart | None = None
        self._buffer: list[str] = []
        self._written: list[Part] = []
        self._by_index: dict[int, ToolCall] = {}
        self._saves: list[asyncio.Future[int]] = []
        self.finish: Finish | None = None

    @property
    def holder(self) -> WithParts:
        """The answer that is written."""
        return self._holder

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls so far, in the order asked."""
        return list(self._by_index.values())

    async def take(self, delta: Delta) -> None:
        """Write one delta. The first one opens the step: a call that fails before it leaves no parts."""
        if not self._written:
            self._save(StepStartPart(**self._place()))
        await self._write(delta)

    async def saved(self) -> None:
        """Wait until all that was written so far is durable. Raises `StoreError`."""
        saves, self._saves = self._saves, []
        for one in saves:
            await one

    async def _write(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                await self._grow(TextPart, text)
            case ReasoningStart(metadata=metadata):
                await self._begin(ReasoningPart)
                if metadata and self._open is not None:
                    self._open.metadata = dict(metadata)
            case ReasoningDelta(text=text, metadata=metadata):
                if text:
                    await self._grow(ReasoningPart, text)
                if metadata and isinstance(self._open, ReasoningPart):
                    self._open.metadata = {**(self._open.metadata or {}), **metadata}
            case ToolCallStart():
                await self._begin_call(delta)
            case ToolCallDelta(index=index, text=text):
                self._by_index[index].text.append(text)
            case Finish():
                await self.close()
                self.finish = delta

    async def close(self, *, whole: bool = True) -> None:
        """Save the open part, after `text.complete` when it is `whole`; nothing happens when none is open.

        `saved` says when it is durable; whatever is saved after it is later.
        """
        if self._open is None:
            return
        part, self._open = self._open, None
        # Before a plugin is asked: an abort in the middle of that must not lose what was streamed.
        part.text, self._buffer = "".join(self._buffer), []
        try:
            if whole:
                part.text = await self._complete(part, part.text)
        finally:
            part.time = Span(start=part.time.start if part.time else now(), end=now())
            self._saves.append(self._instance.sessions.save_part(self._holder, part))

    async def discard(self) -> None:
        """Take back every part of this attempt: it will be tried again."""
        self._open, self._buffer = None, []
        for part in self._written:
            await self._instance.sessions.drop_part(self._holder, part)
        self._written, self._by_index = [], {}

    async def _grow(self, kind: type[TextPart] | type[ReasoningPart], text: str) -> None:
        if not isinstance(self._open, kind):
            if not text:
                await self.close()
                return
            await self._begin(kind)
        assert self._open is not None
        self._buffer.append(text)
        self._instance.sessions.delta(self._open, text)

    async def _begin(self, kind: type[TextPart] | type[ReasoningPart]) -> None:
        await self.close()
        self._open = kind(text="", time=Span(start=now()), **self._place())
        self._save(self._open)

    async def _begin_call(self, start: ToolCallStart) -> None:
        await self.close()
        state = ToolPending(input={}, raw="")
        part = ToolPart(
            call_id=start.call_id, tool=start.name, state=state, metadata=start.metadata, **self._place()
        )
        self._by_index[start.index] = ToolCall(part, [])
        self._save(part)

    async def _complete(self, part: TextPart | ReasoningPart, text: str) -> str:
        if not isinstance(part, TextPart) or not self._instance.plugins.listens(points.TEXT_COMPLETE):
            return text
        given = points.TextInput(session_id=part.session_id, message_id=part.message_id, part_id=part.id)
        output = await self._instance.plugins.trigger(
            points.TEXT_COMPLETE, given, points.TextOutput(text=text)
        )
        # What is no text is not kept: an observer fails open.
        return output.text if isinstance(output.text, str) else text

    def _save(self, part: Part) -> None:
        self._written.append(part)
        self._saves.append(self._instance.sessions.save_part(self._holder, part))

    def _place(self) -> dict[str, Any]:
        return {"id": ids.new("prt"), "session_id": self._live.id, "message_id": self._holder.info.id}
