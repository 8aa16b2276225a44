"""Listening: binds an address or a Unix socket, announces it, serves, and ends in order when told to.

A Unix socket is for its owner alone, in a folder where nobody else can take its place. At the end, turns that run may
end for a while, and nothing new begins.
"""

import asyncio
import contextlib
import errno
import fcntl
import ipaddress
import logging
import math
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from instar.server.access import USERS, Guard
from instar.server.app import application
from instar.server.connection import HttpConnection, Traced, mark_logs
from instar.server.dispatch import LARGEST
from instar.server.errors import refusal, reply
from instar.server.instances import Instances
from instar.wire.pattern import late_pattern
from instar.wire.secret import Secret

log = logging.getLogger("instar.server")

__all__ = ["Address", "BindError", "Exposure", "bind", "is_loopback", "serve"]


class Address(msgspec.Struct, frozen=True):
    """Where to listen: at a name or an address, where port 0 takes any that is free; or at a socket's path.

    `listener` is the number of a socket that listens there already: a worker has it of the process that started it.
    """

    hostname: str
    port: int
    path: Path | None = None
    listener: int | None = None


class Exposure(msgspec.Struct, frozen=True):
    """Who may talk to the server, and how it ends.

    `password` None lets everybody in; `user` may log in beside those who always may (`instar.server.access.USERS`);
    `origins` are those of other sites whose pages may ask; `grace` is how many seconds turns have when the server is
    told to end. `place` says people where the password is; `opened` is the folder of the tickets of ``instar open``.
    `doors` are those of `application`.
    """

    password: Secret | None
    origins: frozenset[str] = frozenset()
    grace: float = 0.0
    user: str = USERS[0]
    place: str = ""
    opened: Path | None = None
    doors: Mapping[str, ASGIApp] = MappingProxyType({})


class HttpServer(uvicorn.Server):
    """uvicorn's server with our own connections and signals: it ends after the runtimes have."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpConnection,
                log_config=None,
                access_log=False,
                proxy_headers=False,
                lifespan="off",
                ws="none",  # it would be imported at once: the connection brings it with the first web socket
                ws_max_size=LARGEST,
                ws_per_message_deflate=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `serve`."""
        yield


