"""Publish and subscribe within one process.

`publish` is called on the event loop, after what it tells of was saved. Subscribers get every event in
order; text deltas that a slow subscriber has not read yet are merged, all else is kept.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

import msgspec

from instar.event import Event, PartDelta


class Subscription:
    """A queue of events for one reader: iterate over it, or use it as a context manager to unsubscribe.

    With `most`, one event more than so many drops all that wait; `missed` counts those.
    """

    def __init__(self, bus: "Bus", most: int | None = None) -> None:
        self.missed = 0
        self._bus = bus
        self._most = most
        self._queue: deque[Event] = deque()
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event; a delta is joined to an unread one before it of the same field."""
        is_delta = isinstance(event.properties, PartDelta)
        if is_delta and self._queue and (merged := _merge(self._queue[-1], event)) is not None:
            self._queue[-1] = merged
        else:
            if self._most is not None and len(self._queue) >= self._most:
                self.missed += len(self._queue)
                self._queue.clear()
            self._queue.append(event)
        self._ready.set()

    def close(self) -> None:
        """Stop: what is queued can still be read, then the iteration ends."""
        self._bus.forget(self)
        self._closed = True
        self._ready.set()

    async def get(self) -> Event | None:
        """Return the next event, waiting for it; None once closed and drained."""
        while not self._queue:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        return self._queue.popleft()

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._queue)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Event:
        if self._queue:
            return self._queue.popleft()
        event = await self.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Bus:
    """Where events are published; one per instance."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._observers: list[Callable[[Event], None]] = []
        self.through: Callable[[Event], None] = self.deliver
        """What `publish` does: `deliver`, or what passes the event on to other processes before that."""

    def publish(self, event: Event) -> None:
        """Publish an event: by `through`."""
        self.through(event)

    def deliver(self, event: Event) -> None:
        """Hand an event to every observer, then to every subscription."""
        for observer in tuple(self._observers):
            observer(event)
        for subscription in tuple(self._subscriptions):
            subscription.put(event)

    def subscribe(self, most: int | None = None) -> Subscription:
        """Return a new subscription that gets every event from now on, at most `most` of them unread."""
        subscription = Subscription(self, most)
        self._subscriptions.append(subscription)
        return subscription

    def observe(self, observer: Callable[[Event], None]) -> Callable[[], None]:
        """Call `observer` at once for each event; returns a function that stops it. It must not raise."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def forget(self, subscription: Subscription) -> None:
        """Stop feeding a subscription; nothing happens when it was not known."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription."""
        for subscription in tuple(self._subscriptions):
            subscription.close()


def _merge(last: Event, new: Event) -> Event | None:
    first, second = last.properties, new.properties
    if not (isinstance(first, PartDelta) and isinstance(second, PartDelta)):
        return None
    if (first.part_id, first.field) != (second.part_id, second.field):
        return None
    joined = msgspec.structs.replace(second, delta=first.delta + second.delta)
    return Event(new.id, new.type, joined)
