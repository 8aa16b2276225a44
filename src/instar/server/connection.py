"""One connection, with limits of time so that nobody holds it open with a few bytes; and the ids of its requests."""

import asyncio
import logging
import time
from contextvars import ContextVar
from typing import Any, Final

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from instar.wire import ids
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.server")

HEADERS: Final = 15.0
"""Seconds for a request's headers, from when the connection is free for it."""
KEPT: Final = 10.0
"""Seconds that a connection stays open between two requests: longer than clients keep one (httpx: 5 s), for a request
that is sent in the moment in which the server closes it is lost."""
LINGER: Final = 2.0
"""Seconds in which the rest of a body is thrown away that was answered before it was read (413, 401)."""

ABORT: Final = "abort"
"""The key in a scope's state under which a function ends the connection, what was not yet sent with it."""
CLOSE: Final = "close"
"""The key under which one ends it after what was sent."""


class HttpConnection(H11Protocol):
    """uvicorn's connection with limits of time. Bodies that are read have theirs in `instar.server.call`."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ws_protocol_class = web_socket  # type: ignore[assignment]
        self.timeout_keep_alive = KEPT  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self.app_state = {**self.app_state, ABORT: transport.abort, CLOSE: transport.close}
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of one that was answered early."""
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to the protocol of web sockets."""
        self._stop()
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        """See that the time for what is awaited now runs, from when it began to be."""
        awaited = self.conn.their_state
        if awaited is self._awaited or self.transport.get_protocol() is not self:
            return  # nothing new, or a web socket's by now, which has no requests
        self._stop()
        if awaited is h11.IDLE:
            limit = HEADERS
        elif awaited is h11.SEND_BODY and self.cycle and self.cycle.response_complete:
            limit = LINGER
        else:
            return
        if not self.transport.is_closing():
            self._awaited = awaited
            self._timer = self.loop.call_later(limit, self._too_slow)

    def _stop(self) -> None:
        self._awaited = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        log.debug("connection closed: what it sends takes too long")
        self.transport.abort()


def web_socket(**given: Any) -> "asyncio.Protocol":
    """Return uvicorn's protocol of web sockets for one connection. It logs no address: a ticket may stand in it."""
    # Most servers never see a web socket, so the first one pays for the import.
    from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

    protocol = WSProtocol(**given)
    protocol.logger = logging.getLogger("instar.server.wsproto")
    protocol.logger.setLevel(logging.WARNING)
    return protocol


HEADER: Final = "X-Request-ID"
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""The id of the request that is being answered; turns that it begins have it too."""

_PLAUSIBLE: Final = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,127}")


class Traced:
    """Gives each request an id, or takes its own one over if it is plausible, and logs it at DEBUG."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        given = Headers(scope=scope).get(HEADER, "")
        request = given if _PLAUSIBLE.fullmatch(given) else ids.new("req")
        REQUEST.set(request)
        began = time.monotonic()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            method = scope.get("method", "WEBSOCKET")
            spent = (time.monotonic() - began) * 1000
            # The query is left out: it may hold what the person searched for.
            log.debug("request method=%s path=%s status=%d ms=%.0f", method, scope["path"], status, spent)


class Marked(logging.Filter):
    """Adds the request's id to each line that is logged while it is answered, as the record's ``request``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        record.request = REQUEST.get()
        return True


def mark_logs() -> None:
    """See that log lines carry the id of the request that causes them."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(Marked())


async def left(receive: Receive) -> None:
    """Wait until the client has gone away, for a request whose body nobody reads any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
