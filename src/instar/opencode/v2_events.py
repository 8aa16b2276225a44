"""A session's durable events as opencode's newer routes tell them, and the stream of them.

What is stored tells the states that messages and parts had, one after the other; `Projector` makes events of them.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, get_args

import msgspec
from starlette.types import Send

from instar import wire
from instar.api.v2_message import (
    CompactionEndedData,
    CompactionStartedData,
    Durable,
    PromptedData,
    ReasoningEndedData,
    ReasoningStartedData,
    RevertCommittedData,
    RevertStagedData,
    SessionDurableEvent,
    SessionErrorUnknown,
    SessionEventData,
    ShellEndedData,
    ShellStartedData,
    StepEndedData,
    StepFailedData,
    StepStartedData,
    SyntheticData,
    TextEndedData,
    TextStartedData,
    ToolCalledData,
    ToolFailedData,
    ToolInputStartedData,
    ToolProgressData,
    ToolSuccessData,
)
from instar.message import (
    Assistant,
    CompactionPart,
    Message,
    Part,
    ReasoningPart,
    Revert,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    User,
    decode_message,
    decode_part,
)
from instar.opencode.v2_messages import (
    BY_PROVIDER,
    content_of,
    failure_of,
    is_command,
    is_said,
    model_of,
    paths_of,
    printed,
    prompt_of,
    reason_of,
    revert_state,
    token_count,
)
from instar.server.stream import Feed, OpenStream, Reader
from instar.store import Recorded
from instar.store.store import Store
from instar.wire import Plain, decode

_KINDS: Final = {kind.__annotations__["data"]: kind for kind in get_args(SessionDurableEvent)}
"""The kind of event by what it tells."""
_Told = SessionEventData | None
"""What an event tells; None where the newer form has no event for it."""


class Projector:
    """Tells of one session; feed it all its durable events, in order, in pieces of whole transactions.

    At most one event is made of each, under its id and its number, so that a client may go on after any of them.
    """

    def __init__(self) -> None:
        self._prompts: dict[str, list[Part]] = {}
        self._answers: dict[str, Assistant] = {}
        self._ended: set[str] = set()
        self._begun: set[str] = set()
        self._summaries: dict[str, CompactionPart] = {}
        self._texts: dict[str, str] = {}
        self._revert: Revert | None = None
        self._dropped = False

    def feed(self, records: Sequence[Recorded]) -> Iterator[SessionDurableEvent]:
        """Yield the events that these records make. A message that cannot be read is skipped."""
        for record in records:
            self._gather(record)
        for record in records:
            try:
                data = self._tell(record)
            except msgspec.ValidationError:  # written by another version: its reader passes it over
                continue
            if data is not None:
                place = Durable(aggregate_id=record.session_id, seq=record.seq, version=1)
                yield _KINDS[type(data)](id=record.event_id, durable=place, data=data)

    def _gather(self, record: Recorded) -> None:
        """A prompt's parts are kept after it, in the same transaction."""
        if _kind(record) == "message.updated" and record.data.get("info", {}).get("role") == "user":
            self._prompts.setdefault(record.data["info"].get("id", ""), [])
        elif _kind(record) == "message.part.updated":
            message_id = record.data.get("part", {}).get("messageID")
            if message_id in self._prompts and message_id not in self._begun:
                with contextlib.suppress(msgspec.ValidationError):  # of another version
                    self._prompts[message_id].append(decode_part(record.data["part"]))

    def _tell(self, record: Recorded) -> _Told:
        data = record.data
        match _kind(record):
            case "message.updated":
                return self._message(decode_message(data["info"]))
            case "message.part.updated":
                return self._part(decode_part(data["part"]), data.get("time", 0))
            case "message.removed" | "message.part.removed":
                self._dropped = True
            case "session.updated":
                return self._session(data["info"])
        return None

    def _message(self, info: Message) -> _Told:
        if isinstance(info, User):
            return self._prompt(info)
        self._answers[info.id] = info
        place = {"session_id": info.session_id, "assistant_message_id": info.id}
        if info.id not in self._begun:
            self._begun.add(info.id)
            if info.parent_id in self._prompts and is_command(self._prompts[info.parent_id]):
                return None
            if info.summary:
                return None
            return StepStartedData(
                timestamp=info.time.created, agent=info.agent, model=model_of(info), **place
            )
        if info.id in self._ended or (info.time.completed is None and info.error is None):
            return None
        self._ended.add(info.id)
        return self._end(info)

    def _end(self, info: Assistant) -> _Told:
        """An answer is whole, or failed."""
        when = info.time.completed or info.time.created
        place: Plain = {"timestamp": when, "session_id": info.session_id}
        if is_command(self._prompts.get(info.parent_id, [])):
            return None
        mark = self._summaries.get(info.parent_id)
        error = failure_of(info)
        if info.summary and mark is not None:
            if error is not None:
                return None
            return CompactionEndedData(
                message_id=info.parent_id,
                reason=reason_of(mark),
                text=self._texts.get(info.id, ""),
                recent="",
                **place,
            )
        if error is not None:
            return StepFailedData(assistant_message_id=info.id, error=error, **place)
        return StepEndedData(
            assistant_message_id=info.id,
            finish=info.finish or "unknown",
            cost=info.cost,
            tokens=token_count(info.tokens),
            **place,
        )

    def _prompt(self, info: User) -> _Told:
        if info.id in self._begun:
            return None
        self._begun.add(info.id)
        parts = self._prompts.get(info.id, [])
        place: Plain = {"timestamp": info.time.created, "session_id": info.session_id, "message_id": info.id}
        mark = next((part for part in parts if isinstance(part, CompactionPart)), None)
        if mark is not None:
            self._summaries[info.id] = mark
            return CompactionStartedData(reason=reason_of(mark), **place)
        if is_command(parts):
            return None
        if parts and all(isinstance(part, TextPart) and part.synthetic for part in parts):
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
            return SyntheticData(text=text, **place)
        return PromptedData(prompt=prompt_of(parts), delivery="steer", **place)

    def _part(self, part: Part, when: int) -> _Told:
        answer = self._answers.get(part.message_id)
        if answer is None or is_said(part):
            return None
        place = {"timestamp": when, "session_id": part.session_id}
        if isinstance(part, TextPart):
            if answer.summary:
                self._texts[answer.id] = part.text
                return None
            return self._text(part, place)
        if isinstance(part, ReasoningPart) and not answer.summary:
            return self._thought(part, place)
        if isinstance(part, ToolPart):
            if is_command(self._prompts.get(answer.parent_id, [])):
                return self._command(part, place)
            return self._call(part, {**place, "assistant_message_id": part.message_id})
        return None

    def _text(self, part: TextPart, place: Plain) -> _Told:
        place = {**place, "assistant_message_id": part.message_id, "text_id": part.id}
        if part.time is not None and part.time.end is None:
            return TextStartedData(**place) if self._first(part) else None
        return TextEndedData(text=part.text, **place)

    def _thought(self, part: ReasoningPart, place: Plain) -> _Told:
        place = {**place, "assistant_message_id": part.message_id, "reasoning_id": part.id}
        if part.time.end is None:
            return ReasoningStartedData(**place) if self._first(part) else None
        return ReasoningEndedData(text=part.text, **place)

    def _command(self, part: ToolPart, place: Plain) -> _Told:
        if isinstance(part.state, ToolCompleted | ToolError):
            return ShellEndedData(call_id=part.call_id, output=printed(part.state), **place)
        if not self._first(part):
            return None
        return ShellStartedData(
            message_id=part.message_id,
            call_id=part.call_id,
            command=str(part.state.input.get("command", "")),
            **place,
        )

    def _call(self, part: ToolPart, place: Plain) -> _Told:
        state, place = part.state, {**place, "call_id": part.call_id}
        match state:
            case ToolPending():
                asked = ToolInputStartedData(name=part.tool, **place)
                return asked if self._first(part) else None
            case ToolRunning():
                if f"{part.id} runs" in self._begun:
                    return ToolProgressData(structured=state.metadata or {}, content=[], **place)
                self._begun.add(f"{part.id} runs")
                return ToolCalledData(tool=part.tool, input=state.input, provider=BY_PROVIDER, **place)
            case ToolCompleted():
                return ToolSuccessData(
                    structured=state.metadata,
                    content=content_of(state),
                    output_paths=paths_of(state),
                    provider=BY_PROVIDER,
                    **place,
                )
        error = SessionErrorUnknown(message=state.error)
        return ToolFailedData(error=error, provider=BY_PROVIDER, **place)

    def _session(self, info: Plain) -> _Told:
        """Return the event of a session that was reverted, restored, or whose reverted part was deleted."""
        was, given = self._revert, info.get("revert")
        self._revert = None if given is None else decode(given, Revert)
        if self._revert == was:
            return None
        place = {"timestamp": info.get("time", {}).get("updated", 0), "session_id": info.get("id", "")}
        dropped, self._dropped = self._dropped, False
        if self._revert is not None:
            return RevertStagedData(revert=revert_state(self._revert), **place)
        if dropped and was is not None:
            return RevertCommittedData(message_id=was.message_id, **place)
        return SessionEventData(**place)

    def _first(self, part: Part) -> bool:
        """Whether a part is seen for the first time; it is not any more afterwards."""
        known = part.id in self._begun
        self._begun.add(part.id)
        return not known


