"""Who may talk to the server: the password, the Host and the Origin of every request.

A page of another site can make the person's browser send requests to this machine, also under a name that
it made resolve to 127.0.0.1. So the Host must be one of ours and an Origin must be the Host, or one that the
person named (`instar.server.cors`). A browser sends no Origin with what a page embeds (an image, a script): its
Sec-Fetch-Site tells.
"""

import base64
import binascii
import ipaddress
import secrets
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from instar.secret import Secret
from instar.server.call import LOGIN
from instar.server.cors import is_preflight, preflight, shared
from instar.server.errors import refusal, reply
from instar.server.ticket import Tickets

USERS: Final = ("opencode", "instar")
"""The names that may log in; the password is the same."""

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_EVERY_INTERFACE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


class Guard:
    """Lets a request through to `app`, or answers 401 or 403.

    `password` None lets everybody in; `user` is a name of the person's own beside `USERS`; `origins` are those of
    other sites whose pages may ask. A password is taken from the header alone: what stands in a URL is kept in
    histories and logs. One of `tickets` opens a terminal's web socket in its place, once.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hostname: str,
        password: Secret | None,
        user: str = USERS[0],
        origins: Collection[str] = (),
        tickets: Tickets | None = None,
    ) -> None:
        self._app = app
        self._tickets = tickets
        self._origins = frozenset(origins)
        self._names = frozenset((*_LOCAL, hostname.lower()))
        self._any_address = hostname in _EVERY_INTERFACE
        self._logins = None if password is None else _logins({*USERS, user}, password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        if origin in self._origins:
            send = shared(origin, send)
        answer = self._refusal(scope, headers, origin)
        if answer is None:
            await self._app({**scope, LOGIN: self._logins is not None}, receive, send)
        elif scope["type"] == "websocket":
            await _refuse_socket(scope, send, answer)
        else:
            await answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, origin: str) -> Response | None:
        """Return what is answered in place of the application; a preflight's answer needs no password."""
        host, named = headers.get("host", ""), origin in self._origins
        if not self._is_ours(host):
            return refusal(403, "ForbiddenError", f"the host {host!r} is not this server's")
        if named and is_preflight(scope.get("method", ""), headers):
            return preflight(origin, headers)
        if not named and (not _same_origin(headers.get("origin"), host) or _is_embedded(scope, headers)):
            return refusal(403, "ForbiddenError", "requests from other sites are refused")
        ticketed = self._tickets is not None and self._tickets.admit(scope)
        if not ticketed and not self._may_enter(headers.get("authorization", "")):
            return _unauthorized(scope["path"])
        return None

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


def _unauthorized(path: str) -> Response:
    text = "a name and a password are needed (Basic)"
    if path.startswith("/api/"):
        answer = reply({"_tag": "UnauthorizedError", "message": text}, 401)
    else:
        answer = refusal(401, "UnauthorizedError", text)
    answer.headers["WWW-Authenticate"] = 'Basic realm="instar", charset="UTF-8"'
    return answer


async def _refuse_socket(scope: Scope, send: Send, answer: Response) -> None:
    """Refuse a web socket before it opens: with the answer, where the server can send one, else with 403."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    start = {"type": "websocket.http.response.start", "status": answer.status_code}
    await send({**start, "headers": answer.raw_headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})


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


def _is_embedded(scope: Scope, headers: Headers) -> bool:
    """Whether a page of another site asks on its own; a link that was followed is the person's, a form is not."""
    foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
    followed = headers.get("sec-fetch-mode") == "navigate" and scope.get("method") in ("GET", "HEAD")
    return foreign and not followed
