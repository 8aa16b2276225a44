"""Reading a request: the runtime that it is about, its body, ids and numbers."""

from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from instar import ids, wire
from instar.runtime import Runtime
from instar.server.errors import BadRequest, Kind
from instar.server.instances import Instances

LARGEST_BODY: Final = 20 * 1024 * 1024
"""Bytes of a request's body."""

T = TypeVar("T")


class Finder:
    """Finds the runtime that a request is about."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances

    async def runtime(self, request: Request) -> Runtime:
        """Return the runtime of the request's directory. Raises as `Instances.get`."""
        return await self.instances.get(directory(request))

    async def of_session(self, request: Request) -> tuple[Runtime, str]:
        """Return the runtime in which the path's session lives, and its id. Raises as `Instances.of_session`."""
        session_id = check_id(request.path_params["id"], "ses", "Params")
        return await self.instances.of_session(session_id, directory(request)), session_id


def directory(request: Request) -> str | None:
    """The directory that a request is about: GETs name it in the query, others in a header, URI-encoded."""
    header = request.headers.get("x-opencode-directory")
    return request.query_params.get("directory") or (unquote(header) if header else None)


async def body(request: Request, kind: type[T], *, empty: bool = False) -> T:
    """Read and decode a request's body; with `empty` none is the same as ``{}``. Raises `BadRequest`."""
    data = await _bytes(request)
    try:
        plain = wire.parse(data) if data.strip() or not empty else {}
        if not isinstance(plain, dict):
            raise BadRequest("the body must be a JSON object")
        return wire.decode(plain, kind)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body does not fit: {error}") from None


def check_id(value: Any, prefix: str, kind: Kind = "Payload") -> str:
    """Return an id that begins with `prefix`. Raises `BadRequest`; `kind` says where in the request it stands."""
    if not ids.is_id(value, prefix):
        raise BadRequest(f"expected an id that begins with {prefix}_, found {value!r}", kind)
    return str(value)


def number(request: Request, name: str) -> int | None:
    """Return a number of the query, None where it has none. Raises `BadRequest`."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        value = -1
    if value < 0:
        raise BadRequest(f"{name} must be a number of 0 or more, found {text!r}", "Query")
    return value


async def _bytes(request: Request) -> bytes:
    data = bytearray()
    too_large = BadRequest(f"the body is larger than {LARGEST_BODY} bytes", "Body", 413)
    if int(request.headers.get("content-length") or 0) > LARGEST_BODY:
        raise too_large
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY:
            raise too_large
    return bytes(data)
