"""The other end of an event stream without a socket: it reads when it is let, and leaves when it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import ASGIApp
from tests.waiting import until

from instar.event import Event
from instar.server.stream import EventStream, Feed, Following, Published, of_directory, wanted
from instar.store import Stored


async def nothing(last: str | int) -> AsyncIterator[Stored]:
    """A store in which nothing lies."""
    for stored in ():
        yield stored


class Follower:
    """A client: `reads` is set while it reads; `sent` is what the server has sent so far."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = asyncio.Event()
        self.left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.aborted = False
        if reads:
            self.reads.set()

    def follow(self, feed: Feed, **options: Any) -> "asyncio.Future[None]":
        """Open a stream of the directory ``/a``; `options` as those of `Following`."""
        following = Following(**{"wants": wanted("/a"), "form": of_directory, "past": nothing, **options})
        return self.open(EventStream(feed, following))

    def open(self, stream: ASGIApp) -> "asyncio.Future[None]":
        """Open a stream of any kind."""
        scope = {"type": "http", "state": {"abort": self._abort}}
        return asyncio.ensure_future(stream(scope, self._receive, self._send))

    async def opened(self, feed: Feed, **options: Any) -> "asyncio.Future[None]":
        """The same, once the first message was sent."""
        task = self.follow(feed, **options)
        await until(lambda: len(self.sent) > 1)
        return task

    @property
    def text(self) -> str:
        """All that came."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events among it, but for those of the stream itself."""
        found = [json.loads(line[6:]) for line in self.text.split("\n") if line.startswith("data: ")]
        return [one for one in found if not one["type"].startswith("server.")]

    @property
    def ids(self) -> list[str]:
        """What the ``id:`` lines say."""
        return [line[4:] for line in self.text.split("\n") if line.startswith("id: ")]

    @property
    def finished(self) -> bool:
        """Whether the answer had an end."""
        return self.sent[-1].get("more_body") is False

    async def _receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body" and message.get("more_body"):
            await self.reads.wait()

    def _abort(self) -> None:
        self.aborted = True


def publish(feed: Feed, event: Event, directory: str = "/a") -> str:
    """Publish an event in a directory and return its id."""
    feed.publish(Published.of(event, directory, "pro"))
    return event.id
