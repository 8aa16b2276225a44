"""Sessions, user messages and assistant messages, with opencode's wire names, and where a prompt comes from."""

from collections.abc import Container, Mapping, Sequence
from contextvars import ContextVar
from typing import Final, Literal

import msgspec

from instar.message.error import MessageError
from instar.message.part import (
    PART_TYPES,
    CompactionPart,
    Created,
    FilePart,
    ModelRef,
    Part,
    TextPart,
    Tokens,
    ToolPart,
    UnknownPart,
    decode_part,
    part_to_plain,
)
from instar.wire import Plain, Wire, copy, decode, encode, ids, to_plain
from instar.wire.pattern import late_pattern

PERSON: Final = "person"
"""The name of the origin of what a person asked for."""


class Origin(msgspec.Struct, frozen=True):
    """The root of a chain of model calls, and how far from it a message stands.

    `name` is ``person``, ``heartbeat``, ``action``, ``plugin`` …, `id` which one (``heartbeat`` ``12``). `source`
    says what made the session go on just now (``evolve.idle``, ``compaction`` …; empty for a direct prompt) and
    `depth` how often the chain went on by actions. `trace` is the W3C ``traceparent`` that the prompt came with.
    """

    name: str = PERSON
    id: str = ""
    source: str = ""
    depth: int = 0
    trace: str = ""

    @property
    def is_person(self) -> bool:
        """Whether a person asked for this very message: nothing made the session go on by itself."""
        return self.name == PERSON and not self.source

    @property
    def chain(self) -> str:
        """The chain's name and id as one text: ``heartbeat:12``."""
        return f"{self.name}:{self.id}"

    def by(self, source: str) -> "Origin":
        """Return the same chain, gone on because of `source`; a person's own queued prompt stays theirs."""
        return msgspec.structs.replace(self, source="" if source == PERSON else source)

    def traced(self) -> "Origin":
        """Return it in the trace of the request that is carried out here, if that has one and a person sent it."""
        trace = TRACE.get()
        return msgspec.structs.replace(self, trace=trace) if trace and self.is_person else self


TRACE: Final = ContextVar("trace", default="")
"""The ``traceparent`` of the request, or of the command, that is carried out here; empty: it has none."""


def trace_parent(text: str) -> str:
    """Return a W3C ``traceparent``; "" for what is none: the standard says that it is ignored."""
    return text if _TRACE_PARENT.fullmatch(text) else ""


