"""The routes of event streams: one directory's events, all directories', and those of instar's own types too."""

from collections.abc import AsyncIterator, Collection
from typing import Final

from starlette.responses import Response

from instar.api.event import DirectoryEvents, OwnEvent, OwnEvents, ResumedEvents
from instar.plugin.route import operation
from instar.runtime import Runtime
from instar.server import frames
from instar.server.call import Call
from instar.server.feed import wanted
from instar.server.frames import Form
from instar.server.instances import Instances
from instar.server.stream import EventStream, Following
from instar.store import Store, Stored

_STREAM: Final = "text/event-stream"
_UNKNOWN_TO_V2: Final = frozenset(("server.instance.disposed",))
"""What opencode's ``V2Event`` has no schema for."""
_PAGE: Final = 500


class EventRoutes:
    """What happens, as server-sent events.

    Each stream begins with ``server.connected``; ``server.heartbeat`` comes every 10 seconds.
    """

    @operation("GET", "/event", "event.subscribe", media=_STREAM)
    async def of_directory(self, call: Call, query: DirectoryEvents) -> Response:
        """Follow a directory's events."""
        return _of(await call.runtime(), call, query, frames.of_directory)

    @operation("GET", "/global/event", "global.event", media=_STREAM, scoped=False)
    async def of_all(self, call: Call, query: ResumedEvents) -> Response:
        """Follow the events of all directories; a durable event comes a second time in the form of its row."""
        return _of_all(call, query, frames.of_all)

    @operation("GET", "/api/event", "v2.event.subscribe", media=_STREAM, scoped=False)
    async def of_locations(self, call: Call, query: ResumedEvents) -> Response:
        """Follow the events of all directories, in the form of the newer routes."""
        return _of_all(call, query, frames.of_location, but=_UNKNOWN_TO_V2)

    @operation("GET", "/instar/event", "instar.event", media=_STREAM, scoped=False, events=OwnEvent)
    async def own(self, call: Call, query: OwnEvents) -> Response:
        """Follow all events, those of instar's own types too; of one directory, if it is named."""
        if call.directory is None:
            return _of_all(call, query, frames.of_instar, own=True)
        return _of(await call.runtime(), call, query, frames.of_instar, own=True)


def _of(runtime: Runtime, call: Call, query: ResumedEvents, form: Form, *, own: bool = False) -> EventStream:
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


def _of_all(
    call: Call, query: ResumedEvents, form: Form, *, own: bool = False, but: Collection[str] = ()
) -> EventStream:
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
