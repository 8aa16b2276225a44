"""Server-sent events: a directory's events to one client (the reference's section 3.2)."""

import asyncio
import logging
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from instar.bus import Bus, Subscription
from instar.event import Event, ServerConnected, ServerHeartbeat, encode_properties, make

log = logging.getLogger("instar.server")

HEARTBEAT: Final = 10.0
"""Seconds between two heartbeats."""
MOST_WAITING: Final = 10_000
"""Events that may wait for a client that reads slowly; one more and it is cut off."""
_MOST_AT_ONCE: Final = 256

_HEADERS: Final = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class EventStream(Response):
    """The answer to ``GET /event``: open until the client leaves, the server closes or the client is too slow."""

    media_type = "text/event-stream"

    def __init__(self, bus: Bus, closing: asyncio.Event, *, most_waiting: int = MOST_WAITING) -> None:
        super().__init__(headers=_HEADERS)
        # The length is not known: Starlette took the empty body's.
        del self.headers["content-length"]
        self._bus = bus
        self._closing = closing
        self._most_waiting = most_waiting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until something ends the stream (ASGI)."""
        too_slow = asyncio.Event()
        with self._bus.subscribe() as subscription:
            # Looked at when an event is published: a client that does not read wakes nothing up by itself.
            forget = self._bus.observe(
                lambda _: too_slow.set() if subscription.waiting > self._most_waiting else None
            )
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.create_task(_send_all(subscription, send))
            others = [_beat(subscription), _left(receive), self._closing.wait(), too_slow.wait()]
            tasks: list[asyncio.Task[object]] = [sending, *(asyncio.create_task(other) for other in others)]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                forget()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if too_slow.is_set():
            # Ended without its last chunk, the connection is closed: the client sees that it missed something.
            log.warning("event stream cut off: more than %d events waited to be read", self._most_waiting)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encode(event: Event) -> bytes:
    """Return an event as one server-sent message."""
    head = b'data: {"id":"%b","type":"%b","properties":' % (event.id.encode(), event.type.encode())
    return b"%b%b}\n\n" % (head, encode_properties(event.properties))


async def _send_all(subscription: Subscription, send: Send) -> None:
    chunk = encode(make(ServerConnected()))
    while True:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        event = await subscription.get()
        if event is None:
            return
        messages = [encode(event)]
        while subscription.waiting and len(messages) < _MOST_AT_ONCE:
            more = await subscription.get()
            if more is not None:
                messages.append(encode(more))
        chunk = b"".join(messages)


async def _beat(subscription: Subscription) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT)
        subscription.put(make(ServerHeartbeat()))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
