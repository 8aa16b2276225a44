"""The messages of sessions as the child knows them: each is sent once, then what differs (issue 11, paragraph 1)."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from instar import ids, wire
from instar.message import WithParts
from instar.wire import Plain

_MOST: Final = 8
"""Sessions whose messages the child keeps."""


class Histories:
    """What one child was sent; a new child knows nothing."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, list[bytes]] = OrderedDict()

    def patch(self, messages: Sequence[WithParts]) -> Plain:
        """Return what the child lacks of `messages`: `session`, `length`, `set` (place and message), `forget`."""
        session = messages[0].info.session_id if messages else ""
        texts = [message.to_json() for message in messages]
        known = self._known.pop(session, [])
        self._known[session] = texts
        forget = [self._known.popitem(last=False)[0] for _ in range(len(self._known) - _MOST)]
        changed = [
            [place, msgspec.Raw(text)]
            for place, text in enumerate(texts)
            if place >= len(known) or known[place] != text
        ]
        return {"session": session, "length": len(texts), "set": changed, "forget": forget}


def restored(found: Plain, messages: Sequence[WithParts]) -> list[Any] | None:
    """Return the messages that a hook left: those it did not touch as they are, others as plain objects.

    None where it left no array.
    """
    if found.get("invalid"):
        return None
    left: list[Any] = found["messages"]
    return [messages[item] if type(item) is int else _whole(item, messages) for item in left]


def _whole(item: Any, messages: Sequence[WithParts]) -> Any:
    """A message that a hook made or changed, with what it left out.

    Published plugins add messages and parts without ids: opencode reads no more of them than what it sends.
    """
    info, parts = (item.get("info"), item.get("parts")) if isinstance(item, dict) else (None, None)
    if not isinstance(info, dict) or not isinstance(parts, list):
        return item
    like = next((one.info for one in reversed(messages) if one.info.role == info.get("role")), None)
    if like is not None and any(name not in info for name in _needed(type(like))):
        shown = wire.to_plain(like)
        info = {**{name: shown[name] for name in _needed(type(like))}, "id": ids.new("msg"), **info}
    own = {"messageID": info.get("id"), "sessionID": info.get("sessionID")}
    return {
        **item,
        "info": info,
        "parts": [
            {"id": ids.new("prt"), **own, **part} if isinstance(part, dict) else part for part in parts
        ],
    }


@cache
def _needed(kind: type) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