async def serve(
    instances: Instances, address: Address, exposure: Exposure, announce: Callable[[str], None]
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP: then turns end or are aborted, runtimes and event streams closed.

    `announce` is given the URL once the socket is bound. Raises `BindError`.
    """
    with listening(address) as (bound, url):
        await _serve(instances, bound, url, (address, exposure), announce)


@contextlib.contextmanager
def listening(address: Address) -> Iterator[tuple[socket.socket, str]]:
    """Listen, and give the socket and its URL. Raises `BindError`."""
    if address.listener is not None:
        bound = socket.socket(fileno=address.listener)
        bound.set_inheritable(False)
        yield bound, _url(address, bound)
        return
    file = None if address.path is None else listen_at(address.path)
    try:
        bound = bind(address) if file is None else file.socket
        yield bound, _url(address, bound)
    finally:
        if file is not None:
            file.remove()


async def _serve(
    instances: Instances,
    bound: socket.socket,
    url: str,
    asked: tuple[Address, Exposure],
    announce: Callable[[str], None],
) -> None:
    address, exposure = asked
    instances.answer_at(url, None if exposure.password is None else exposure.password.reveal())
    mark_logs()
    ending = Shutdown(instances, exposure.grace)
    app = Guard(
        ending.guard(application(instances, exposure.doors)),
        hostname=address.hostname,
        password=exposure.password,
        user=exposure.user,
        origins=exposure.origins,
        tickets=instances.tickets,
        page=True,
        place=exposure.place,
        opened=exposure.opened,
    )
    server = HttpServer(Traced(app))
    ending.on_signals()
    ended = asyncio.create_task(ending.run(lambda: setattr(server, "should_exit", True)))
    await instances.listen()
    announce(url)
    # Beside the first requests: a client that waits for the server must not wait for a plugin.
    standing_by = asyncio.create_task(instances.stand_by())
    await server.serve(sockets=[bound])
    await ended
    await standing_by


def bind(address: Address) -> socket.socket:
    """Return a socket that listens at a name or an address. Raises `BindError`."""
    where = f"{address.hostname}:{address.port}"
    try:
        # Start-up time: of text Python asks the codec of international names, with its tables.
        host = address.hostname.encode() if address.hostname.isascii() else address.hostname
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, target = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindError(f"cannot listen on {where}: {error.strerror}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        hint = "; another program does already, so take another --port (0 is any)" if address.port else ""
        raise BindError(f"cannot listen on {where}: {error.strerror}{hint}") from error
    return bound


def is_loopback(hostname: str) -> bool:
    """Whether only programs of this machine reach what listens at a name or an address."""
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return hostname.lower() == "localhost"


def _url(address: Address, bound: socket.socket) -> str:
    if address.path is not None:
        return f"unix://{address.path}"
    port, name = bound.getsockname()[1], address.hostname
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class BindError(Exception):
    """An address cannot be listened on; the text says why and what to do."""


class SocketFile(msgspec.Struct, frozen=True):
    """A listening socket and its file, which is recognised by device and inode."""

    socket: socket.socket
    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, unless another program has replaced it."""
        with contextlib.suppress(OSError):
            found = self.path.lstat()
            if (found.st_dev, found.st_ino) == (self.device, self.inode):
                self.path.unlink()


def listen_at(path: Path) -> SocketFile:
    """Return a socket that listens at `path`, mode 0600; its folder is made, mode 0700, if it is not there.

    A socket that nobody listens at any more is replaced. Raises `BindError`: when somebody listens there, when
    something else lies there, or when others could put their own socket in its place.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone_in(path.parent):
            _make_way(path)
            return _bound(path)
    except OSError as error:
        raise BindError(f"cannot listen at {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other servers from looking at the same file at the same time. Raises `BindError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        found = os.fstat(descriptor)
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if others or found.st_uid not in (os.geteuid(), 0):
            raise BindError(
                f"cannot listen in {folder}: others may put their own files there; take a folder that is yours alone"
            )
        yield
    finally:
        os.close(descriptor)


def _make_way(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BindError(
            f"cannot listen at {path}: something that is no socket lies there; take another --socket"
        )
    if found.st_uid != os.geteuid():
        raise BindError(f"cannot listen at {path}: the socket there is another user's; take another --socket")
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(str(path))
        except OSError as error:
            if error.errno != errno.ECONNREFUSED:
                raise
            path.unlink()
            return
    raise BindError(f"cannot listen at {path}: another program does already; take another --socket")


def _bound(path: Path) -> SocketFile:
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        # Nobody can connect before it listens.
        path.chmod(0o600)
        bound.listen(2048)
        found = path.lstat()
    except BaseException:
        bound.close()
        raise
    return SocketFile(bound, path, found.st_dev, found.st_ino)


_CLOSE: Final = 1.5
"""Seconds that closing the runtimes may take; without turns to wait for, the whole end is over within two."""
_READ: Final = ("GET", "HEAD", "OPTIONS")
_NEEDED: Final = late_pattern(
    r".*/(reply|reject|abort|interrupt)|/session/[^/]+/permissions/[^/]+|/log|/api/log|/acp"
)
"""What a turn that runs may still need of its clients, and what ends it."""


class Shutdown:
    """Ends a server after a signal: it refuses new requests and waits for the turns.

    `grace`: seconds that the turns have; then they are aborted. The first signal begins the end, a second one cuts
    the waiting short, and one that comes while the rest is closed ends the process at once.
    """

    def __init__(self, instances: Instances, grace: float) -> None:
        self._instances = instances
        self._grace = grace
        self._told = asyncio.Event()
        self._hurried = asyncio.Event()
        self._draining = self._closing = False

    def on_signals(self) -> None:
        """Listen for SIGINT, SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        heard = [signal.SIGINT, signal.SIGTERM]
        # What `nohup` started goes on when its terminal closes.
        heard += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
        for number in heard:
            loop.add_signal_handler(number, self.tell)

    def tell(self) -> None:
        """Begin the end, or hurry it."""
        if not self._told.is_set():
            self._told.set()
        elif self._draining:
            self._hurried.set()
        else:
            os._exit(1)

    async def run(self, stop: Callable[[], None]) -> None:
        """Wait for a signal; then end turns and runtimes, then the event streams, and call `stop`."""
        await self._told.wait()
        log.info("shutting down")
        self._instances.feed.ending = True
        if self._grace > 0:
            await self._drain()
        self._closing = True
        try:
            await asyncio.wait_for(self._instances.close(), _CLOSE)
        except TimeoutError:
            log.warning("the runtimes did not close within %s s", _CLOSE)
        self._instances.feed.close()
        stop()

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return `app`, with requests answered 503 once the end has begun."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._told.is_set() or (not self._closing and _may_pass(scope)):
                await app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1012, "reason": "the server is stopping"})
            else:
                await self._refuse(scope, receive, send)

        return guarded

    async def _drain(self) -> None:
        self._draining = True
        self._instances.feed.say(f"the server is stopping: turns that run have {self._grace:g} s to end")
        draining = asyncio.create_task(self._instances.drain(self._grace))
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait([draining, hurried], return_when=asyncio.FIRST_COMPLETED)
        if not draining.done() or not draining.result():
            log.warning("turns that still run are aborted")
        for task in (draining, hurried):
            task.cancel()
        await asyncio.gather(draining, hurried, return_exceptions=True)
        self._draining = False

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = "the server is stopping and takes nothing new; ask again when it is back"
        if scope["path"].startswith("/api/"):
            answer = reply({"_tag": "ServiceUnavailableError", "message": text, "service": "instar"}, 503)
        else:
            answer = refusal(503, "ServiceUnavailableError", text)
        answer.headers["Retry-After"] = str(max(1, math.ceil(self._grace)))
        await answer(scope, receive, send)


def _may_pass(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    return scope["method"] in _READ or _NEEDED.fullmatch(scope["path"]) is not None
