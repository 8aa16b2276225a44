"""Event streams: what the instances of a server publish, from the bus to each client that follows it.

`Feed` takes the events of every instance and hands each to the `Reader` of each client. An `EventStream` is the open
answer to one client: it takes what waits in its reader and sends it as server-sent events, in one of the forms at the
end of this file.

The feed keeps the newest events for a while, so that a client whose connection broke can continue where it was. What
waits for one client is bounded in number and in bytes: a client beyond the bound is cut off, and no other client is
delayed.
"""

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from instar import wire
from instar.event import (
    TYPES,
    Event,
    InstanceReloaded,
    PartDelta,
    ServerConnected,
    ServerHeartbeat,
    ServerInstanceDisposed,
    make,
)
from instar.runtime import Runtime
from instar.server.connection import ABORT, CLOSE, left
from instar.store import Stored
from instar.wire import ids
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.server")

KEPT: Final = 8192
"""Events that are kept for clients that come back."""
KEPT_BYTES: Final = 8 * 1024 * 1024
MOST_WAITING: Final = 10_000
"""Events that may wait for a client that reads slowly; with one more it is cut off."""
MOST_BYTES: Final = 16 * 1024 * 1024
DELIVERY: Final = 0.2
"""Seconds for which the answer to a prompt waits until the events before it are sent to a client."""
READING: Final = 0.15
"""Further seconds for opencode's own program, which must read and print the events before the answer ends it."""
HEARTBEAT: Final = 10.0
"""Seconds between two heartbeats."""
_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 256 * 1024
_ID: Final = late_pattern(r"evt_[0-9A-Za-z]{1,60}")
_REMEMBERED: Final = 1000
"""Ids of stored events that were sent, so that one that is published meanwhile is not sent twice."""

_DISPOSED: Final = make(ServerInstanceDisposed(directory="")).type
_HEARTBEAT: Final = make(ServerHeartbeat()).type
_HEADERS: Final = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class Published(msgspec.Struct, frozen=True, gc=False):
    """An event with where it happened. `payload` is its properties as JSON on one line.

    `seq` and `version` belong to a durable event, `delta` to a piece of text. `own`: opencode's clients do not know
    the type. What a stream says of itself (``server.connected``, ``server.heartbeat``) has no `directory`. An event of
    the server as a whole has the directory ``global`` and no project, as in opencode. `reread`: an instance is said to
    end although it goes on, so that the clients of all directories read its settings again.
    """

    id: str
    type: str
    payload: bytes
    directory: str | None = None
    project_id: str = ""
    session_id: str | None = None
    seq: int | None = None
    version: int = 1
    delta: PartDelta | None = None
    own: bool = False
    reread: bool = False

    @classmethod
    def of(
        cls, event: Event, directory: str | None = None, project_id: str = "", *, reread: bool = False
    ) -> "Published":
        """Return an event as it stands now, published in a directory."""
        properties, declared = event.properties, TYPES[event.type]
        where = (directory, project_id, event.session_id)
        number = (event.seq, declared.version or 1)
        delta = properties if isinstance(properties, PartDelta) else None
        return cls(event.id, event.type, event.payload(), *where, *number, delta, declared.own, reread)

    @classmethod
    def stored(cls, event: Stored) -> "Published":
        """Return an event of the store."""
        declared = TYPES.get(event.type)
        where = (event.directory, event.project_id, event.session_id)
        own = declared is None or declared.own
        data = event.data.encode()
        is_delta = declared is not None and declared.properties is PartDelta
        delta = msgspec.json.decode(data, type=PartDelta) if is_delta else None
        return cls(event.event_id, event.type, data, *where, event.seq, event.version, delta, own)

    @property
    def ends_instance(self) -> bool:
        """True for the last event of a directory's instance."""
        return self.type == _DISPOSED and not self.reread


Wants = Callable[[Published], bool]
Item = Published | bytes
"""What waits for a client: an event, or a comment of the stream as it is sent."""


