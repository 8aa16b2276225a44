"""Who may talk to the server: the password, the Host and the Origin of every request.

A page of another site can make the person's browser send requests to this machine, also under a name that the site
resolves to 127.0.0.1. So the Host must be one of ours, and an Origin must be the Host or one that the person named
with ``--cors``. A browser sends no Origin with what a page embeds (an image, a script); its Sec-Fetch-Site tells.

Without ``--cors`` no CORS headers are sent, and a browser keeps the answers from every other page. The password is
asked of a named page's requests as of any other's.
"""

import asyncio
import base64
import binascii
import ipaddress
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instar.server.browser import KEY, Browser, is_page
from instar.server.errors import refusal, reply
from instar.wire.pattern import late_pattern
from instar.wire.secret import Secret

LOGIN: Final = "instar.login"
"""The key in a request's scope that is true if the request came with the password, or from a page that had it."""
USERS: Final = ("opencode", "instar")
"""The names that may log in; the password is the same."""

_HOST: Final = late_pattern(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]@:/?#\s]+))(?::[0-9]{0,5})?")
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_EVERY_INTERFACE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


LIFE: Final = 60
"""Seconds for which a ticket is good."""
_MOST: Final = 1024
_FREE: Final = 5
"""Wrong passwords of an address within `LIFE` that are answered at once."""
_LONGEST_WAIT: Final = 5.0
_CONNECT: Final = late_pattern(r"(?:/api)?/pty/(pty[^/]*)/connect")


class _Ticket(NamedTuple):
    pty_id: str
    directory: str
    until: float


class Tickets:
    """The tickets of one server that were not used yet. `now` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[str, _Ticket] = {}

    def issue(self, pty_id: str, directory: str) -> str:
        """Return a new ticket for a terminal of a directory's instance; the oldest goes where there are too many."""
        now = self._now()
        self._found = {one: kept for one, kept in self._found.items() if kept.until > now}
        if len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        ticket = secrets.token_urlsafe(32)
        self._found[ticket] = _Ticket(pty_id, directory, now + LIFE)
        return ticket

    def redeem(self, ticket: str, pty_id: str) -> str | None:
        """Use a ticket up; return the directory that it is good for, None where it is not good for the terminal."""
        kept = self._found.pop(ticket, None)
        good = kept is not None and kept.pty_id == pty_id and kept.until > self._now()
        return kept.directory if kept is not None and good else None

    def admit(self, scope: Any) -> bool:
        """Whether a web socket comes with a ticket for the terminal that it asks for; the ticket stays good."""
        asked = _CONNECT.fullmatch(scope["path"]) if scope["type"] == "websocket" else None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0] if asked else ""
        kept = self._found.get(given)
        return asked is not None and kept is not None and kept.pty_id == asked[1] and kept.until > self._now()


class WrongPasswords:
    """How long the answer to a wrong password waits, by the address that it came from. `now` is a clock in seconds.

    A right one is answered at once, so nobody is locked out by others behind the same proxy.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[str, tuple[int, float]] = {}

    def delay(self, address: str) -> float:
        """Count one more, and return the seconds to wait; the address heard of longest ago is forgotten first."""
        now = self._now()
        count, last = self._found.pop(address, (0, now))
        count = count + 1 if now - last < LIFE else 1
        if len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        self._found[address] = count, now
        return 0.0 if count <= _FREE else min(float(count - _FREE), _LONGEST_WAIT)


class Guard:
    """Lets a request through to `app`, or answers 401 or 403.

    `password` None lets everybody in; `user` is a name of the person's own beside `USERS`; `origins` are those of
    other sites whose pages may ask. A password is taken from the header alone: what stands in a URL is kept in
    histories and logs. One of `tickets` opens a terminal's web socket in its place, once. With `page` there is a page
    at ``/``, and a browser that logged in there sends no password any more; `place` says people where the password is,
    `opened` is the folder of the tickets of ``instar open``.
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
        page: bool = False,
        place: str = "",
        opened: Path | None = None,
    ) -> None:
        self._app = app
        self._tickets = tickets
        self._wrong = WrongPasswords()
        self._place = place
        self._origins = frozenset(origins)
        self._names = frozenset((*_LOCAL, hostname.lower()))
        self._any_address = hostname in _EVERY_INTERFACE
        self._logins = None if password is None else _logins({*USERS, user}, password)
        accepts = None if password is None else partial(_same, password)
        self._browser = Browser(accepts, self._wrong.delay, place, opened) if page else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        if origin in self._origins:
            send = shared(origin, send)
        answer = self._refusal(scope, headers, origin)
        if answer is not None and answer.status_code == 401 and "authorization" in headers:
            address = scope.get("client") or ("", 0)
            await asyncio.sleep(self._wrong.delay(address[0]))
        if answer is None and self._browser is not None and self._asks_page(scope):
            await self._browser(scope, receive, send)
        elif answer is None:
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
        known = (self._tickets is not None and self._tickets.admit(scope)) or (
            self._browser is not None and (self._asks_page(scope) or self._browser.logins.admits(headers))
        )
        if not known and not self._may_enter(headers.get("authorization", "")):
            return _unauthorized(scope["path"], self._place, asks=KEY not in headers)
        return None

    def _asks_page(self, scope: Scope) -> bool:
        return self._browser is not None and scope["type"] == "http" and is_page(scope["path"])

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


def _same(password: Secret, given: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogateescape"), password.reveal().encode())


def _unauthorized(path: str, place: str, *, asks: bool) -> Response:
    """`asks`: a browser may ask the person for the password itself; over the page, which does, it must not."""
    text = "a name and a password are needed (Basic)" + (f"; the password is in {place}" if place else "")
    if path.startswith("/api/"):
        answer = reply({"_tag": "UnauthorizedError", "message": text}, 401)
    else:
        answer = refusal(401, "UnauthorizedError", text)
    if asks:
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
    found = _HOST.fullmatch(host.lower())
    return found and (found["address"] or found["name"])


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


METHODS: Final = "GET, HEAD, PUT, PATCH, POST, DELETE"
EXPOSED: Final = "Link, X-Next-Cursor, X-Request-ID, Instar-Resumed, Acp-Connection-Id"
_AGE: Final = "600"
"""Seconds for which a browser may remember the answer to a preflight."""
_ORIGIN: Final = late_pattern(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_NAMES: Final = late_pattern(r"[A-Za-z0-9_-]+( ?, ?[A-Za-z0-9_-]+)*")


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
