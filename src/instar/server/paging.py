"""Pages of long lists: cursors that clients hand back as they got them, and the headers that name the next page."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from instar import wire
from instar.message import WithParts
from instar.server.call import Call
from instar.server.errors import Formed

USUAL: Final = 100
"""How many sessions a list has at most, where the query names no limit (as a real opencode 1.18.33 answers)."""


def seal(value: object) -> str:
    """Return a cursor: a value as JSON in base64 that may stand in a URL."""
    return base64.urlsafe_b64encode(wire.encode(value)).decode().rstrip("=")


def unseal(text: str) -> Any:
    """Return what a cursor holds. Raises `ValueError` for a text that is no cursor."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return wire.parse(data)
    except (binascii.Error, msgspec.DecodeError) as error:
        raise ValueError(f"no cursor: {error}") from None


def before(found: Sequence[WithParts], cursor: str) -> list[WithParts]:
    """Return the messages that stand before a page whose first message a cursor names.

    The cursor holds that message's id and time (ms): the message itself may be gone. Raises `Formed` (400, opencode's
    form for it) for a text that is no such cursor.
    """
    try:
        mark = msgspec.convert(unseal(cursor), _Mark)
    except (ValueError, msgspec.ValidationError):
        raise Formed(400, {"_tag": "BadRequest"}) from None
    return [one for one in found if (one.info.time.created, one.info.id) < (mark.time, mark.id)]


def mark_of(message: WithParts) -> str:
    """Return the cursor of the page that begins with a message."""
    return seal({"id": message.info.id, "time": message.info.time.created})


def announce(call: Call, cursor: str | None, *, link: str | None = None) -> None:
    """Name the next page in the answer's headers, if there is one; with `link` also its URL, by that query field."""
    if cursor is None:
        return
    call.headers["x-next-cursor"] = cursor
    if link is None:
        return
    url = call.request.url.remove_query_params(link).include_query_params(**{link: cursor})
    call.headers["link"] = f'<{url}>; rel="next"'
    call.headers["access-control-expose-headers"] = "Link, X-Next-Cursor"


class _Mark(msgspec.Struct):
    """What the cursor of a page of messages holds."""

    id: str = msgspec.field()
    time: float = msgspec.field()

    def __post_init__(self) -> None:
        if not self.id.startswith("msg"):
            raise ValueError("a message's id begins with msg")
