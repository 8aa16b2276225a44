"""The events of a conversation: its session, messages, parts, questions to a person, todos and limits."""

from typing import Literal

import msgspec

from instar import wire
from instar.event.kind import TYPES, Event, declare
from instar.message import FileDiff, Message, MessageError, Part, Session, decode_part
from instar.wire import Plain, Wire


class OfSession(Wire):
    """Properties of an event that belongs to one session."""

    session_id: str


@declare("session.created", version=1)
class SessionCreated(OfSession):
    """A session was made."""

    info: Session


@declare("session.updated", version=1)
class SessionUpdated(OfSession):
    """A session's own fields changed."""

    info: Session


@declare("session.deleted", version=1)
class SessionDeleted(OfSession):
    """A session is gone, with all that belonged to it."""

    info: Session


@declare("session.diff")
class SessionDiff(OfSession):
    """The files that a session changed."""

    diff: list[FileDiff]


@declare("session.error")
class SessionError(Wire):
    """A turn failed."""

    session_id: str | None = None
    error: MessageError | None = None


class StatusBase(Wire, tag_field="type"):
    """What every status has: its name."""

    @property
    def type(self) -> str:
        """``idle``, ``busy`` or ``retry``."""
        return str(self.__struct_config__.tag)


class Idle(StatusBase, tag="idle"):
    """Nothing runs in the session."""


class Busy(StatusBase, tag="busy"):
    """A turn runs in the session."""


class Retry(StatusBase, tag="retry"):
    """A model call failed and will be tried again at `next` (ms since the epoch)."""

    attempt: int
    message: str
    next: int


SessionStatus = Idle | Busy | Retry


@declare("session.status")
class SessionStatusChanged(OfSession):
    """What the session is doing."""

    status: SessionStatus


@declare("session.idle")
class SessionIdle(OfSession):
    """The turn is over."""


@declare("session.compacted")
class SessionCompacted(OfSession):
    """The session's earlier messages were summarised."""


@declare("message.updated", version=1)
class MessageUpdated(OfSession):
    """A message was made or changed."""

    info: Message


@declare("message.removed", version=1)
class MessageRemoved(OfSession):
    """A message is gone, with its parts."""

    message_id: str


@declare("message.part.updated", version=1)
class PartUpdated(OfSession):
    """A part was made or changed; `time` is when, in milliseconds."""

    part: Part
    time: int


@declare("message.part.delta")
class PartDelta(OfSession):
    """`delta` was appended to `field` of a part. Never stored; may be merged with its neighbours."""

    message_id: str
    part_id: str
    field: str
    delta: str


@declare("message.part.removed", version=1)
class PartRemoved(OfSession):
    """A part is gone."""

    message_id: str
    part_id: str


class AskedBy(Wire):
    """The tool call that asks."""

    message_id: str
    call_id: str


@declare("permission.asked")
class PermissionAsked(OfSession):
    """A tool call waits for a person."""

    id: str
    permission: str
    patterns: list[str]
    metadata: Plain
    always: list[str]
    tool: AskedBy | None = None


@declare("permission.replied")
class PermissionReplied(OfSession):
    """A person answered."""

    request_id: str
    reply: Literal["once", "always", "reject"]


@declare("session.limit", own=True)
class LimitReached(OfSession):
    """A limit stopped the turn, or what follows it if `ends` is false (our own event); `cause`: whose work it was."""

    limit: str
    cause: str
    message: str
    ends: bool = True


class Option(Wire):
    """One answer to choose."""

    label: str
    description: str


class Question(Wire):
    """A question of the model to a person; `multiple` answers may be chosen, `custom` ones typed."""

    question: str
    header: str
    options: list[Option]
    multiple: bool | None = None
    custom: bool | None = None


@declare("question.asked")
class QuestionAsked(OfSession):
    """The model asks a person."""

    id: str
    questions: list[Question]
    tool: AskedBy | None = None


@declare("question.replied")
class QuestionReplied(OfSession):
    """A person answered: for each question the labels chosen."""

    request_id: str
    answers: list[list[str]]


@declare("question.rejected")
class QuestionRejected(OfSession):
    """A person would not answer."""

    request_id: str


class Todo(Wire):
    """One entry of the model's list; `status` and `priority` are opencode's words."""

    content: str
    status: str
    priority: str


@declare("todo.updated")
class TodoUpdated(OfSession):
    """The model's list changed."""

    todos: list[Todo]


@declare("command.executed")
class CommandExecuted(OfSession):
    """A command was turned into a prompt."""

    name: str
    arguments: str
    message_id: str


def decode(data: Plain) -> Event:
    """Decode an event's wire form, as another process published it.

    Raises `msgspec.ValidationError` when the type is not declared or the properties are malformed.
    """
    declared = TYPES.get(str(data.get("type")))
    properties = data.get("properties")
    if declared is None or not isinstance(properties, dict) or not isinstance(data.get("id"), str):
        raise msgspec.ValidationError(f"Not an event of a known type: {str(data)[:200]}")
    if declared.properties is not PartUpdated:
        return Event(data["id"], declared.name, wire.decode(properties, declared.properties))
    shell = wire.decode(properties, _PartUpdatedShell)
    made = PartUpdated(session_id=shell.session_id, part=decode_part(shell.part), time=shell.time)
    made.__dict__.update(shell.__dict__)
    return Event(data["id"], declared.name, made)


class _PartUpdatedShell(OfSession):
    """`PartUpdated` before its part is decoded, since msgspec cannot choose an unknown type."""

    part: Plain
    time: int
