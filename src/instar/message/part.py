"""The twelve kinds of part that a message is made of, and the four states of a tool call.

Source: opencode 1.18's OpenAPI document.
Times are milliseconds since the epoch.
"""

from typing import Annotated, Any

import msgspec

from instar import wire
from instar.message.error import APIError
from instar.wire import Plain, Wire

Time = Annotated[int, msgspec.Meta(ge=0)]
"""Milliseconds since the epoch; a part of an older time is one that cannot be read."""


class Span(Wire):
    """When something started and, once it has, ended."""

    start: Time
    end: Time | None = None


class ToolSpan(Wire):
    """When a tool ran; `compacted` is when its output was cleared from the model's view."""

    start: Time
    end: Time
    compacted: Time | None = None


class Created(Wire):
    """When something came to be."""

    created: int


class ModelRef(Wire):
    """A model by its provider and its name there, with an optional variant."""

    provider_id: str
    model_id: str
    variant: str | None = None


class CacheTokens(Wire):
    """Input tokens that the provider read from, and wrote to, its prompt cache."""

    read: int
    write: int


class Tokens(Wire):
    """Tokens of one model call: `input` excludes cached ones, `output` excludes `reasoning`."""

    total: int | None = None
    input: int
    output: int
    reasoning: int
    cache: CacheTokens

    @classmethod
    def of(
        cls,
        given: int,
        made: int,
        *,
        reasoning: int = 0,
        read: int = 0,
        write: int = 0,
        total: int | None = None,
    ) -> "Tokens":
        """Return the count of `given` tokens, beside those of the cache, and `made` ones, beside the reasoning."""
        cache = CacheTokens(read=read, write=write)
        return cls(total=total, input=given, output=made, reasoning=reasoning, cache=cache)

    @classmethod
    def zero(cls) -> "Tokens":
        """Return a count of nothing."""
        return cls.of(0, 0)


class PartBase(Wire, tag_field="type"):
    """What every part has: its own id, and the message and session that it belongs to."""

    id: str
    session_id: str
    message_id: str

    @property
    def type(self) -> str:
        """Its kind, as the wire has it: ``text``, ``tool`` …"""
        return str(self.__struct_config__.tag)


class TextPart(PartBase, tag="text"):
    """Text of a person or the model. `synthetic`: written by the runtime; `ignored`: not sent."""

    text: str
    synthetic: bool | None = None
    ignored: bool | None = None
    time: Span | None = None
    metadata: Plain | None = None


class ReasoningPart(PartBase, tag="reasoning"):
    """The model's thinking; `metadata` may hold the provider's signature."""

    text: str
    metadata: Plain | None = None
    time: Span


class FilePart(PartBase, tag="file"):
    """A file, image or folder by url (``file:``, ``data:`` or ``http:``)."""

    mime: str
    filename: str | None = None
    url: str
    source: Plain | None = None


class AgentPart(PartBase, tag="agent"):
    """An agent that the person named with ``@name``."""

    name: str
    source: Plain | None = None


class SubtaskPart(PartBase, tag="subtask"):
    """A task to hand to a sub-agent."""

    prompt: str
    description: str
    agent: str
    model: ModelRef | None = None
    command: str | None = None

    @property
    def call_id(self) -> str:
        """The id of the `task` call that carries it out: only the runtime makes a call of this id."""
        return f"call_{self.id.removeprefix('prt_')}"


class ToolStateBase(Wire, tag_field="status"):
    """What every state of a tool call has: its name."""

    @property
    def status(self) -> str:
        """Which state it is, as the wire has it: ``pending``, ``running``, ``completed`` or ``error``."""
        return str(self.__struct_config__.tag)


class ToolPending(ToolStateBase, tag="pending"):
    """The model has begun to ask; `raw` is the argument text so far."""

    input: Plain
    raw: str


class ToolRunning(ToolStateBase, tag="running"):
    """The tool runs with `input`; `title` and `metadata` may change while it does."""

    input: Plain
    title: str | None = None
    metadata: Plain | None = None
    time: Span


class ToolCompleted(ToolStateBase, tag="completed"):
    """The tool answered: `output` for the model, `title` and `metadata` for people."""

    input: Plain
    output: str
    title: str
    metadata: Plain
    time: ToolSpan
    attachments: list[FilePart] | None = None