_TRACE_PARENT: Final = late_pattern(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


class FileDiff(Wire):
    """How one file changed."""

    file: str | None = None
    patch: str | None = None
    additions: int
    deletions: int
    status: Literal["added", "deleted", "modified"] | None = None


class UserSummary(Wire):
    """What a user message led to."""

    title: str | None = None
    body: str | None = None
    diffs: list[FileDiff]


class MessageBase(Wire, tag_field="role"):
    """What every message has: whose it is."""

    @property
    def role(self) -> str:
        """``user`` or ``assistant``."""
        return str(self.__struct_config__.tag)


class User(MessageBase, tag="user"):
    """A message from a person, or from the runtime in a person's place."""

    id: str
    session_id: str
    time: Created
    format: Plain | None = None
    summary: UserSummary | None = None
    agent: str
    model: ModelRef
    system: str | None = None
    tools: dict[str, bool] | None = None


class AnswerTime(Wire):
    """When an answer was begun and, once it is whole, completed."""

    created: int
    completed: int | None = None


class MessagePath(Wire):
    """The working directory and the worktree of an answer."""

    cwd: str
    root: str


class Assistant(MessageBase, tag="assistant"):
    """One model call's answer: one message per step, all with the user message as parent."""

    id: str
    session_id: str
    time: AnswerTime
    error: MessageError | None = None
    parent_id: str
    model_id: str
    provider_id: str
    mode: str
    agent: str
    path: MessagePath
    summary: bool | None = None
    cost: float
    tokens: Tokens
    structured: object = None
    variant: str | None = None
    finish: str | None = None


Message = User | Assistant


class WithParts(msgspec.Struct):
    """A message and its parts, in order: the shape that hooks, clients and providers get."""

    info: Message
    parts: list[Part]

    def to_plain(self) -> Plain:
        """Return ``{"info": …, "parts": […]}`` as detached plain values."""
        return {"info": to_plain(self.info), "parts": [part_to_plain(part) for part in self.parts]}

    def to_json(self) -> bytes:
        """Return what `to_plain` does as JSON bytes."""
        known = UnknownPart not in map(type, self.parts)
        return encode(self) if known else encode(self.to_plain())

    def copy(self) -> "WithParts":
        """Return an independent deep copy. Raises as `decode_with_parts`, where a plugin put something else in."""
        if type(self.info) in _COPIED and all(type(part) in _COPIED for part in self.parts):
            return WithParts(info=copy(self.info), parts=[copy(part) for part in self.parts])
        return decode_with_parts(self.to_plain())


_ROLES: dict[str, type[User] | type[Assistant]] = {"user": User, "assistant": Assistant}
_COPIED = frozenset({*_ROLES.values(), *PART_TYPES.values()})
"""What is copied as what it is, without a look at its form."""


def decode_message(data: Plain) -> Message:
    """Decode a message's info by its role. Raises `msgspec.ValidationError` for any other role."""
    kind = _ROLES.get(str(data.get("role")))
    if kind is None:
        raise msgspec.ValidationError(f"Unknown message role {data.get('role')!r} - at `$.role`")
    return decode(data, kind)


def decode_with_parts(data: Plain) -> WithParts:
    """Decode ``{"info": …, "parts": […]}``. Raises `msgspec.ValidationError` when it is malformed."""
    for key, kind in (("info", dict), ("parts", list)):
        if not isinstance(data.get(key), kind):
            raise msgspec.ValidationError(f"Expected an object with `info` and `parts` - at `$.{key}`")
    return WithParts(info=decode_message(data["info"]), parts=[decode_part(part) for part in data["parts"]])


def text_of(message: WithParts) -> str:
    """Return the message's text parts joined by newlines, without ignored ones."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart) and not part.ignored)


def visible(history: Sequence[WithParts]) -> list[WithParts]:
    """Return the messages that a model still sees: from the last finished summary on, with what it kept.

    The law: the request begins at the compaction message, followed by its
    summary, then by the messages from the part's `tail_start_id` up to it, then by everything newer. Older
    compactions and those that failed are left out. Takes time in proportion to the history's length.
    """
    marks = _marks(history)
    if not marks:
        return list(history)
    summaries = {parent: message for message in history if (parent := _summarised(message)) in marks}
    last = max((marks[parent] for parent in summaries if parent is not None), default=None)
    if last is None:
        return _conversation(history, marks)
    asked = history[last]
    mark = mark_of(asked)
    kept = _tail(history[:last], mark.tail_start_id if mark else None)
    newer = _conversation(history[last + 1 :], marks)
    return [asked, summaries[asked.info.id], *_conversation(kept, marks), *newer]


def _marks(history: Sequence[WithParts]) -> dict[str, int]:
    """The places of the messages that ask for a summary, by id; written for speed: each step asks it of all."""
    found: dict[str, int] = {}
    for index, message in enumerate(history):
        if message.info.__class__ is User:
            for part in message.parts:
                if part.__class__ is CompactionPart:
                    found[message.info.id] = index
    return found


def newest_user(history: Sequence[WithParts]) -> User | None:
    """Return the newest message to the model; None where there is none."""
    return next((one.info for one in reversed(history) if isinstance(one.info, User)), None)


def mark_of(message: WithParts) -> CompactionPart | None:
    """Return the part by which a message asks for a summary."""
    if isinstance(message.info, User):
        for part in message.parts:
            if isinstance(part, CompactionPart):
                return part
    return None


def _conversation(messages: Sequence[WithParts], marks: Container[str]) -> list[WithParts]:
    """The messages without compactions: what asked for them (`marks`, by id), and their answers."""
    return [
        message
        for message in messages
        if message.info.id not in marks
        and not (
            isinstance(message.info, Assistant) and message.info.summary and message.info.parent_id in marks
        )
    ]


def _tail(earlier: Sequence[WithParts], start: str | None) -> Sequence[WithParts]:
    """The messages from `start` on; by place, since ids of this form begin anew every 795 days."""
    for index, message in enumerate(earlier):
        if message.info.id == start:
            return earlier[index:]
    return []


def _summarised(message: WithParts) -> str | None:
    """The id of the message that a finished summary answers."""
    info = message.info
    if (
        isinstance(info, Assistant)
        and info.summary
        and info.error is None
        and info.time.completed is not None
    ):
        return info.parent_id
    return None


class SessionTime(Wire):
    """When a session was made, last touched, and (perhaps) archived or being compacted."""

    created: int
    updated: int
    compacting: int | None = None
    archived: int | None = None


class SessionSummary(Wire):
    """How many lines and files a session changed."""

    additions: int
    deletions: int
    files: int
    diffs: list[FileDiff] | None = None


class SessionModel(Wire):
    """The model that a session uses."""

    id: str
    provider_id: str
    variant: str | None = None


class Rule(Wire):
    """One permission rule: may `permission` be used on what `pattern` matches?"""

    permission: str
    pattern: str
    action: Literal["allow", "ask", "deny"]


class Revert(Wire):
    """Where a session was taken back to."""

    message_id: str
    part_id: str | None = None
    snapshot: str | None = None
    diff: str | None = None


class Session(Wire):
    """A conversation in a directory of a project. An older opencode wrote no `cost` and no `tokens`."""

    id: str
    slug: str
    project_id: str
    workspace_id: str | None = None
    directory: str
    path: str | None = None
    parent_id: str | None = None
    summary: SessionSummary | None = None
    cost: float = msgspec.field(default_factory=float)
    tokens: Tokens = msgspec.field(default_factory=Tokens.zero)
    share: Plain | None = None
    title: str
    agent: str | None = None
    model: SessionModel | None = None
    version: str
    metadata: Plain | None = None
    time: SessionTime
    permission: list[Rule] | None = None
    revert: Revert | None = None


def renew(message: WithParts, known: Mapping[str, str]) -> None:
    """Give a message and its parts new ids, and let what names another one name that one's new id.

    `known` maps old ids of sessions and messages to new ones; it holds the message's own and its session's. An
    answer stays its question's, a compaction keeps its tail (None when that is not known), a `task` call its
    sub-agent's session. New ids of parts sort as the parts stand.
    """
    info: Message = message.info
    info.id, info.session_id = known[info.id], known[info.session_id]
    if isinstance(info, Assistant):
        info.parent_id = known.get(info.parent_id, info.parent_id)
    message.parts = [_part(part, info, known) for part in message.parts]


def _part(part: Part, info: Message, known: Mapping[str, str]) -> Part:
    if isinstance(part, UnknownPart):
        place = {"id": ids.new("prt"), "sessionID": info.session_id, "messageID": info.id}
        return UnknownPart(fields={**part.fields, **place})
    part.id, part.session_id, part.message_id = ids.new("prt"), info.session_id, info.id
    if isinstance(part, CompactionPart) and part.tail_start_id is not None:
        part.tail_start_id = known.get(part.tail_start_id)
    if isinstance(part, ToolPart):
        _renew_call(part, info, known)
    return part


def _renew_call(part: ToolPart, info: Message, known: Mapping[str, str]) -> None:
    metadata = getattr(part.state, "metadata", None) or {}
    for key in ("sessionId", "sessionID", "parentSessionId"):
        if isinstance(metadata.get(key), str):
            metadata[key] = known.get(metadata[key], metadata[key])
    attached: list[FilePart] = getattr(part.state, "attachments", None) or []
    for file in attached:
        file.id, file.session_id, file.message_id = ids.new("prt"), info.session_id, info.id
