"""Events to plugins: each plugin's ``event`` hook gets every event in order, at its own pace.

No turn waits for a hook, and no plugin waits for another. A hook that raises is named once for each event
type and text; one that does not return in time is ended and named; one that lags too far behind loses what
waits for it, and is told so by a ``plugin.error`` event, as everybody is.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from instar.bus import Bus, Subscription
from instar.event import Event, PluginError, for_plugins, make
from instar.plugin.patience import in_time

log = logging.getLogger("instar.plugin")

MOST_WAITING: Final = 10_000
"""Events that may wait for a plugin."""
_MOST_NAMED: Final = 100
"""Different failures of one plugin that are published; the log has them all."""

Handler = Callable[[Event], Awaitable[None]]


async def forward(
    bus: Bus,
    listeners: Sequence[tuple[str, Handler, float | None]],
    *,
    most_waiting: int = MOST_WAITING,
) -> None:
    """Give every event from now on to each of `listeners` until the bus closes.

    A listener is a plugin, its hook, and the seconds that one call may take (None: as many as it wants).
    """
    ears = [_Ear(bus, name, handler, patience, most_waiting) for name, handler, patience in listeners]
    await asyncio.gather(*(ear.listen() for ear in ears))


class _Ear:
    """One plugin's queue, and what was already said of it."""

    def __init__(self, bus: Bus, plugin: str, handler: Handler, patience: float | None, most: int) -> None:
        self._bus = bus
        self._plugin = plugin
        self._handler = handler
        self._patience = patience
        self._named: set[tuple[str, str]] = set()
        self._subscription: Subscription = bus.subscribe(most)

    async def listen(self) -> None:
        """Hand over events until the subscription ends."""
        missed = 0
        with self._subscription as events:
            async for event in events:
                for heard in for_plugins(event, time.time_ns() // 1_000_000):
                    # What one plugin does to an event, no other plugin and no client sees.
                    await self._call(heard.copy())
                if events.missed > missed:
                    self._report(f"it was too slow: {events.missed - missed} events were left out")
                    missed = events.missed

    async def _call(self, event: Event) -> None:
        try:
            await in_time(self._handler(event), self._patience)
        except Exception as error:
            # A failing observer of plugin.error must not publish the next one for ever.
            own = event.type == "plugin.error"
            self._report(str(error) or type(error).__name__, error, event.type, publish=not own)

    def _report(
        self, text: str, error: BaseException | None = None, kind: str = "", *, publish: bool = True
    ) -> None:
        log.error(
            "plugin failed plugin=%s hook=event event=%s error=%s", self._plugin, kind, text, exc_info=error
        )
        if publish and (kind, text) not in self._named and len(self._named) < _MOST_NAMED:
            self._named.add((kind, text))
            self._bus.publish(make(PluginError(plugin=self._plugin, hook="event", message=text)))
