"""The door itself: `Plugins` holds what plugins subscribed to, and `trigger` runs it.

The law (design section 4): plugins run in registration order, each on a copy of the output as the last one
left it. At a gate an exception refuses the action. Anywhere else the failing plugin's half-made changes are
discarded, ``plugin.error`` is published, and the next plugin runs. A plugin fails too when it leaves nonsense
in the output, or does not return in time.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from instar.bus import Bus
from instar.event import PluginError, make
from instar.plugin.forward import forward
from instar.plugin.hookpoint import NOT_POINTS, HookPoint, HookPoints
from instar.plugin.interface import Hooks
from instar.plugin.outcome import detached, fill, json_copy
from instar.plugin.patience import DISPOSE, PATIENCE, in_time
from instar.plugin.tool import Tool
from instar.wire import Plain

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
    """A plugin that runs: its name, what it subscribed to, and the seconds that a call of it may take."""

    name: str
    hooks: Hooks
    patience: float | None = PATIENCE


class Plugins:
    """The plugins of one instance, in registration order."""

    def __init__(self, bus: Bus, points: HookPoints) -> None:
        self._bus = bus
        self._points = points
        self._loaded: list[Loaded] = []
        self._odd: set[tuple[str, str]] = set()

    def add(self, name: str, hooks: Hooks) -> None:
        """Register a plugin's hooks. Names that are no hook point are logged and never called.

        ``timeout`` gives the seconds that one call may take; None says that the plugin keeps limits of its own.
        """
        for key in hooks:
            if key not in NOT_POINTS and self._points.find(key) is None:
                log.warning("unknown hook plugin=%s hook=%s: it is never called", name, key)
        self._loaded.append(Loaded(name, hooks, hooks.get("timeout", PATIENCE)))

    @property
    def names(self) -> list[str]:
        """The plugins' names, in registration order."""
        return [plugin.name for plugin in self._loaded]

    def listens(self, point: HookPoint[Any, Any]) -> bool:
        """Whether anybody subscribed to `point`: ask before preparing an output that costs something."""
        return any(True for _ in self._handlers(point))

    async def trigger(self, point: HookPoint[I, O], given: I, output: O) -> O:
        """Run every plugin's handler of `point`, put what they made into `output` and return it.

        Raises `Refused` when the point is a gate and a handler failed.
        """
        for plugin, handler in self._handlers(point):
            try:
                working = detached(output)
                await in_time(handler(given, working), plugin.patience)
                found = detached(working)
            except Exception as error:
                if point.gate:
                    reason = _reason(error)
                    log.info("refused plugin=%s hook=%s reason=%s", plugin.name, point.name, reason)
                    raise Refused(plugin.name, point.name, reason) from error
                self._report(plugin.name, point.name, error)
            else:
                fill(output, found)
        return output

    def tools(self) -> dict[str, Tool]:
        """Return every plugin's tools as they stand now; a later plugin's tool replaces an earlier one's."""
        found: dict[str, Tool] = {}
        for plugin in self._loaded:
            for name, tool in dict(plugin.hooks.get("tool") or {}).items():
                if isinstance(name, str) and isinstance(tool, Tool):
                    found[name] = tool
                elif (plugin.name, str(name)) not in self._odd:
                    self._odd.add((plugin.name, str(name)))
                    self._report(plugin.name, "tool", TypeError(f"the tool {name!r} is no Tool"))
        return found

    def registered(self, key: str) -> list[tuple[str, Any]]:
        """Return what plugins registered under ``auth`` or ``provider``, each with the plugin's name."""
        return [(one.name, one.hooks[key]) for one in self._loaded if one.hooks.get(key) is not None]

    async def configure(self, config: Plain, accept: Callable[[Plain], None]) -> list[str]:
        """Let every plugin's ``config`` hook change `config` in place; return a sentence for each that failed.

        `accept` raises for a configuration that cannot be used: such a change is discarded.
        """
        problems = []
        for plugin in self._loaded:
            if "config" not in plugin.hooks:
                continue
            try:
                working = json_copy(config)
                await in_time(plugin.hooks["config"](working), plugin.patience)
                found = json_copy(working)
                if found != config:
                    accept(found)
            except Exception as error:
                self._report(plugin.name, "config", error)
                problems.append(f"what the plugin {plugin.name} changed is left out: {_reason(error)}")
            else:
                config.clear()
                config.update(found)
        return problems

    async def forward(self) -> None:
        """Give every bus event to every plugin's ``event`` hook, in order, until the bus closes."""
        hears = [plugin for plugin in self._loaded if "event" in plugin.hooks]
        await forward(self._bus, [(one.name, one.hooks["event"], one.patience) for one in hears])

    async def dispose(self) -> None:
        """Tell every plugin that the instance ends; each gets a few seconds."""
        for plugin in self._loaded:
            if "dispose" in plugin.hooks:
                try:
                    await in_time(plugin.hooks["dispose"](), DISPOSE)
                except Exception as error:
                    self._report(plugin.name, "dispose", error)

    @property
    def hears_events(self) -> bool:
        """Whether a plugin has an ``event`` hook."""
        return any("event" in plugin.hooks for plugin in self._loaded)

    def _handlers(self, point: HookPoint[Any, Any]) -> Iterator[tuple[Loaded, Callable[..., Any]]]:
        for plugin in self._loaded:
            for name in (point.name, *point.aliases):
                handler = plugin.hooks.get(name)
                if handler is not None:
                    yield plugin, handler

    def _report(self, plugin: str, hook: str, error: Exception) -> None:
        message = _reason(error)
        log.error("plugin failed plugin=%s hook=%s error=%s", plugin, hook, message, exc_info=error)
        self._bus.publish(make(PluginError(plugin=plugin, hook=hook, message=message)))


def unsound(hooks: Any) -> str | None:
    """Return what is wrong with what a plugin returned, None when nothing is."""
    if not isinstance(hooks, Mapping):
        return f"it returned a {type(hooks).__name__}, not a mapping of hook points to functions"
    for key, value in hooks.items():
        if key == "timeout":
            sound = value is None or (isinstance(value, int | float) and value > 0)
        elif key in _MAPPINGS:
            sound = isinstance(value, Mapping)
        else:
            sound = value is None or callable(value)
        if not sound:
            return f"{key!r} is {value!r}: {_EXPECTED.get(key, 'expected an async function')}"
    return None


_MAPPINGS: Final = ("tool", "auth", "provider")
_EXPECTED: Final = {
    "timeout": "expected seconds above 0, or None for limits of your own",
    "tool": "expected a mapping of names to Tool",
    "auth": "expected a mapping with `provider`, `loader` and `methods`",
    "provider": "expected a mapping with `id` and `models`",
}


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
