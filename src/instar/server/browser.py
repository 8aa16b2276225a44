"""The page for browsers at ``/``: its files, how a browser logs in, and how ``instar open`` finds a server.

A login has two halves, both random. The cookie is HttpOnly, so that no script reads it; but a browser sends it to
every port of this machine, and may keep it in a file. So a request counts only with a key beside it, in a header: the
page has it in memory alone, and a page of another origin cannot send it. Both are kept hashed, in memory: a server that
ended, and whatever takes its port, can do nothing with them.
"""

import asyncio
import gzip
import hashlib
import html
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from instar.server.errors import refusal, reply
from instar.wire import Wire
from instar.wire.document import private_folder

KEY: Final = "x-instar-key"
LIFE: Final = 7 * 24 * 3600.0
"""Seconds after its last use until a login ends."""
TICKET_LIFE: Final = 60.0
_LEFT: Final = 20.0
"""Seconds for which the key of a page that was left is good: as long as a reload may take."""
_MOST: Final = 256
_LARGEST: Final = 4096
"""Bytes of a request to log in."""
_FOLDER: Final = Path(__file__).parent / "page"
_MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_page(path: str) -> bool:
    """Whether a path is the page's, whose files hold nothing and need no password."""
    return path == "/" or path.startswith("/page/")


class _Login(msgspec.Struct):
    """A browser that is logged in: from which page and at which Host, until when, and its pages' keys with their ends.

    Behind a proxy the Host may be another than the page's.
    """

    origin: str
    host: str
    until: float
    keys: dict[bytes, float]


class PageLogins:
    """The browsers that are logged in at one server. `now` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[bytes, _Login] = {}

    def begin(self, headers: Headers) -> tuple[str, str]:
        """Return the cookie and the first key of a new login; the oldest login goes where there are too many."""
        now = self._now()
        self._found = {cookie: one for cookie, one in self._found.items() if one.until > now}
        if len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        cookie = secrets.token_urlsafe(32)
        login = self._found[_hash(cookie)] = _Login(
            headers["origin"].lower(), headers["host"].lower(), now + LIFE, {}
        )
        return cookie, self._key(login)

    def admits(self, headers: Headers) -> bool:
        """Whether a request comes with both halves, from the page that logged in."""
        return self._of(headers) is not None

    def another_key(self, headers: Headers) -> str | None:
        """Return a key for one more page of the browser, None if the request is not of one that is logged in."""
        login = self._of(headers)
        return None if login is None else self._key(login)

    def leave(self, headers: Headers) -> None:
        """Let the request's key end soon: its page was closed, or is loaded anew."""
        if login := self._of(headers):
            login.keys[_hash(headers[KEY])] = self._now() + _LEFT

    def end(self, headers: Headers) -> None:
        """Log the request's browser out."""
        if login := self._of(headers):
            self._found = {cookie: one for cookie, one in self._found.items() if one is not login}

    def _key(self, login: _Login) -> str:
        login.keys = {key: until for key, until in login.keys.items() if until > self._now()}
        if len(login.keys) >= _MOST:
            del login.keys[next(iter(login.keys))]
        key = secrets.token_urlsafe(32)
        login.keys[_hash(key)] = self._now() + LIFE
        return key

    def _of(self, headers: Headers) -> _Login | None:
        key, now = _hash(headers.get(KEY, "")), self._now()
        for cookie in _cookies(headers):
            login = self._found.get(_hash(cookie))
            if login and min(login.until, login.keys.get(key, 0.0)) > now and _is_of(login, headers):
                login.until = now + LIFE
                return login
        return None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _cookie_name(host: str) -> str:
    """A browser sends the cookies of one server of a machine to the others too: the port is in the name."""
    return f"instar-{host.rpartition(':')[2]}" if host[-1:].isdigit() else "instar"


def _cookies(headers: Headers) -> Iterator[str]:
    """The values of the cookie: another port's page may have put a second one beside ours."""
    name = _cookie_name(headers.get("host", ""))
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            yield value


def _is_of(login: _Login, headers: Headers) -> bool:
    return (
        headers.get("host", "").lower() == login.host
        and headers.get("origin", login.origin).lower() == login.origin
        and headers.get("sec-fetch-site", "same-origin") == "same-origin"
    )


