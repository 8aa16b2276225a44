"""What an event is, and how its type is declared."""

from typing import Any, Final, TypeVar

import msgspec

from instar import wire
from instar.message import UnknownPart, decode_part, part_to_plain
from instar.wire import Plain, Wire, ids


class EventType(msgspec.Struct, frozen=True):
    """A declared type: its name, its properties' class and, for a sync event, its version.

    `never` says why instar never sends it, for a type that opencode's clients know and nothing here publishes.
    `own`: opencode has no such type, so the streams that its clients read do not carry it.
    """

    name: str
    properties: type[Wire]
    version: int | None = None
    never: str | None = None
    own: bool = False


TYPES: Final[dict[str, EventType]] = {}
"""Every declared event type by name."""
_BY_CLASS: Final[dict[type[Wire], EventType]] = {}

P = TypeVar("P", bound=type[Wire])


def declare(name: str, *, version: int | None = None, never: str | None = None, own: bool = False) -> Any:
    """Declare the decorated class as the properties of the event type `name` (see `EventType`).

    Raises `ValueError` when the name is taken.
    """

    def register(properties: P) -> P:
        if name in TYPES:
            raise ValueError(f"event type {name!r} is declared twice")
        TYPES[name] = _BY_CLASS[properties] = EventType(name, properties, version, never, own)
        return properties

    return register


class Event(msgspec.Struct, frozen=True):
    """One thing that happened: its own id, its type and its properties.

    `seq` is the number of a durable one in its session, known once it is saved; it is no part of the wire form.
    """

    id: str
    type: str
    properties: Wire
    seq: int | None = None
    _encoded: bytes | None = None

    @property
    def session_id(self) -> str | None:
        """The session that the event belongs to, if any."""
        return getattr(self.properties, "session_id", None)

    def copy(self) -> "Event":
        """Return an independent copy, with the same id."""
        properties = wire.replace(self.properties)
        part = getattr(properties, "part", None)
        if part is not None:
            properties.part = decode_part(part_to_plain(part))  # type: ignore[attr-defined]
        elif not all(isinstance(value, str | int) for value in msgspec.structs.astuple(properties)):
            # Deltas, of which there are thousands, are words alone and shared with nobody by now.
            properties = wire.copy(properties)
        return Event(self.id, self.type, properties, self.seq)

    def number(self, seq: int) -> None:
        """It was saved as the session's event `seq`; called by the store, before anybody else knows the event."""
        msgspec.structs.force_setattr(self, "seq", seq)

    def payload(self) -> bytes:
        """Return its properties as JSON, of a durable one as they were when this was first asked."""
        if self._encoded is not None:
            return self._encoded
        # Only as a dict can a part of an unknown type be encoded.
        is_unknown = isinstance(getattr(self.properties, "part", None), UnknownPart)
        data = wire.encode(self.to_plain()["properties"] if is_unknown else self.properties)
        if TYPES[self.type].version is not None:
            msgspec.structs.force_setattr(self, "_encoded", data)
        return data

    def to_plain(self) -> Plain:
        """Return the event's wire form as a detached dict."""
        plain = wire.to_plain(self.properties)
        part = getattr(self.properties, "part", None)
        if isinstance(part, UnknownPart):
            plain["part"] = part_to_plain(part)
        return {"id": self.id, "type": self.type, "properties": plain}


def make(properties: Wire) -> Event:
    """Return a new event with these properties; their class says of which type."""
    return Event(ids.new("evt"), _BY_CLASS[type(properties)].name, properties)