class Reader:
    """The queue of one client. Unread pieces of one text are joined."""

    def __init__(self, feed: "Feed", wants: Wants, most: tuple[int, int]) -> None:
        self.overflowed = asyncio.Event()
        self.late = False
        """True if an answer gave up waiting for this client, and the client has not caught up since."""
        self._feed = feed
        self._wants = wants
        self._most, self._most_bytes = most
        self._queue: deque[Item] = deque()
        self._joined: list[Published] = []
        self._bytes = 0
        self._ready = asyncio.Event()
        self._closed = False
        self._sent = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._queue)

    def offer(self, event: Published) -> None:
        """Take an event if the client wants it; beyond the bounds all that waits is dropped."""
        if not self._wants(event):
            return
        last = self._queue[-1] if self._queue else None
        if _is_continued(last, event):
            self._joined.append(event)
        else:
            if self._joined:
                self._join()
            self._queue.append(event)
        self._grow(len(event.payload))

    def say(self, comment: bytes) -> None:
        """Take a comment, which no client sees as an event."""
        if self._joined:
            self._join()
        self._queue.append(b": %b\n\n" % comment)
        self._grow(len(comment))

    def beat(self) -> None:
        """Take a heartbeat, if the client has read everything else."""
        if not self._queue:
            self._queue.append(heartbeat())
            self._sent.clear()
            self._ready.set()

    async def take(self) -> list[Item]:
        """Wait until something waits, and return as much as is sent at once; nothing once closed and drained."""
        while not self._queue:
            if self._closed:
                return []
            self._ready.clear()
            # Who takes anew has sent what it took.
            self._sent.set()
            self.late = False
            await self._ready.wait()
        if self._joined:
            self._join()
        taken: list[Item] = []
        size = 0
        while self._queue and len(taken) < _AT_ONCE and size < _BYTES_AT_ONCE:
            item = self._queue.popleft()
            taken.append(item)
            size += len(item) if isinstance(item, bytes) else len(item.payload)
        self._bytes = max(0, self._bytes - size) if self._queue else 0
        return taken

    def holds(self, event_id: str) -> bool:
        """Whether an event waits to be read."""
        return any(isinstance(item, Published) and item.id == event_id for item in self._queue)

    def close(self) -> None:
        """Take nothing more; what waits can still be read."""
        self._feed.forget(self)
        self._closed = True
        self._ready.set()
        self._sent.set()

    async def sent(self) -> None:
        """Wait until all that came has been taken and sent."""
        await self._sent.wait()

    def _grow(self, size: int) -> None:
        self._bytes += size
        if len(self._queue) > self._most or self._bytes > self._most_bytes:
            self._queue.clear()
            self._joined.clear()
            self.close()
            self.overflowed.set()
        else:
            self._sent.clear()
        self._ready.set()

    def _join(self) -> None:
        """Make one event of the pieces that came after the last one, under the id of the newest."""
        first, last = self._queue[-1], self._joined[-1]
        assert isinstance(first, Published)
        pieces = [one.delta.delta for one in (first, *self._joined) if one.delta is not None]
        assert last.delta is not None
        whole = msgspec.structs.replace(last.delta, delta="".join(pieces))
        self._queue[-1] = msgspec.structs.replace(last, delta=whole, payload=wire.encode(whole))
        self._joined.clear()


def _is_continued(last: Item | None, event: Published) -> bool:
    """Whether an event is the next piece of the text that the last one is a piece of."""
    if event.delta is None or not isinstance(last, Published) or last.delta is None:
        return False
    return (last.delta.part_id, last.delta.field) == (event.delta.part_id, event.delta.field)


