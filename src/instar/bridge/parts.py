"""What crosses over as JSON, as the values that hook points are given, and back again."""

from typing import Any

from instar import wire
from instar.message import User, decode_message, decode_part, part_to_plain
from instar.plugin import HookPoint, ids, points
from instar.wire import Plain


def given(point: HookPoint[Any, Any], said: Plain, **more: Any) -> Any:
    """Return the input of a hook point; `more` stands in for what opencode does not say."""
    known = {wire.wire_name(name) for name in point.input.__struct_fields__}
    plain = {**more, **{k: v for k, v in said.items() if k in known}}
    if isinstance(plain.get("agent"), dict):
        plain["agent"] = plain["agent"].get("name", "")
    if isinstance(plain.get("message"), dict):
        message = decode_message(plain.pop("message"))
        made = wire.decode({**plain, "message": wire.to_plain(message)}, point.input)
        made.message = message
        return made
    return wire.decode(plain, point.input)


def output(point: HookPoint[Any, Any], said: Plain) -> Any:
    """Return the output of a hook point as it stands before its handlers."""
    if point is points.CHAT_MESSAGE:
        message = decode_message(said["message"])
        assert isinstance(message, User)
        return points.ChatMessageOutput(message=message, parts=[decode_part(one) for one in said["parts"]])
    if point is points.COMMAND_BEFORE:
        return points.CommandOutput(parts=list(said["parts"]))
    known = {wire.wire_name(name) for name in point.output.__struct_fields__}
    return wire.decode({name: value for name, value in said.items() if name in known}, point.output)


def plain(value: Any) -> Plain:
    """Return an output as JSON, each field that has a value."""
    if isinstance(value, points.ChatMessageOutput):
        return {"message": wire.to_plain(value.message), "parts": [_part(one) for one in value.parts]}
    found: Plain = wire.to_plain(value)
    return found


def difference(before: Plain, after: Plain) -> Plain:
    """Return what changed from `before` to `after`, as the protocol says it."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return {"changed": changed, "removed": [name for name in before if name not in after]}


def named(parts: list[Any], message_id: str, session_id: str) -> list[Any]:
    """Give parts that plugins added what opencode asks of each: an id, its message's and its session's."""
    own = {"messageID": message_id, "sessionID": session_id}
    return [one if one.get("id") else {"id": ids.new("prt"), **own, **one} for one in parts]


def _part(part: Any) -> Plain:
    return part if isinstance(part, dict) else part_to_plain(part)
