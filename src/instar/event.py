"""Events: what is published on the bus, and what of it is kept.

An event is ``{"id": "evt_…", "type": …, "properties": {…}}``. Each type is declared once, by the
class of its properties. A type with a `version` is a *sync event* (seed 004 section 7): it is also a
durable row with a sequence number in its session. Payloads are those of opencode 1.18's document.
"""

from typing import Any, Final, Literal, TypeVar

import msgspec

from instar import ids, wire
from instar.message import (
    FileDiff,
    Message,
    MessageError,
    Part,
    Session,
    UnknownPart,
    decode_part,
    part_to_plain,
)
from instar.wire import Plain, Wire


class EventType(msgspec.Struct, frozen=True):
    """A declared type: its name, its properties' class and, for a sync event, its version."""

    name: str
    properties: type[Wire]
    version: int | None = None


TYPES: Final[dict[str, EventType]] = {}
"""Every declared event type by name."""
_BY_CLASS: Final[dict[type[Wire], EventType]] = {}

P = TypeVar("P", bound=type[Wire])


def declare(name: str, *, version: int | None = None) -> Any:
    """Declare the decorated class as the properties of the event type `name`.

    Raises `ValueError` when the name is taken.
    """

    def register(properties: P) -> P:
        if name in TYPES:
            raise ValueError(f"event type {name!r} is declared twice")
        TYPES[name] = _BY_CLASS[properties] = EventType(name, properties, version)
        return properties

    return register


class Event(msgspec.Struct, frozen=True):
    """One thing that happened: its own id, its type and its properties."""

    id: str
    type: str
    properties: Wire

    @property
    def declared(self) -> EventType:
        """The declaration of this event's type."""
        return TYPES[self.type]

    @property
    def session_id(self) -> str | None:
        """The session that the event belongs to, if any."""
        return getattr(self.properties, "session_id", None)

    def to_plain(self) -> Plain:
        """Return the event's wire form as a detached dict."""
        return {"id": self.id, "type": self.type, "properties": properties_to_plain(self.properties)}


def make(properties: Wire) -> Event:
    """Return a new event with these properties; their class says of which type."""
    return Event(ids.new("evt"), _BY_CLASS[type(properties)].name, properties)


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


def properties_to_plain(properties: Wire) -> Plain:
    """Return an event's properties as a detached dict, parts of unknown types included."""
    part = getattr(properties, "part", None)
    plain: Plain = wire.to_plain(properties)
    if isinstance(part, UnknownPart):
        plain["part"] = part_to_plain(part)
    return plain


def encode_properties(properties: Wire) -> bytes:
    """Return an event's properties as JSON bytes, parts of unknown types included."""
    if isinstance(getattr(properties, "part", None), UnknownPart):
        return wire.encode(properties_to_plain(properties))
    return wire.encode(properties)


class Nothing(Wire):
    """An event that says only that it happened."""


class OfSession(Wire):
    """Properties of an event that belongs to one session."""

    session_id: str


@declare("server.connected")
class ServerConnected(Nothing):
    """A client's event stream is open."""


@declare("server.heartbeat")
class ServerHeartbeat(Nothing):
    """A client's event stream is alive."""


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


class Idle(Wire, tag_field="type", tag="idle"):
    """Nothing runs in the session."""


class Busy(Wire, tag_field="type", tag="busy"):
    """A turn runs in the session."""


class Retry(Wire, tag_field="type", tag="retry"):
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


class _PartUpdatedShell(OfSession):
    """`PartUpdated` before its part is decoded, since msgspec cannot choose an unknown type."""

    part: Plain
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


@declare("file.edited")
class FileEdited(Wire):
    """A tool changed a file."""

    file: str


@declare("plugin.error")
class PluginError(Wire):
    """A plugin's hook failed and its half-made changes were discarded (our own event)."""

    plugin: str
    hook: str
    message: str


@declare("session.limit")
class LimitReached(OfSession):
    """A limit stopped the turn (our own event); `cause` says whose work it was."""

    limit: str
    cause: str
    message: str