class Feed:
    """The events of every instance of a server, from the first one on."""

    def __init__(self, *, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._most, self._most_bytes = kept, kept_bytes
        self._kept: deque[Published] = deque()
        self._bytes = 0
        # The id before the first event that is kept: a client that has read it has missed nothing.
        self._before = self.position = ids.new("evt")
        """`position`: the id of the last event: a client that follows from here on comes back with it."""
        self._readers: list[Reader] = []
        self._watched = False
        self.caught_up: Callable[[], Awaitable[None]] | None = None
        """Waits for the events of sessions, where several servers share a database: their relay brings them then."""
        self.ending = False
        """True once the server ends: its clients are to connect again by themselves."""

    @property
    def clients(self) -> int:
        """How many streams are open."""
        return len(self._readers)

    def join(self, runtime: Runtime) -> None:
        """Publish what an instance publishes from now on."""
        directory, project_id = str(runtime.instance.directory), runtime.instance.project.id

        def carry(event: Event) -> None:
            if self.caught_up and event.session_id is not None:
                return  # the relay brings it in its place among those of other workers
            self.publish(Published.of(event, directory, project_id))
            if isinstance(event.properties, InstanceReloaded):
                # opencode's terminal reads agents, commands and settings again only when an instance ends.
                ended = make(ServerInstanceDisposed(directory=directory))
                self.publish(Published.of(ended, directory, project_id, reread=True))

        runtime.instance.bus.observe(carry)
        if self._watched:
            runtime.watch()

    def watch(self, runtimes: Sequence[Runtime]) -> None:
        """Watch the files of all directories, also of those that are opened later: a client listens to all."""
        self._watched = True
        for runtime in runtimes:
            runtime.watch()

    def is_place(self, event: Published) -> bool:
        """Whether a client can come back with an event: at any server, where several share a database."""
        return self.caught_up is None or event.session_id is not None

    def publish(self, event: Published) -> None:
        """Keep an event and hand it to every reader."""
        self._kept.append(event)
        if self.is_place(event):
            self.position = event.id
        self._bytes += len(event.payload)
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            gone = self._kept.popleft()
            self._bytes -= len(gone.payload)
            self._before = gone.id
        for reader in tuple(self._readers):
            reader.offer(event)

    async def delivered(self, agent: str = "") -> None:
        """Wait until the clients have been sent what was published; for one that does not read, `DELIVERY` once.

        ``opencode run --attach`` ends with the answer to its prompt, and prints only the events that it has read by
        then from another connection. `agent` is the User-Agent of the request: that program is given `READING` more.
        """
        if self.caught_up and self._readers:
            await self.caught_up()
        waiting = {asyncio.ensure_future(one.sent()): one for one in self._readers if not one.late}
        if not waiting:
            return
        try:
            await asyncio.wait(waiting, timeout=DELIVERY)
        finally:
            for task, reader in waiting.items():
                reader.late = not task.done()
                task.cancel()
        if agent.startswith("opencode/"):
            await asyncio.sleep(READING)

    def follow(self, wants: Wants, *, most: tuple[int, int] = (MOST_WAITING, MOST_BYTES)) -> Reader:
        """Return a reader of what is published from now on."""
        reader = Reader(self, wants, most)
        self._readers.append(reader)
        return reader

    def since(self, last: str) -> list[Published] | None:
        """Return what was published after an event; None when that is not known any more."""
        kept = list(self._kept)
        if last == self._before:
            return kept
        for index in range(len(kept) - 1, -1, -1):
            if kept[index].id == last:
                return kept[index + 1 :]
        return None

    def say(self, comment: str) -> None:
        """Send every client a comment, which is not an event."""
        for reader in tuple(self._readers):
            reader.say(comment.encode())

    def forget(self, reader: Reader) -> None:
        """Feed a reader no longer; a reader that is not known is passed over."""
        if reader in self._readers:
            self._readers.remove(reader)

    def close(self) -> None:
        """End every stream after what waits for it."""
        for reader in tuple(self._readers):
            reader.close()


def heartbeat() -> Published:
    """Return a heartbeat."""
    return Published(ids.new("evt"), _HEARTBEAT, b"{}")


def wanted(directory: str | None, *, own: bool = False, but: Collection[str] = ()) -> Wants:
    """Return a filter of events: of one directory or of all, with instar's own types or without, without `but`."""
    return lambda one: (
        (directory is None or one.directory == directory)
        and (own or not one.own)
        and one.type not in but
        and not (one.reread and (own or directory is not None))
    )


class OpenStream(Response, ABC):
    """An answer of server-sent events that stays open until `tell` returns, the client leaves, or is too slow.

    `most`: events and bytes that may wait for the client.
    """

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, wants: Wants, most: tuple[int, int] = (MOST_WAITING, MOST_BYTES)) -> None:
        super().__init__(headers=_HEADERS)
        # Starlette sets the length of the empty body; the length of the stream is not known.
        del self.headers["content-length"]
        self._feed = feed
        self._wants = wants
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until something ends the stream (ASGI)."""
        if scope.get("method") == "HEAD":
            # The answer to HEAD must end, and the stream has no end.
            await super().__call__(scope, receive, send)
            return
        reader = self._feed.follow(self._wants, most=self._most)
        self.begin()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _first_of(reader, [self.tell(reader, send), self._beat(reader, send), left(receive)])
        if reader.overflowed.is_set():
            # The connection is closed without the last chunk, so that the client sees that it missed something.
            log.warning("%s cut off: more than %d events or %d bytes waited", self, *self._most)
            scope.get("state", {}).get(ABORT, lambda: None)()
            return
        await self.end(scope, receive, send)

    def __str__(self) -> str:
        """Say what it is, for the log."""
        return "event stream"

    def begin(self) -> None:
        """Note the position from which on nothing is missed, and set headers. Awaits nothing."""

    @abstractmethod
    async def tell(self, reader: Reader, send: Send) -> None:
        """Send events as they come; the stream is over when this returns."""

    async def beat(self, reader: Reader, send: Send) -> None:
        """Send a heartbeat."""
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


Form = Callable[[Published, str], bytes]
"""From an event and the position after it to what is sent."""
Past = Callable[[str | int], AsyncIterator[Stored]]
"""From an event's id to what the store holds of what came later, oldest first."""


