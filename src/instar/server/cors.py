"""Pages of other sites that the person named (``--cors``): what a browser must be told before it lets them ask.

Without a name there are no such headers, and a browser keeps the answers from every page. The password is asked
of a named page's requests as of any other's.
"""

import re
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Send

METHODS: Final = "GET, HEAD, PUT, PATCH, POST, DELETE"
EXPOSED: Final = "Link, X-Next-Cursor, X-Request-ID, Instar-Resumed"
_AGE: Final = "600"
"""Seconds for which a browser may remember the answer to a preflight."""
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_NAMES: Final = re.compile(r"[A-Za-z0-9_-]+( ?, ?[A-Za-z0-9_-]+)*")


def origins(given: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers write them. Raises `ValueError` for what is none, ``*`` among it."""
    return frozenset(map(_origin, given))


def _origin(text: str) -> str:
    found = text.strip().lower().removesuffix("/")
    if not _ORIGIN.fullmatch(found):
        raise ValueError(
            f"{text!r} is no origin: write it as https://name or https://name:port, each one by itself"
        )
    return found


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks if a page may ask."""
    return method == "OPTIONS" and "access-control-request-method" in headers


def preflight(origin: str, headers: Headers) -> Response:
    """Return the answer to the preflight of a named origin."""
    allowed = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Max-Age": _AGE,
        "Vary": "Origin, Access-Control-Request-Headers",
    }
    asked = headers.get("access-control-request-headers", "")
    if _NAMES.fullmatch(asked):
        allowed["Access-Control-Allow-Headers"] = asked
    if headers.get("access-control-request-private-network") == "true":
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return Response(status_code=204, headers=allowed)


def shared(origin: str, send: Send) -> Send:
    """Return a `send` whose answers the pages of a named origin may read."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = EXPOSED
            headers.add_vary_header("Origin")
        await send(message)

    return told
