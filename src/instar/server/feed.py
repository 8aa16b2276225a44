"""What all instances of a server publish, in order, for the clients that follow it (the reference's section 3.2).

The newest of it is kept for a while, so that a client whose connection broke can go on where it was. What a
client has not read yet is bounded in number and in bytes: a client beyond that is cut off, and nobody else
notices.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from instar import ids
from instar.event import (
    TYPES,
    Event,
    InstanceReloaded,
    PartDelta,
    ServerHeartbeat,
    ServerInstanceDisposed,
    encode_properties,
    make,
)
from instar.runtime import Runtime
from instar.store import Stored

KEPT: Final = 8192
"""Events that are kept for clients that come back."""
KEPT_BYTES: Final = 8 * 1024 * 1024
MOST_WAITING: Final = 10_000
"""Events that may wait for a client that reads slowly; one more and it is cut off."""
MOST_BYTES: Final = 16 * 1024 * 1024
DELIVERY: Final = 0.2
"""Seconds that an answer waits until the events before it are sent; then it waits for that client no longer."""
READING: Final = 0.15
"""Seconds more for opencode's own program: what is sent to it has to be read and printed before the answer ends it."""
_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 256 * 1024

_DISPOSED: Final = make(ServerInstanceDisposed(directory="")).type
_HEARTBEAT: Final = make(ServerHeartbeat()).type


class Published(msgspec.Struct, frozen=True, gc=False):
    """An event with where it happened. `payload` is its properties as JSON on one line.

    `seq` and `version` are those of a durable event, `delta` the properties of a piece of text. What a stream
    says of itself (``server.connected``, ``server.heartbeat``) happened nowhere: `directory` is None. What happened
    to the server as a whole has the directory ``global`` and no project, as in opencode. `reread`: it says that an
    instance ended which goes on, so that clients of all directories ask anew for what they know of it.
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
    reread: bool = False

    @classmethod
    def of(cls, event: Event, directory: str | None = None, project_id: str = "") -> "Published":
        """Return an event as it stands now, published in a directory."""
        properties = event.properties
        return cls(
            event.id,
            event.type,
            event.payload(),
            directory,
            project_id,
            event.session_id,
            event.seq,
            event.declared.version or 1,
            properties if isinstance(properties, PartDelta) else None,
        )

    @classmethod
    def stored(cls, event: Stored) -> "Published":
        """Return an event that lies in the store."""
        data = event.data.encode()
        where = (event.directory, event.project_id, event.session_id)
        return cls(event.event_id, event.type, data, *where, event.seq, event.version)

    @property
    def own(self) -> bool:
        """Whether opencode's clients have never heard of such an event."""
        declared = TYPES.get(self.type)
        return declared is None or declared.own

    @property
    def ends_instance(self) -> bool:
        """Whether it is the last event of a directory's instance."""
        return self.type == _DISPOSED and not self.reread


Wants = Callable[[Published], bool]
Item = Published | bytes
"""What waits for a client: an event, or a comment of the stream as it is sent."""


class Reader:
    """What waits for one client, in order. Pieces of a text that it has not read yet are joined."""

    def __init__(self, feed: "Feed", wants: Wants, most: tuple[int, int]) -> None:
        self.overflowed = asyncio.Event()
        self._feed = feed
        self._wants = wants
        self._most, self._most_bytes = most
        self._queue: deque[Item] = deque()
        self._joined: list[Published] = []
        self._bytes = 0
        self._ready = asyncio.Event()
        self._closed = False
        self._sent = asyncio.Event()
        self.late = False

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._queue)

    def offer(self, published: Published) -> None:
        """Take an event if the client wants it; beyond the bounds all that waits is let go of."""
        if self._wants(published):
            last = self._queue[-1] if self._queue else None
            if last is not None and _joins(last, published):
                self._joined.append(published)
            else:
                self._join()
                self._queue.append(published)
            self._grow(len(published.payload))

    def say(self, comment: bytes) -> None:
        """Take a comment, which no client sees as an event."""
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
        """Return what waits, as much as is sent at once, waiting for it; nothing once closed and drained."""
        while not self._queue:
            if self._closed:
                return []
            self._ready.clear()
            # Who takes anew has sent what it took.
            self._sent.set()
            self.late = False
            await self._ready.wait()
        self._join()
        taken: list[Item] = []
        size = 0
        while self._queue and len(taken) < _AT_ONCE and size < _BYTES_AT_ONCE:
            taken.append(self._queue.popleft())
            size += _size(taken[-1])
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
        """Wait until all that came has been taken and sent; `late`: it was given up once, and has not caught up."""
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
        if self._joined:
            first, last = self._queue[-1], self._joined[-1]
            assert isinstance(first, Published)
            pieces = [one.delta.delta for one in (first, *self._joined) if one.delta is not None]
            assert last.delta is not None
            whole = msgspec.structs.replace(last.delta, delta="".join(pieces))
            self._queue[-1] = msgspec.structs.replace(last, delta=whole, payload=encode_properties(whole))
            self._joined.clear()


