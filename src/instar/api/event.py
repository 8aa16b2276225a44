"""The words of event streams and of what was stored of them (``/event``, ``/instar/event``, ``/sync``)."""

from typing import Annotated, Any

import msgspec

from instar.wire import Plain, Wire


class ResumedEvents(Wire):
    """From where on a client follows: as the header ``Last-Event-ID``, for clients that cannot set one."""

    last_event_id: str | None = None


class DirectoryEvents(ResumedEvents):
    """Which directory's events are followed, and from where on."""

    directory: str | None = None
    workspace: str | None = None


class OwnEvents(ResumedEvents):
    """Which directory's events are followed, of all where none is named, and from where on."""

    directory: str | None = None


class OwnEvent(Wire):
    """An event of any type, instar's own ones too. `seq` is the number of a durable one in its session."""

    id: str
    type: str
    properties: Plain
    directory: str | None = None
    project_id: str | None = None
    seq: int | None = None


Number = Annotated[int, msgspec.Meta(ge=0)]


class HistoryEvent(Wire):
    """A durable event as it is stored; `type` ends in the version of its form (``message.updated.1``)."""

    id: str
    aggregate_id: str = msgspec.field(name="aggregate_id")
    seq: Number
    type: str
    data: Plain


class ReplayedEvent(Wire):
    """A durable event of another server."""

    id: Annotated[str, msgspec.Meta(pattern="^evt_")]
    aggregate_id: str
    seq: Number
    type: str
    data: dict[str, Any]


class ReplayBody(Wire):
    """Events of another server, to be carried out here."""

    directory: str
    events: Annotated[list[ReplayedEvent], msgspec.Meta(min_length=1)]


class StealBody(Wire):
    """The session that is to be taken over from another server."""

    session_id: Annotated[str, msgspec.Meta(pattern="^ses")]


class OfSession(Wire):
    """The session that it was done to."""

    session_id: str
