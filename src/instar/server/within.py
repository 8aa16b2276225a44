"""The HTTP interface of one runtime without a server: for its own plugins."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.types import ASGIApp

from instar.client import AsyncClient
from instar.plugin import Invalid
from instar.runtime import Runtime
from instar.server.access import LOGIN
from instar.server.app import application
from instar.server.instances import Instances


def client_of(runtime: Runtime, *, by_person: bool = False) -> AsyncClient:
    """Return a client that asks `runtime` in process; it needs no password and opens no other directory.

    `by_person`: a person asks with it, at a terminal, and may give orders as with a password.
    """
    app = application(Only(runtime))
    directory = str(runtime.instance.directory)
    return AsyncClient("http://instar", transport=Transport(app, by_person=by_person), directory=directory)


class Only(Instances):
    """One runtime that somebody else opened and closes."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.instance.directory, runtime.instance.environment)
        self._runtime = runtime
        self.feed.join(runtime)

    async def get(self, directory: str | None) -> Runtime:
        """Return the runtime. Raises `Invalid` for another directory than its own."""
        if directory and self._resolved(directory) != self._resolved(None):
            raise Invalid(f"only {self._runtime.instance.directory} is open here, not {directory}")
        return self._runtime

    async def of_session(self, session_id: str, directory: str | None) -> Runtime:
        """Return the runtime. Raises `NotFound` for a session that there is none of, as `get`."""
        runtime = await self.get(directory)
        await runtime.session.get(session_id)
        return runtime

    def opened(self) -> list[Runtime]:
        """Return the runtime."""
        return [self._runtime]

    def may_dispose(self) -> None:
        """Raise `Invalid`: who opened the runtime closes it."""
        raise Invalid("this instance is not the server's to dispose of")

    async def dispose(self, directory: str | None) -> None:
        """Raise `Invalid`, as `may_dispose`."""
        self.may_dispose()

    async def dispose_all(self) -> None:
        """Raise `Invalid`, as `may_dispose`."""
        self.may_dispose()


class Transport(httpx2.AsyncBaseTransport):
    """Hands requests to an ASGI application, and its answer back as it comes: httpx2's own waits for the end."""

    def __init__(self, app: ASGIApp, *, by_person: bool = False) -> None:
        self._app = app
        self._by_person = by_person

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request as soon as the application has begun to."""
        exchange = _Exchange(self._app, _scope(request) | {LOGIN: self._by_person}, await request.aread())
        status, headers = await exchange.begin()
        return httpx2.Response(status, headers=headers, stream=exchange)


class _Exchange(httpx2.AsyncByteStream):
    """One request in the application: what it sends is read here."""

    def __init__(self, app: ASGIApp, scope: dict[str, Any], body: bytes) -> None:
        self._sent: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self._task = asyncio.create_task(self._run(app, scope))

    async def begin(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Wait for the answer's beginning. Raises what the application raised before it."""
        message = await self._sent.get()
        if message is None:
            await self._task
            raise httpx2.RemoteProtocolError("the application gave no answer")
        return message["status"], message["headers"]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._sent.get()) is not None:
            if message.get("body"):
                yield message["body"]

    async def aclose(self) -> None:
        """Tell the application that its client has left, and wait for its end."""
        self._left.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self._sent.put_nowait(message)


def _scope(request: httpx2.Request) -> dict[str, Any]:
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.url.path,
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": None,
        "server": ("instar", 80),
    }