class Feed:
    """The events of every instance of a server, from the first one on."""

    def __init__(self, *, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._most = (kept, kept_bytes)
        self._kept: deque[Published] = deque()
        self._bytes = 0
        # Before the first event that is kept comes this one: who has read it has missed nothing.
        self._before = ids.new("evt")
        self._readers: list[Reader] = []
        self._watched = False
        self.ending = False
        """Whether the server ends: clients that come back by themselves are to do so."""

    @property
    def position(self) -> str:
        """The id of the last event: a client that follows from here on comes back with it."""
        return self._kept[-1].id if self._kept else self._before

    @property
    def clients(self) -> int:
        """How many streams are open."""
        return len(self._readers)

    def join(self, runtime: Runtime) -> None:
        """Carry what an instance publishes from now on."""
        directory, project_id = str(runtime.instance.directory), runtime.instance.project.id

        def carry(event: Event) -> None:
            self.publish(Published.of(event, directory, project_id))
            if isinstance(event.properties, InstanceReloaded):
                # opencode's terminal reads agents, commands and settings anew when an instance ended, and then alone.
                told = Published.of(make(ServerInstanceDisposed(directory=directory)), directory, project_id)
                self.publish(msgspec.structs.replace(told, reread=True))

        runtime.instance.bus.observe(carry)
        if self._watched:
            runtime.watch()

    def watch(self, runtimes: Sequence[Runtime]) -> None:
        """Somebody listens to all directories: their files are watched, and those of instances to come."""
        self._watched = True
        for runtime in runtimes:
            runtime.watch()

    def publish(self, published: Published) -> None:
        """Keep an event and hand it to every reader."""
        self._kept.append(published)
        self._bytes += len(published.payload)
        most, most_bytes = self._most
        while self._kept and (len(self._kept) > most or self._bytes > most_bytes):
            gone = self._kept.popleft()
            self._bytes -= len(gone.payload)
            self._before = gone.id
        for reader in tuple(self._readers):
            reader.offer(published)

    async def delivered(self, agent: str = "") -> None:
        """Wait until the clients have been sent what was published; for one that does not read, `DELIVERY` once.

        ``opencode run --attach`` ends with the answer to its prompt, and prints only the events that it read by then,
        from another connection. `agent` is the User-Agent of who waits for the answer: that program is given `READING`.
        """
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
        if last == self._before:
            return list(self._kept)
        kept = list(self._kept)
        for index in range(len(kept) - 1, -1, -1):
            if kept[index].id == last:
                return kept[index + 1 :]
        return None

    def say(self, comment: str) -> None:
        """Tell every client something that is no event."""
        for reader in tuple(self._readers):
            reader.say(comment.encode())

    def forget(self, reader: Reader) -> None:
        """Feed a reader no longer; nothing happens when it was not known."""
        if reader in self._readers:
            self._readers.remove(reader)

    def close(self) -> None:
        """End every stream after what waits for it."""
        for reader in tuple(self._readers):
            reader.close()


def heartbeat() -> Published:
    """Return a sign of life."""
    return Published(ids.new("evt"), _HEARTBEAT, b"{}")


def _size(item: Item) -> int:
    return len(item) if isinstance(item, bytes) else len(item.payload)


def _joins(last: Item, new: Published) -> bool:
    first, second = getattr(last, "delta", None), new.delta
    if first is None or second is None:
        return False
    return (first.part_id, first.field) == (second.part_id, second.field)


def wanted(directory: str | None, *, own: bool = False, but: Collection[str] = ()) -> Wants:
    """Return what a client wants: of a directory or of all, with instar's `own` types or without, `but` for some."""
    return lambda one: (
        (directory is None or one.directory == directory)
        and (own or not one.own)
        and one.type not in but
        and not (one.reread and (own or directory is not None))
    )
