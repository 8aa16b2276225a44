"""The routes of events: the streams of them, and ``/sync``, what is stored of them.

opencode's servers use ``/sync`` to move a session from one to another. A session has one server here, so nothing is
taken over; what is stored can be read.
"""

from collections.abc import AsyncIterator, Collection
from typing import Final, cast

from starlette.responses import Response, StreamingResponse

from instar import wire
from instar.api.instance import (
    DirectoryEvents,
    HistoryEvent,
    Number,
    OwnEvent,
    OwnEvents,
    ReplayBody,
    ResumedEvents,
    StealBody,
)
from instar.api.operation import operation
from instar.event import OfSession
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.instances import Instances
from instar.server.stream import EventStream, Following, Form, of_all, of_directory, of_instar, wanted
from instar.store import Stored
from instar.store.store import Store

STREAM: Final = "text/event-stream"
_PAGE: Final = 500


class EventRoutes:
    """What happens, as server-sent events.

    Each stream begins with ``server.connected``; ``server.heartbeat`` comes every 10 seconds.
    """

    @operation("GET", "/event", "event.subscribe", media=STREAM)
    async def of_directory(self, call: Call, runtime: Runtime, query: DirectoryEvents) -> Response:
        """Follow a directory's events."""
        return _follow(runtime, call, query, of_directory)

    @operation("GET", "/global/event", "global.event", media=STREAM, scoped=False)
    async def of_all(self, call: Call, query: ResumedEvents) -> Response:
        """Follow the events of all directories; a durable event comes a second time in the form of its row."""
        return follow_all(call, query, of_all)

    @operation("GET", "/instar/event", "instar.event", media=STREAM, scoped=False, events=OwnEvent)
    async def own(self, call: Call, query: OwnEvents) -> Response:
        """Follow all events, those of instar's own types too; of one directory, if it is named."""
        if call.directory is None:
            return follow_all(call, query, of_instar, own=True)
        return _follow(await call.runtime(), call, query, of_instar, own=True)


def _follow(
    runtime: Runtime, call: Call, query: ResumedEvents, form: Form, *, own: bool = False
) -> EventStream:
    runtime.watch()
    directory = str(runtime.instance.directory)
    following = Following(
        wanted(directory, own=own),
        form,
        lambda last: stored_after(runtime.instance.store, last, directory),
        _last(call, query),
        ends=not own,
        breaks=not own,
    )
    return EventStream(call.instances.feed, following)


def follow_all(
    call: Call, query: ResumedEvents, form: Form, *, own: bool = False, but: Collection[str] = ()
) -> EventStream:
    """Return a stream of the events of all directories, without the types `but`."""
    call.instances.feed.watch(call.instances.opened())
    following = Following(
        wanted(None, own=own, but=but),
        form,
        lambda last: _of_any(call.instances, last),
        _last(call, query),
        breaks=not own,
    )
    return EventStream(call.instances.feed, following)


async def _of_any(instances: Instances, last: str | int) -> AsyncIterator[Stored]:
    """All instances share one database: any of them can read it."""
    runtime = await instances.get(None)
    async for stored in stored_after(runtime.instance.store, last, None):
        yield stored


async def stored_after(store: Store, last: str | int, directory: str | None) -> AsyncIterator[Stored]:
    """Yield the durable events after an event's id or place, oldest first; of one directory, if it is named."""
    while page := await store.events_after(last, directory, _PAGE):
        for stored in page:
            yield stored
        last = page[-1].place


def _last(call: Call, query: ResumedEvents) -> str | None:
    return call.request.headers.get("last-event-id") or query.last_event_id or None


class SyncRoutes:
    """Durable events as rows."""

    @operation("POST", "/sync/start", "sync.start")
    async def start(self, runtime: Runtime) -> bool:
        """See that a directory's sessions are kept up to date: here they always are."""
        return True

    @operation("POST", "/sync/history", "sync.history.list")
    async def history(self, runtime: Runtime, body: dict[str, Number]) -> list[HistoryEvent]:
        """List the durable events of all sessions, of a session that the body names those after its number."""
        rows = _array(runtime.instance.store, body)
        # All that was ever stored: sent as it is read, never held as a whole.
        return cast("list[HistoryEvent]", StreamingResponse(rows, media_type="application/json"))

    @operation("POST", "/sync/replay", "sync.replay")
    async def replay(self, call: Call, body: ReplayBody) -> OfSession:
        """Refuse to carry out another server's events."""
        await call.instances.get(body.directory)
        raise _not_here()

    @operation("POST", "/sync/steal", "sync.steal")
    async def steal(self, runtime: Runtime, body: StealBody) -> OfSession:
        """Refuse to take a session over from another server."""
        raise _not_here()


async def _array(store: Store, known: dict[str, int]) -> AsyncIterator[bytes]:
    before = b"["
    async for stored in stored_after(store, 0, None):
        if stored.seq is not None and stored.seq > known.get(stored.session_id, -1):
            yield before + _row(stored)
            before = b","
    yield b"[]" if before == b"[" else b"]"


def _row(stored: Stored) -> bytes:
    head = {
        "id": stored.event_id,
        "aggregate_id": stored.session_id,
        "seq": stored.seq,
        "type": f"{stored.type}.{stored.version}",
    }
    return b'%b,"data":%b}' % (wire.encode(head)[:-1], stored.data.encode())


def _not_here() -> Formed:
    """Return opencode's answer of a server without another one to sync with; its document has no text for it."""
    return Formed(400, {"_tag": "BadRequest"})
