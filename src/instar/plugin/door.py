"""The door itself: `Plugins` holds what plugins subscribed to, and `trigger` runs it.

The law (design section 4): plugins run in registration order on the same output. At a gate an exception
refuses the action. Anywhere else the failing plugin's half-made changes to the output are discarded,
``plugin.error`` is published, and the next plugin runs.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from instar.bus import Bus
from instar.event import Event, PluginError, make
from instar.plugin.hookpoint import NOT_POINTS, HookPoint, HookPoints
from instar.plugin.interface import Hooks
from instar.plugin.tool import Tool

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

log = logging.getLogger("instar.plugin")


class Refused(Exception):
    """A plugin refused an action at a gate; the text is its reason."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(reason)
        self.plugin = plugin
        self.hook = hook


class Loaded(msgspec.Struct, frozen=True):
    """A plugin that runs: its name and what it subscribed to."""

    name: str
    hooks: Hooks


class Plugins:
    """The plugins of one instance, in registration order."""

    def __init__(self, bus: Bus, points: HookPoints) -> None:
        self._bus = bus
        self._points = points
        self._loaded: list[Loaded] = []

    def add(self, name: str, hooks: Hooks) -> None:
        """Register a plugin's hooks. Names that are no hook point are logged and never called."""
        for key in hooks:
            if key not in NOT_POINTS and self._points.find(key) is None:
                log.warning("unknown hook plugin=%s hook=%s: it is never called", name, key)
        self._loaded.append(Loaded(name, hooks))

    @property
    def names(self) -> list[str]:
        """The plugins' names, in registration order."""
        return [plugin.name for plugin in self._loaded]

    def listens(self, point: HookPoint[Any, Any]) -> bool:
        """Whether anybody subscribed to `point`: ask before preparing an output that costs something."""
        return any(True for _ in self._handlers(point))

    async def trigger(self, point: HookPoint[I, O], given: I, output: O) -> O:
        """Run every plugin's handler of `point` on `output` and return it.

        Raises `Refused` when the point is a gate and a handler raised.
        """
        for name, handler in self._handlers(point):
            backup = None if point.gate else copy.deepcopy(output)
            try:
                await handler(given, output)
            except Exception as error:
                reason = str(error) or type(error).__name__
                if point.gate:
                    log.info("refused plugin=%s hook=%s reason=%s", name, point.name, reason)
                    raise Refused(name, point.name, reason) from error
                _restore(output, backup)
                self._report(name, point.name, error)
        return output

    def tools(self) -> dict[str, Tool]:
        """Return every plugin's tools as they stand now; a later plugin's tool replaces an earlier one's."""
        found: dict[str, Tool] = {}
        for plugin in self._loaded:
            found.update(plugin.hooks.get("tool") or {})
        return found

    async def configure(self, config: Any) -> None:
        """Give the merged configuration to every plugin's ``config`` hook."""
        await self._each("config", config)

    async def forward(self) -> None:
        """Give every bus event to every plugin's ``event`` hook, in order, until the bus closes."""
        with self._bus.subscribe() as subscription:
            async for event in subscription:
                await self._each("event", event)

    async def dispose(self) -> None:
        """Tell every plugin that the instance ends."""
        await self._each("dispose")

    @property
    def hears_events(self) -> bool:
        """Whether a plugin has an ``event`` hook."""
        return any("event" in plugin.hooks for plugin in self._loaded)

    async def _each(self, key: str, *arguments: Any) -> None:
        for plugin in self._loaded:
            handler = plugin.hooks.get(key)
            if handler is None:
                continue
            try:
                await handler(*arguments)
            except Exception as error:
                # A failing observer of plugin.error must not publish the next one for ever.
                own = (
                    bool(arguments)
                    and isinstance(arguments[0], Event)
                    and arguments[0].type == "plugin.error"
                )
                self._report(plugin.name, key, error, publish=not own)

    def _handlers(self, point: HookPoint[Any, Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
        for plugin in self._loaded:
            for name in (point.name, *point.aliases):
                handler = plugin.hooks.get(name)
                if handler is not None:
                    yield plugin.name, handler

    def _report(self, plugin: str, hook: str, error: Exception, *, publish: bool = True) -> None:
        message = str(error) or type(error).__name__
        log.error("plugin failed plugin=%s hook=%s error=%s", plugin, hook, message, exc_info=error)
        if publish:
            self._bus.publish(make(PluginError(plugin=plugin, hook=hook, message=message)))


def _restore(output: Any, backup: Any) -> None:
    for field in msgspec.structs.fields(output):
        setattr(output, field.name, getattr(backup, field.name))
