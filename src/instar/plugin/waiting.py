"""Names the hook that a turn waits for, once that takes long."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Self

from instar.event import HookWaiting

NAMED_AFTER: Final = 2.0
"""Seconds of a hook that nobody is told about."""


class HookWait:
    """Enter it while a turn waits for a hook; a plugin that calls several things in its hook enters one for each.

    After `NAMED_AFTER` seconds `publish` gets a `HookWaiting`, and once more at the end. `plugin` is the plugin's name,
    `name` that of what runs, `hook` the hook point as its writer knows it.
    """

    __slots__ = ("_publish", "_since", "_telling", "_timer", "_what")

    def __init__(
        self,
        publish: Callable[[HookWaiting], Awaitable[None]],
        session_id: str | None,
        plugin: str,
        name: str,
        hook: str,
    ) -> None:
        self._publish = publish
        self._what = (session_id, plugin, name, hook)
        self._since = 0
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(NAMED_AFTER, self._tell)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._telling is not None:
            await self._telling
            await self.over()

    async def late(self) -> None:
        """Say that it is waited for since `NAMED_AFTER` seconds."""
        self._since = time.time_ns() // 1_000_000 - int(NAMED_AFTER * 1000)
        await self._publish(self._event())

    async def over(self) -> None:
        """Say that it has ended, after `late`."""
        await self._publish(self._event(time.time_ns() // 1_000_000 - self._since))

    def _tell(self) -> None:
        self._telling = asyncio.ensure_future(self.late())

    def _event(self, duration: int | None = None) -> HookWaiting:
        session_id, plugin, name, hook = self._what
        return HookWaiting(
            session_id=session_id, plugin=plugin, name=name, hook=hook, since=self._since, duration=duration
        )