class ToolError(ToolStateBase, tag="error"):
    """The call failed or was refused; the model reads `error`."""

    input: Plain
    error: str
    metadata: Plain | None = None
    time: ToolSpan


ToolState = ToolPending | ToolRunning | ToolCompleted | ToolError


class ToolPart(PartBase, tag="tool"):
    """One tool call of the model and what became of it."""

    call_id: str
    tool: str
    state: ToolState
    metadata: Plain | None = None


class StepStartPart(PartBase, tag="step-start"):
    """A model call began; `snapshot` names the files' state."""

    snapshot: str | None = None


class StepFinishPart(PartBase, tag="step-finish"):
    """A model call ended, with its cost in US dollars and its tokens."""

    reason: str
    snapshot: str | None = None
    cost: float
    tokens: Tokens


class SnapshotPart(PartBase, tag="snapshot"):
    """The name of a snapshot of the project's files."""

    snapshot: str


class PatchPart(PartBase, tag="patch"):
    """The files that a step changed, and the snapshot to compare with."""

    hash: str
    files: list[str]


class RetryPart(PartBase, tag="retry"):
    """A model call that failed and was tried again."""

    attempt: int
    error: APIError
    time: Created


class CompactionPart(PartBase, tag="compaction"):
    """The place from which the history was summarised; `tail_start_id` is the first message kept."""

    auto: bool
    overflow: bool | None = None
    tail_start_id: str | None = msgspec.field(default=None, name="tail_start_id")


class UnknownPart(msgspec.Struct):
    """A part of a kind that this version does not know: kept as it came, shown as it is.

    `fields` is its whole wire form; its ``id``, ``sessionID`` and ``messageID`` are strings.
    """

    fields: Plain

    @property
    def id(self) -> str:
        """The part's id."""
        return str(self.fields["id"])

    @property
    def session_id(self) -> str:
        """The session that it belongs to."""
        return str(self.fields["sessionID"])

    @property
    def message_id(self) -> str:
        """The message that it belongs to."""
        return str(self.fields["messageID"])

    @property
    def type(self) -> str:
        """What it calls itself."""
        return str(self.fields.get("type"))


KnownPart = (
    TextPart
    | ReasoningPart
    | FilePart
    | AgentPart
    | SubtaskPart
    | ToolPart
    | StepStartPart
    | StepFinishPart
    | SnapshotPart
    | PatchPart
    | RetryPart
    | CompactionPart
)
Part = KnownPart | UnknownPart

PART_TYPES: dict[str, type[Any]] = {str(kind.__struct_config__.tag): kind for kind in KnownPart.__args__}
"""Each known part type by its wire tag."""


def decode_part(data: bytes | str | Plain) -> Part:
    """Decode one part, whatever its type; an unknown type gives an `UnknownPart`.

    Raises `msgspec.ValidationError` when a part of a known type is malformed, or one of an unknown type
    lacks its ids, and `msgspec.DecodeError` when `data` is not JSON.
    """
    plain = data if isinstance(data, dict) else wire.parse(data)
    if not isinstance(plain, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(plain).__name__}`")
    kind = PART_TYPES.get(str(plain.get("type")))
    if kind is None:
        return unknown_part(plain)
    return wire.decode(plain, kind)  # type: ignore[no-any-return]


def part_to_plain(part: Part) -> Plain:
    """Return a part's wire form as a detached dict."""
    return wire.to_plain(part.fields if isinstance(part, UnknownPart) else part)  # type: ignore[no-any-return]


def encode_part(part: Part) -> bytes:
    """Return a part's wire form as JSON bytes."""
    return wire.encode(part.fields if isinstance(part, UnknownPart) else part)


def unknown_part(plain: Plain) -> UnknownPart:
    """Return a part of an unknown kind. Raises `msgspec.ValidationError` when it lacks one of its ids."""
    for key in ("id", "sessionID", "messageID"):
        if not isinstance(plain.get(key), str):
            raise msgspec.ValidationError(f"Expected `str` - at `$.{key}` of a part")
    return UnknownPart(fields=dict(plain))
