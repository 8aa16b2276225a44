"""The cursors of opencode's newer routes: a page names those before and after it by its first and its last entry."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from instar.api.session_v2 import Cursors, Order
from instar.server.errors import Formed
from instar.server.paging import seal, unseal

T = TypeVar("T")

Way = Literal["previous", "next"]
USUAL: Final = 50
"""How many entries a page has, where the query names no limit (as a real opencode 1.18.33 answers)."""


class Place(msgspec.Struct, frozen=True):
    """Where a page begins: `next` to the entry with this key, or the `previous` ones."""

    key: Any
    way: Way


def paged(
    found: Sequence[T], key: Callable[[T], Any], order: Order, place: Place | None, limit: int | None
) -> list[T]:
    """Return a page of entries in an order of their keys; `place` None is the first page."""
    entries = sorted(found, key=key, reverse=order == "desc")
    most = limit or USUAL
    if place is None:
        return entries[:most]
    rises = (place.way == "next") == (order == "asc")
    beyond = [one for one in entries if (key(one) > place.key if rises else key(one) < place.key)]
    return beyond[:most] if place.way == "next" else beyond[-most:]


def around(shown: Sequence[T], cursor: Callable[[T, Way], object]) -> Cursors:
    """Return the cursors of a page; an empty one has none. `cursor` gives what they hold."""
    if not shown:
        return Cursors()
    return Cursors(previous=seal(cursor(shown[0], "previous")), next=seal(cursor(shown[-1], "next")))


def opened(cursor: str, kind: type[T]) -> T:
    """Return what a cursor holds. Raises `Formed` for a text that is no such cursor."""
    try:
        return msgspec.convert(unseal(cursor), kind)
    except (ValueError, msgspec.ValidationError):
        raise refused("Invalid cursor") from None


def refused(why: str) -> Formed:
    """Return the error for a cursor that cannot be used."""
    return Formed(400, {"_tag": "InvalidCursorError", "message": why})
