"""One session's durable events as opencode's newer routes stream them: what is kept first, then what comes."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.types import Send

from instar import wire
from instar.api.session_event import SessionDurableEvent
from instar.projection import Projector
from instar.server.feed import Feed, Reader
from instar.server.open_stream import OpenStream
from instar.store import Recorded, Store

_PAGE: Final = 1000


class SessionStream(OpenStream):
    """An open stream, which ends with its session and with the server too."""

    def __init__(self, feed: Feed, store: Store, session_id: str, after: int) -> None:
        super().__init__(feed, lambda one: one.session_id == session_id and one.seq is not None)
        self._store = store
        self._session_id = session_id
        self._after = after

    def __str__(self) -> str:
        """Say what it is, for the log."""
        return f"stream of session={self._session_id}"

    async def tell(self, reader: Reader, send: Send) -> None:
        """Send what is kept, and again whenever something is published, which only says that there is more."""
        projector, seq = Projector(), 0
        while True:
            records = await kept(self._store, self._session_id, seq)
            seq = records[-1].seq if records else seq
            told = [event for event in projector.feed(records) if _seq(event) > self._after]
            if told:
                body = b"".join(b"data: %b\n\n" % wire.encode(event) for event in told)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            items = await reader.take()
            if not items or any(getattr(item, "type", "") == "session.deleted" for item in items):
                return

    async def beat(self, reader: Reader, send: Send) -> None:
        """Send a comment: an event here is only what is kept."""
        await send({"type": "http.response.body", "body": b": heartbeat\n\n", "more_body": True})


async def kept(store: Store, session_id: str, after: int = 0) -> list[Recorded]:
    """Return all durable events of a session with a number above `after`."""
    return [record async for page in _pages(store, session_id, after) for record in page]


async def history(
    store: Store, session_id: str, after: int, limit: int
) -> tuple[list[SessionDurableEvent], bool]:
    """Return at most `limit` events above a number, and whether there are more.

    What an event comes to depends on those before it, so that all are read: some 20 µs for each.
    """
    told = [event for event in Projector().feed(await kept(store, session_id)) if _seq(event) > after]
    return told[:limit], len(told) > limit


async def last_seq(store: Store, session_id: str) -> int:
    """Return the number of a session's last durable event, 0 if there is none: numbers begin at 1 and have no gaps."""
    beyond = 1
    while await store.events_since(session_id, beyond - 1, 1):
        beyond *= 2
    known = beyond // 2
    while beyond - known > 1:
        middle = (known + beyond) // 2
        if await store.events_since(session_id, middle - 1, 1):
            known = middle
        else:
            beyond = middle
    return known


async def _pages(store: Store, session_id: str, after: int) -> AsyncIterator[list[Recorded]]:
    while page := await store.events_since(session_id, after, _PAGE):
        yield page
        after = page[-1].seq


def _seq(event: SessionDurableEvent) -> int:
    return 0 if event.durable is None else event.durable.seq