def _kind(record: Recorded) -> str:
    """The name of an event without its version: ``message.updated`` of ``message.updated.1``."""
    return record.type.rpartition(".")[0]


_PAGE: Final = 1000


class SessionStream(OpenStream):
    """An open stream, which ends with its session and with the server too."""

    def __init__(self, feed: Feed, store: Store, session_id: str, after: int) -> None:
        # The end of a session has no number where a relay brings it: nothing of the session is kept then.
        super().__init__(
            feed,
            lambda one: (
                one.session_id == session_id and (one.seq is not None or one.type == "session.deleted")
            ),
        )
        self._store = store
        self._session_id = session_id
        self._after = after

    def __str__(self) -> str:
        """Say what it is, for the log."""
        return f"stream of session={self._session_id}"

    async def tell(self, reader: Reader, send: Send) -> None:
        """Send what is kept, and again whenever something is published, which only says that there is more."""
        projector, seq = Projector(), 0
        while True:
            records = await kept(self._store, self._session_id, seq)
            seq = records[-1].seq if records else seq
            told = [event for event in projector.feed(records) if _seq(event) > self._after]
            if told:
                body = b"".join(b"data: %b\n\n" % wire.encode(event) for event in told)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            items = await reader.take()
            if not items or any(getattr(item, "type", "") == "session.deleted" for item in items):
                return

    async def beat(self, reader: Reader, send: Send) -> None:
        """Send a comment: an event here is only what is kept."""
        await send({"type": "http.response.body", "body": b": heartbeat\n\n", "more_body": True})


async def kept(store: Store, session_id: str, after: int = 0) -> list[Recorded]:
    """Return all durable events of a session with a number above `after`."""
    found: list[Recorded] = []
    while page := await store.events_since(session_id, after, _PAGE):
        found += page
        after = page[-1].seq
    return found


async def history(
    store: Store, session_id: str, after: int, limit: int
) -> tuple[list[SessionDurableEvent], bool]:
    """Return at most `limit` events above a number, and whether there are more.

    What an event comes to depends on those before it, so that all are read: some 20 µs for each.
    """
    told = [event for event in Projector().feed(await kept(store, session_id)) if _seq(event) > after]
    return told[:limit], len(told) > limit


def _seq(event: SessionDurableEvent) -> int:
    return 0 if event.durable is None else event.durable.seq
