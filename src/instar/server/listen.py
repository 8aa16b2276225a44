"""Listening: binds, announces the address, serves, and ends in order when told to."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import uvicorn

from instar.secret import Secret
from instar.server.app import application
from instar.server.connection import Connection
from instar.server.ending import Ending
from instar.server.guard import USERS, Guard
from instar.server.instances import Instances
from instar.server.socketfile import BindError, listen_at
from instar.server.sockets import LARGEST
from instar.server.traced import Traced, mark_logs

log = logging.getLogger("instar.server")

__all__ = ["Address", "BindError", "Exposure", "bind", "is_loopback", "serve"]


class Address(msgspec.Struct, frozen=True):
    """Where to listen: at a name or an address, where port 0 takes any that is free; or at a socket's path."""

    hostname: str
    port: int
    path: Path | None = None


class Exposure(msgspec.Struct, frozen=True):
    """Who may talk to the server, and how it ends.

    `password` None lets everybody in; `user` may log in beside those who always may (`instar.server.guard.USERS`);
    `origins` are those of other sites whose pages may ask; `grace` is how many seconds turns have when the server is
    told to end.
    """

    password: Secret | None
    origins: frozenset[str] = frozenset()
    grace: float = 0.0
    user: str = USERS[0]


class Server(uvicorn.Server):
    """uvicorn's server with our own signals: it ends after the runtimes have."""

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
    file = None if address.path is None else listen_at(address.path)
    try:
        bound = bind(address) if file is None else file.socket
        await _serve(instances, bound, _url(address, bound), (address, exposure), announce)
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
    ending = Ending(instances, exposure.grace)
    app = Guard(
        ending.guard(application(instances)),
        hostname=address.hostname,
        password=exposure.password,
        user=exposure.user,
        origins=exposure.origins,
        tickets=instances.tickets,
    )
    server = Server(
        uvicorn.Config(
            Traced(app),
            http=Connection,
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
    ending.on_signals()
    ended = asyncio.create_task(ending.run(lambda: setattr(server, "should_exit", True)))
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
        found = socket.getaddrinfo(
            address.hostname, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
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
