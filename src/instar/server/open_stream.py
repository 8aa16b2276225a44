"""Answers of server-sent events, which stay open: what all of them have in common."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from instar.server.call import left
from instar.server.connection import ABORT
from instar.server.feed import MOST_BYTES, MOST_WAITING, Feed, Reader, Wants

log = logging.getLogger("instar.server")

HEARTBEAT: Final = 10.0
"""Seconds between two signs of life."""
_HEADERS: Final = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class OpenStream(Response, ABC):
    """An open stream: until what it sends ends, the client leaves, or is too slow.

    `most`: events and bytes that may wait for the client.
    """

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, wants: Wants, most: tuple[int, int] = (MOST_WAITING, MOST_BYTES)) -> None:
        super().__init__(headers=_HEADERS)
        # The length is not known: Starlette took the empty body's.
        del self.headers["content-length"]
        self._feed = feed
        self._wants = wants
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until something ends the stream (ASGI)."""
        if scope.get("method") == "HEAD":
            # Who asks for the head alone would wait for the end of what has none.
            await super().__call__(scope, receive, send)
            return
        reader = self._feed.follow(self._wants, most=self._most)
        self.begin()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _first_of(reader, [self.tell(reader, send), self._beat(reader, send), left(receive)])
        if reader.overflowed.is_set():
            # Ended without its last chunk, the connection is closed: the client sees that it missed something.
            log.warning("%s cut off: more than %d events or %d bytes waited", self, *self._most)
            scope.get("state", {}).get(ABORT, lambda: None)()
            return
        await self.end(scope, receive, send)

    def __str__(self) -> str:
        """Say what it is, for the log."""
        return "event stream"

    def begin(self) -> None:
        """See where the stream begins, from which on nothing is missed; it may set headers. Awaits nothing."""

    @abstractmethod
    async def tell(self, reader: Reader, send: Send) -> None:
        """Send events as they come; the stream is over when this returns."""

    async def beat(self, reader: Reader, send: Send) -> None:
        """Give a sign of life."""
        reader.beat()

    async def end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the end of the answer."""
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, reader: Reader, send: Send) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.beat(reader, send)


async def _first_of(reader: Reader, work: list[Coroutine[Any, Any, None]]) -> None:
    """Work until the first of it is done or too much waits to be read. Raises what the first of `work` raises."""
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one) for one in (*work, reader.overflowed.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        reader.close()
        for task in tasks:
            task.cancel()
        failures = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(failures[0], Exception) and not reader.overflowed.is_set():
        raise failures[0]
