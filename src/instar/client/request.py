"""What the client sends and what it makes of an answer, without sending anything itself."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from instar import wire
from instar.api.session import Busy, Invalid, NotFound
from instar.event import TYPES, Event, OfSession, PartUpdated
from instar.message import WithParts, decode_part, decode_with_parts
from instar.wire import Plain


class ApiError(Exception):
    """The server refused or failed: `status`, opencode's `name` for why, and the `ref` under which its log has more."""

    def __init__(self, status: int, name: str, message: str, ref: str | None = None) -> None:
        super().__init__(f"{message} (status {status}, {name}{f', ref {ref}' if ref else ''})")
        self.status = status
        self.name = name
        self.message = message
        self.ref = ref


class Unreachable(Exception):
    """The server cannot be reached; the text says which and why."""


class Request(msgspec.Struct, frozen=True):
    """A request: `path` has ``{}`` for each of `parts`. What is None of `query` is left out."""

    method: str
    path: str
    parts: tuple[str, ...] = ()
    query: Mapping[str, Any] = msgspec.field(default_factory=dict)
    body: Any = None

    def target(self) -> str:
        """Return the path with its parts; one that climbs (``..``) stays a part."""
        return self.path.format(*(_part(part) for part in self.parts))

    def parameters(self, directory: str | None) -> dict[str, str]:
        """Return the query; a GET names the directory there, as opencode's clients do."""
        given = {name: _text(value) for name, value in self.query.items() if value is not None}
        if directory is not None and self.method == "GET":
            given.setdefault("directory", directory)
        return given

    def headers(self, directory: str | None) -> dict[str, str]:
        """Return the headers; requests other than GET name the directory in one."""
        headers = {} if self.body is None else {"content-type": "application/json"}
        if directory is not None and self.method != "GET":
            headers["x-opencode-directory"] = quote(directory, safe="")
        return headers

    def content(self) -> bytes | None:
        """Return the body as JSON, None without one."""
        return None if self.body is None else wire.encode(self.body)


_SPECIAL: Final[dict[Any, Any]] = {
    WithParts: decode_with_parts,
    list[WithParts]: lambda found: [decode_with_parts(one) for one in found],
}
"""Types whose form msgspec alone does not know."""


def decoded(data: bytes, kind: Any) -> Any:
    """Return an answer's body as `kind`. Raises `ApiError` when it has another form."""
    try:
        found = wire.parse(data)
        special = _SPECIAL.get(kind)
        return special(found) if special is not None else wire.decode(found, kind)
    except msgspec.DecodeError as error:
        raise ApiError(200, "MalformedAnswer", f"the server's answer does not fit: {error}") from None


def refused(status: int, data: bytes) -> Exception:
    """Return what to raise for an error answer: `NotFound`, `Busy`, `Invalid`, else `ApiError`."""
    name, message, found = _told(status, data)
    if status == 404:
        return NotFound(message)
    if status == 409 and isinstance(found.get("sessionID"), str):
        return Told(found["sessionID"], message)
    if status == 400:
        return Invalid(message)
    inner = found.get("data")
    ref = inner.get("ref") if isinstance(inner, dict) else None
    return ApiError(status, name, message, ref if isinstance(ref, str) else None)


class Told(Busy):
    """A session is busy, in the server's own words."""

    def __init__(self, session_id: str, message: str) -> None:
        super().__init__(session_id, "")
        self.args = (message,)


def event(data: bytes) -> Event | None:
    """Return the event of one server-sent message, None for one of a type that this client does not know."""
    try:
        found = wire.parse(data)
        if isinstance(found, dict) and isinstance(found.get("payload"), dict):
            found = found["payload"]
        return decode_event(found)
    except (msgspec.DecodeError, AttributeError):
        return None


def _told(status: int, data: bytes) -> tuple[str, str, Plain]:
    """An error answer's name and message, in whichever of the two forms it has."""
    try:
        found = wire.parse(data)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        return "Unknown", data[:500].decode("utf-8", "replace") or f"status {status}", {}
    inner = found.get("data")
    message = inner.get("message") if isinstance(inner, dict) else found.get("message")
    name = found.get("name") or found.get("_tag") or "Unknown"
    return str(name), str(message or name), found


def _part(part: str) -> str:
    """One part of a path: what would be another path is encoded."""
    encoded = quote(part, safe="")
    return encoded.replace(".", "%2E") if encoded.strip(".") == "" else encoded


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def decode_event(data: Plain) -> Event:
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
