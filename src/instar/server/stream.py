"""Server-sent events: what a server's instances publish, to one client (the reference's section 3.2)."""

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from instar.event import ServerConnected, make
from instar.server.call import left
from instar.server.connection import CLOSE
from instar.server.feed import MOST_BYTES, MOST_WAITING, Feed, Item, Published, Reader, Wants
from instar.server.frames import Form
from instar.server.open_stream import OpenStream
from instar.store import Stored

Past = Callable[[str | int], AsyncIterator[Stored]]
"""From an event's id to what the store holds of what came later, oldest first."""

_ID: Final = re.compile(r"evt_[0-9A-Za-z]{1,60}")
_TOLD: Final = 1000
"""So many stored events are remembered, so that one that is published meanwhile is not sent twice."""


class Following(msgspec.Struct, frozen=True):
    """What a client follows: which events, in which form, and from where on.

    `last` is what its ``Last-Event-ID`` says; `past` reads what is stored, for a client that was away for long.
    `ends`: the stream is one instance's, and ends with it, as in opencode. `breaks`: where the server ends, the
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
        self._kept: list[Published] | None = []
        self._told: deque[str] = deque(maxlen=_TOLD)

    def begin(self) -> None:
        """See where the client goes on: what it missed, or None if only the store knows."""
        last = self._following.last
        self._position = self._feed.position
        if last is None:
            return
        kept = self._feed.since(last)
        self.headers["Instar-Resumed"] = "stored" if kept is None else "all"
        if kept is None:
            self._position = last if _ID.fullmatch(last) else self._position
            self._kept = None
        else:
            self._position = last
            self._kept = [event for event in kept if self._following.wants(event)]

    async def tell(self, reader: Reader, send: Send) -> None:
        """Send what the client missed and then what comes."""
        await self._chunk(send, [Published.of(make(ServerConnected()))])
        if self._kept is None:
            await self._tell_stored(reader, send)
        elif self._following.last is not None:
            await self._chunk(send, [b": resumed: nothing is missing\n\n", *self._kept])
        while items := await reader.take():
            # Who gets a heartbeat as the last of all has read what it wants of what was published until now.
            reached = None if reader.waiting else self._feed.position
            if not await self._chunk(send, items, reached):
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
                self._told.append(event.id)

    async def _chunk(self, send: Send, items: Sequence[Item], reached: str | None = None) -> bool:
        """Send messages at once; False after the last one of an instance that this stream ends with.

        `reached`: the position of a client that has read them all, if it is known.
        """
        messages = []
        goes_on = True
        for item in items:
            if isinstance(item, bytes):
                messages.append(item)
            elif item.id not in self._told:
                if item.directory is not None:
                    self._position = item.id
                elif item is items[-1] and reached is not None:
                    self._position = reached
                messages.append(self._following.form(item, self._position))
                goes_on = goes_on and not (self._following.ends and item.ends_instance)
        if messages:
            await send({"type": "http.response.body", "body": b"".join(messages), "more_body": True})
        return goes_on
