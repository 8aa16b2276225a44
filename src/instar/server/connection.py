"""One connection: how long it may take over what it sends, so that nobody holds it open with a few bytes."""

import asyncio
import logging
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from instar.server.upgrade import protocol

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


class Connection(H11Protocol):
    """uvicorn's connection with limits of time. Bodies that are read have theirs in `instar.server.call`."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ws_protocol_class = protocol  # type: ignore[assignment]
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
