"""The end of a server: turns that run may end, for a while; nothing new begins meanwhile."""

import asyncio
import logging
import math
import os
import re
import signal
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from instar.server.errors import reply
from instar.server.instances import Instances

log = logging.getLogger("instar.server")

_CLOSE: Final = 1.5
"""Seconds that closing the runtimes may take; without turns to wait for, the whole end is over within two."""
_READ: Final = ("GET", "HEAD", "OPTIONS")
_NEEDED: Final = re.compile(
    r".*/(reply|reject|abort|interrupt)|/session/[^/]+/permissions/[^/]+|/log|/api/log"
)
"""What a turn that runs may still need of its clients, and what ends it."""


class Ending:
    """When a server ends, and how: told by signals, it stops taking what is new and waits for the turns.

    `grace`: seconds that the turns have; then they are aborted. The first signal begins the end, a second one cuts
    the waiting short, and one that comes while the rest is closed ends the process at once.
    """

    def __init__(self, instances: Instances, grace: float) -> None:
        self._instances = instances
        self._grace = grace
        self._told = asyncio.Event()
        self._hurried = asyncio.Event()
        self._draining = self._closing = False

    def on_signals(self) -> None:
        """Listen for SIGINT, SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        heard = [signal.SIGINT, signal.SIGTERM]
        # What `nohup` started goes on when its terminal closes.
        heard += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
        for number in heard:
            loop.add_signal_handler(number, self.tell)

    def tell(self) -> None:
        """Begin the end, or hurry it."""
        if not self._told.is_set():
            self._told.set()
        elif self._draining:
            self._hurried.set()
        else:
            os._exit(1)

    async def run(self, stop: Callable[[], None]) -> None:
        """Wait to be told to end; then let turns and runtimes end, the event streams after them, and call `stop`."""
        await self._told.wait()
        log.info("shutting down")
        self._instances.feed.ending = True
        if self._grace > 0:
            await self._drain()
        self._closing = True
        try:
            await asyncio.wait_for(self._instances.close(), _CLOSE)
        except TimeoutError:
            log.warning("the runtimes did not close within %s s", _CLOSE)
        self._instances.feed.close()
        stop()

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return `app`, of which nothing new is asked once the end has begun: that is answered with 503."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._told.is_set() or (not self._closing and _may_pass(scope)):
                await app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1012, "reason": "the server is stopping"})
            else:
                await self._refuse(scope, receive, send)

        return guarded

    async def _drain(self) -> None:
        self._draining = True
        self._instances.feed.say(f"the server is stopping: turns that run have {self._grace:g} s to end")
        draining = asyncio.create_task(self._instances.drain(self._grace))
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait([draining, hurried], return_when=asyncio.FIRST_COMPLETED)
        if not draining.done() or not draining.result():
            log.warning("turns that still run are aborted")
        for task in (draining, hurried):
            task.cancel()
        await asyncio.gather(draining, hurried, return_exceptions=True)
        self._draining = False

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = "the server is stopping and takes nothing new; ask again when it is back"
        if scope["path"].startswith("/api/"):
            answer = reply({"_tag": "ServiceUnavailableError", "message": text, "service": "instar"}, 503)
        else:
            answer = reply({"name": "ServiceUnavailableError", "data": {"message": text}}, 503)
        answer.headers["Retry-After"] = str(max(1, math.ceil(self._grace)))
        await answer(scope, receive, send)


def _may_pass(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    return scope["method"] in _READ or _NEEDED.fullmatch(scope["path"]) is not None
