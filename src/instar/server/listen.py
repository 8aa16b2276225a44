"""Listening: binds, announces the address, serves, and ends in order when told to."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator

import msgspec
import uvicorn

from instar.secret import Secret
from instar.server.app import Api, application
from instar.server.guard import Guard
from instar.server.instances import Instances

log = logging.getLogger("instar.server")

_CLOSE = 1.5
"""Seconds that closing the runtimes may take; the whole end is over within two."""


class Address(msgspec.Struct, frozen=True):
    """Where to listen; port 0 takes any that is free."""

    hostname: str
    port: int


class BindError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class Server(uvicorn.Server):
    """uvicorn's server with our own signals: it ends after the runtimes have."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `serve`."""
        yield


async def serve(
    instances: Instances, address: Address, password: Secret | None, announce: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM: then turns are aborted, event streams and runtimes closed.

    `announce` is given the URL once the socket is bound. Raises `BindError`.
    """
    bound = bind(address)
    url = _url(address.hostname, bound.getsockname()[1])
    instances.url = url
    closing = asyncio.Event()
    app = Guard(application(Api(instances, closing)), hostname=address.hostname, password=password)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = Server(config)
    _on_signals(closing)
    ending = asyncio.create_task(_end(closing, instances, server))
    announce(url)
    await server.serve(sockets=[bound])
    await ending


def bind(address: Address) -> socket.socket:
    """Return a listening socket. Raises `BindError`."""
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


def _on_signals(closing: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def received() -> None:
        if closing.is_set():
            os._exit(1)
        closing.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received)


async def _end(closing: asyncio.Event, instances: Instances, server: uvicorn.Server) -> None:
    """Wait to be told to end; close the runtimes first, since answers wait for their turns."""
    await closing.wait()
    log.info("shutting down")
    try:
        await asyncio.wait_for(instances.close(), _CLOSE)
    except TimeoutError:
        log.warning("the runtimes did not close within %s s", _CLOSE)
    server.should_exit = True


def _url(hostname: str, port: int) -> str:
    return f"http://[{hostname}]:{port}" if ":" in hostname else f"http://{hostname}:{port}"