class Following(msgspec.Struct, frozen=True):
    """What a client follows: which events, in which form, and from where on.

    `last` is what its ``Last-Event-ID`` says; `past` reads what is stored, for a client that was away for long.
    `ends`: the stream is one instance's, and ends with it, as in opencode. `breaks`: when the server ends, the
    connection is closed without the end of the stream, as opencode's is: its clients come back only then. `most`:
    events and bytes that may wait.
    """

    wants: Wants
    form: Form
    past: Past
    last: str | None = None
    ends: bool = False
    breaks: bool = False
    most: tuple[int, int] = (MOST_WAITING, MOST_BYTES)


class EventStream(OpenStream):
    """An open stream of events: until the client leaves, the feed or the instance ends, or the client is too slow.

    A client that names the last event it read gets what came since: all of it while that is kept, which the
    header ``Instar-Resumed: all`` says, else what is stored (``Instar-Resumed: stored``); a comment says so too.
    """

    def __init__(self, feed: Feed, following: Following) -> None:
        super().__init__(feed, following.wants, following.most)
        self._following = following
        self._position = feed.position
        self._missed: list[Published] | None = []
        self._sent_ids: deque[str] = deque(maxlen=_REMEMBERED)

    def begin(self) -> None:
        """See where the client goes on: what it missed, or None if only the store knows."""
        last = self._following.last
        self._position = self._feed.position
        if last is None:
            return
        kept = self._feed.since(last)
        self.headers["Instar-Resumed"] = "stored" if kept is None else "all"
        if kept is not None or _ID.fullmatch(last):
            self._position = last
        self._missed = None if kept is None else [event for event in kept if self._following.wants(event)]

    async def tell(self, reader: Reader, send: Send) -> None:
        """Send what the client missed and then what comes."""
        await self._chunk(send, [Published.of(make(ServerConnected()))])
        if self._missed is None:
            await self._tell_stored(reader, send)
        elif self._following.last is not None:
            await self._chunk(send, [b": resumed: nothing is missing\n\n", *self._missed])
        while items := await reader.take():
            if not await self._chunk(send, items, reader):
                return

    async def end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the end, or close the connection without one."""
        if self._following.breaks and self._feed.ending and CLOSE in scope.get("state", {}):
            scope["state"][CLOSE]()
            await left(receive)
        else:
            await super().end(scope, receive, send)

    async def _tell_stored(self, reader: Reader, send: Send) -> None:
        """Send what the store knows of what came since, and say that this is not all there was."""
        last = self._following.last
        note = b": resumed: what came since is not all known any more; stored events follow, ask for the rest anew\n\n"
        await self._chunk(send, [note])
        if last is None or not _ID.fullmatch(last):
            return
        async for stored in self._following.past(last):
            event = Published.stored(stored)
            # What was stored since the reader began waits there as well.
            if self._following.wants(event) and not reader.holds(event.id):
                await self._chunk(send, [event])
                self._sent_ids.append(event.id)

    async def _chunk(self, send: Send, items: Sequence[Item], reader: Reader | None = None) -> bool:
        """Send messages at once; False after the last one of an instance that this stream ends with.

        `reader`: what they were taken from, if they are what was published last.
        """
        messages = []
        goes_on = True
        for item in items:
            if isinstance(item, bytes):
                messages.append(item)
            elif item.id not in self._sent_ids:
                if item.directory is not None and self._feed.is_place(item):
                    self._position = item.id
                elif item is items[-1] and reader is not None and not reader.waiting:
                    # A client whose last message is a heartbeat has read all that it wants of what was published.
                    self._position = self._feed.position
                messages.append(self._following.form(item, self._position))
                goes_on = goes_on and not (self._following.ends and item.ends_instance)
        if messages:
            await send({"type": "http.response.body", "body": b"".join(messages), "more_body": True})
        return goes_on


# The forms of an event. A message ends with an ``id:`` line: a client that comes back with that id as
# ``Last-Event-ID`` gets what came since. The data come first: some clients look at how a message begins.


def of_directory(event: Published, position: str) -> bytes:
    """``GET /event``: ``{"id", "type", "properties"}``."""
    return b'data: %b,"properties":%b}\nid: %b\n\n' % (_head(event), event.payload, position.encode())


def of_all(event: Published, position: str) -> bytes:
    """``GET /global/event``: the same in a wrapper that names the directory, and a second one for a durable event.

    Only the second one has the ``id:`` line: a client that was cut off between them has not read the event.
    """
    payload = b'%b,"properties":%b}' % (_head(event), event.payload)
    if event.directory is None:
        return b'data: {"payload":%b}\nid: %b\n\n' % (payload, position.encode())
    # A project's update belongs to no single directory; opencode names it so, too.
    directory = "global" if event.type == "project.updated" else event.directory
    where = b'"directory":%b' % _text(directory)
    if event.project_id:
        where += b',"project":%b' % _text(event.project_id)
    first = b'data: {%b,"payload":%b}\n' % (where, payload)
    if event.seq is None:
        return b"%bid: %b\n\n" % (first, position.encode())
    row = b'{"id":%b,"type":%b,"seq":%d,"aggregateID":%b,"data":%b}' % (
        _text(event.id),
        _text(f"{event.type}.{event.version}"),
        event.seq,
        _text(event.session_id or ""),
        event.payload,
    )
    second = b'{%b,"payload":{"type":"sync","syncEvent":%b,"id":%b}}' % (where, row, _text(event.id))
    return b"%b\ndata: %b\nid: %b\n\n" % (first, second, position.encode())


def of_instar(event: Published, position: str) -> bytes:
    """``GET /instar/event``: ``{"id", "type", "directory", "projectID", "seq", "properties"}``."""
    head = _head(event)
    if event.directory is not None and event.project_id:
        head += b',"directory":%b,"projectID":%b' % (_text(event.directory), _text(event.project_id))
    if event.seq is not None:
        head += b',"seq":%d' % event.seq
    return b'data: %b,"properties":%b}\nid: %b\n\n' % (head, event.payload, position.encode())


def _head(event: Published) -> bytes:
    return msgspec.json.encode({"id": event.id, "type": event.type})[:-1]


def _text(value: str) -> bytes:
    # The name of a folder may hold bytes that are no UTF-8, which msgspec refuses.
    return json.dumps(value).encode()
