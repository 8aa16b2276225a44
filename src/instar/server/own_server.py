"""The server that plugins use where instar runs none: on loopback, with a password of its own.

A JavaScript plugin's `client` speaks HTTP (docs/guides/plugins-javascript.md); the first request starts the server.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

from instar.plugin import Server
from instar.runtime.plugin_context import header
from instar.wire.secret import Secret

if TYPE_CHECKING:
    from instar.runtime import Runtime

_HOST: Final = "127.0.0.1"


class OwnServer:
    """Listens at once; the server behind the address starts with the first connection. Make it in an event loop."""

    def __init__(self, runtime: "Runtime") -> None:
        # Start-up time: most runtimes have no server of their own.
        import secrets

        self._runtime = runtime
        self._password = secrets.token_urlsafe(24)
        self._socket = socket.create_server((_HOST, 0), backlog=64)
        self._socket.setblocking(False)
        self._serving: asyncio.Task[None] | None = None
        self._server: Any = None
        self.server = Server(f"http://{_HOST}:{self._socket.getsockname()[1]}", header(self._password))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._on_connection)

    async def close(self) -> None:
        """Stop listening, and end open requests."""
        self._loop.remove_reader(self._socket)
        if self._serving is not None:
            # A server that has not started does not look at `should_exit`.
            if self._server is None or not self._server.started:
                self._serving.cancel()
            else:
                self._server.should_exit = True
            await asyncio.wait([self._serving])
        self._socket.close()

    def _on_connection(self) -> None:
        self._loop.remove_reader(self._socket)
        self._serving = asyncio.create_task(self._serve(), name="plugins' own server")

    async def _serve(self) -> None:
        # Start-up time: uvicorn and Starlette are for plugins that ask.
        from instar.server.access import Guard
        from instar.server.app import application
        from instar.server.listen import HttpServer
        from instar.server.within import Only

        app = Guard(application(Only(self._runtime)), hostname=_HOST, password=Secret(self._password))
        self._server = HttpServer(app)
        await self._server.serve(sockets=[self._socket])
