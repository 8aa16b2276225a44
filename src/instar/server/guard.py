"""Who may talk to the server: the password, the Host and the Origin of every request.

A page of another site can make the person's browser send requests to this machine, also under a name that
it made resolve to 127.0.0.1. So the Host must be one of ours and an Origin must be the Host; there are no
CORS headers. A browser sends no Origin with what a page embeds (an image, a script): its Sec-Fetch-Site tells.
"""

import base64
import binascii
import ipaddress
import secrets
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from instar.secret import Secret
from instar.server.errors import refusal

USERS: Final = ("opencode", "instar")
"""The names that may log in; the password is the same."""

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_EVERY_INTERFACE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


class Guard:
    """Lets a request through to `app`, or answers 401 or 403. `password` None lets everybody in."""

    def __init__(self, app: ASGIApp, *, hostname: str, password: Secret | None) -> None:
        self._app = app
        self._names = frozenset((*_LOCAL, hostname.lower()))
        self._any_address = hostname in _EVERY_INTERFACE
        self._logins = None if password is None else _logins(USERS, password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            answer = refusal(403, "ForbiddenError", f"the host {host!r} is not this server's")
        elif not _same_origin(headers.get("origin"), host) or _is_embedded(headers):
            answer = refusal(403, "ForbiddenError", "requests from other sites are refused")
        elif not self._may_enter(headers.get("authorization", "")):
            answer = refusal(401, "UnauthorizedError", "a name and a password are needed (Basic)")
            answer.headers["WWW-Authenticate"] = 'Basic realm="instar", charset="UTF-8"'
        else:
            await self._app(scope, receive, send)
            return
        await answer(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        name = _name_of(host)
        if name is None:
            return False
        return name in self._names or (self._any_address and _is_address(name))

    def _may_enter(self, authorization: str) -> bool:
        if self._logins is None:
            return True
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = base64.b64decode(encoded.strip(), validate=True) if scheme.lower() == "basic" else b""
        except (binascii.Error, ValueError):
            return False
        # All of them are compared, so that the time tells nothing.
        return sum(secrets.compare_digest(given, login.reveal().encode()) for login in self._logins) > 0


def _logins(users: Iterable[str], password: Secret) -> list[Secret]:
    return [Secret(f"{user}:{password.reveal()}") for user in users]


def _name_of(host: str) -> str | None:
    """The name of a Host header, lower case and without port and brackets; None when it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: str | None, host: str) -> bool:
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_embedded(headers: Headers) -> bool:
    """Whether a page of another site asks on its own; a link that the person followed is the person's."""
    foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
    return foreign and headers.get("sec-fetch-mode") != "navigate"
