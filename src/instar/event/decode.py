"""Decoding events that another process published."""

import msgspec

from instar import wire
from instar.event.conversation import OfSession, PartUpdated
from instar.event.kind import TYPES, Event
from instar.message import decode_part
from instar.wire import Plain


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