class Browser:
    """The page's files and its requests to log in, as an ASGI application.

    `accepts` compares a password; None: everybody is let in. `delay` counts a wrong one of an address, and says how
    long its answer waits. `place` says where the password is; `tickets` is the folder of those of ``instar open``.
    """

    def __init__(
        self,
        accepts: Callable[[str], bool] | None,
        delay: Callable[[str], float],
        place: str = "",
        tickets: Path | None = None,
    ) -> None:
        self.logins = PageLogins()
        self.place = place
        self._accepts = accepts
        self._delay = delay
        self._tickets = tickets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        actions = {"login": self._login, "key": self._key, "leave": self._leave, "logout": self._logout}
        path = request.url.path
        action = actions.get(path.removeprefix("/page/"))
        if request.method in ("GET", "HEAD"):
            answer = self._state() if path == "/page/login" else _file(path, request.headers)
        elif request.method == "POST" and action is not None:
            answer = await action(request)
        else:
            answer = refusal(405, "BadRequest", f"{request.method} {path}: it is read with GET")
        answer.headers.update(_HEADERS)
        await answer(scope, receive, send)

    def _state(self) -> Response:
        """Tell the page whether a password is asked for, and where it is."""
        return _kept_nowhere(reply({"needed": self._accepts is not None, "place": self.place}))

    async def _login(self, request: Request) -> Response:
        origin = request.headers.get("origin", "").lower()
        if not origin:
            return refusal(
                403, "ForbiddenError", "only a page logs in here: send the password with each request"
            )
        given = await _body(request)
        if self._accepts is None:
            return refusal(400, "BadRequest", "this server asks nobody for a password")
        ticket = given.get("ticket")
        if ticket is not None:
            good, text = (
                self._tickets is not None and redeem(self._tickets, ticket),
                "the address was used, or is old",
            )
        else:
            good = self._accepts(given.get("password", ""))
            text = f"this is not the password; it is in {self.place}"
        if not good:
            await asyncio.sleep(self._delay((request.scope.get("client") or ("", 0))[0]))
            return refusal(401, "UnauthorizedError", text)
        cookie, key = self.logins.begin(request.headers)
        answer = _kept_nowhere(reply({"key": key}))
        name, secure = _cookie_name(request.headers["host"]), origin.startswith("https:")
        lasts = int(LIFE) if given.get("keep") else None  # else a browser keeps it until it is closed
        answer.set_cookie(name, cookie, lasts, path="/", secure=secure, httponly=True, samesite="strict")
        return answer

    async def _key(self, request: Request) -> Response:
        key = self.logins.another_key(request.headers)
        if key is None:
            return refusal(401, "UnauthorizedError", "this page is not logged in any more")
        return _kept_nowhere(reply({"key": key}))

    async def _leave(self, request: Request) -> Response:
        self.logins.leave(request.headers)
        return Response(status_code=204)

    async def _logout(self, request: Request) -> Response:
        self.logins.end(request.headers)
        answer = Response(status_code=204)
        answer.delete_cookie(
            _cookie_name(request.headers["host"]), path="/", httponly=True, samesite="strict"
        )
        return answer


def _kept_nowhere(answer: Response) -> Response:
    answer.headers["Cache-Control"] = "no-store"
    return answer


async def _body(request: Request) -> dict[str, str]:
    data = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEFT):
            async for chunk in request.stream():
                data += chunk
                if len(data) > _LARGEST:
                    return {}
    try:
        return msgspec.json.decode(bytes(data), type=dict[str, str])
    except msgspec.DecodeError:
        return {}


class _File(NamedTuple):
    data: bytes
    packed: bytes
    media: str
    etag: str


@cache
def _files() -> dict[str, _File]:
    """The page's files by their paths, read once."""
    found = {}
    for path in _FOLDER.rglob("*"):
        if path.suffix in _MEDIA:
            data = path.read_bytes()
            etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            name = f"/page/{path.relative_to(_FOLDER).as_posix()}"
            found[name] = _File(data, gzip.compress(data, mtime=0), _MEDIA[path.suffix], etag)
    return {**found, "/": found["/page/index.html"]}


def _file(path: str, headers: Headers) -> Response:
    file = _files().get(path)
    if file is None:
        return refusal(404, "NotFoundError", f"GET {path}: the page has no such file")
    # A browser asks each time whether it changed: another version of instar may listen here by then.
    about = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if file.etag in headers.get("if-none-match", ""):
        return Response(status_code=304, headers=about)
    if "gzip" not in headers.get("accept-encoding", ""):
        return Response(file.data, media_type=file.media, headers=about)
    return Response(file.packed, media_type=file.media, headers={**about, "Content-Encoding": "gzip"})


def issue(folder: Path) -> str:
    """Return a ticket that logs a browser in once, at any server that has this folder."""
    private_folder(folder)
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > TICKET_LIFE:
            old.unlink(missing_ok=True)
    ticket = secrets.token_urlsafe(32)
    (folder / _hash(ticket).hex()).touch(0o600, exist_ok=False)
    return ticket


def redeem(folder: Path, ticket: str) -> bool:
    """Use a ticket up; false if there is none such, or if it is too old."""
    file = folder / _hash(ticket).hex()
    try:
        age = time.time() - file.stat().st_mtime
        file.unlink()  # only one of two that come at once removes it
    except FileNotFoundError:
        return False
    return age <= TICKET_LIFE


def forward(file: Path, url: str) -> str:
    """Write a page that leads to `url`, for its owner alone; return its address.

    What a browser is started with, every program of the machine can read; what the file holds, only its owner.
    """
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        address = html.escape(url)
        opened.write(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}">'
            f'<title>instar</title><p><a href="{address}">instar</a></p>\n'
        )
    return file.as_uri()


class RunningServer(Wire):
    """A server that runs: its address, the folder for requests that name none, and its process with when that began."""

    url: str
    directory: str
    pid: int
    began: str


@contextmanager
def recorded(folder: Path, url: str, directory: str) -> Iterator[None]:
    """Let ``instar open`` find this process's server in `folder` while this lasts."""
    private_folder(folder)
    path = folder / f"{os.getpid()}.json"
    found = RunningServer(url=url, directory=directory, pid=os.getpid(), began=began(os.getpid()))
    path.write_bytes(msgspec.json.encode(found))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running(folder: Path) -> list[RunningServer]:
    """Return the servers that run, the one that was started last first.

    A server that was killed leaves its record, and what took its port since is not ours: its process tells.
    """
    found = []
    for path in folder.glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):
            one = msgspec.json.decode(path.read_bytes(), type=RunningServer)
            os.kill(one.pid, 0)
            if one.began == began(one.pid):
                found.append((path.stat().st_mtime, one))
    return [one for _, one in sorted(found, key=lambda one: -one[0])]


def began(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return ""
