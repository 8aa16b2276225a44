"""`Plugins` holds what plugins subscribed to, and `trigger` runs it.

Plugins run in registration order, each on a copy of the output as the last one left it. At a gate an exception
refuses the action. Anywhere else the failing plugin's half-made changes are discarded, ``plugin.error`` is published,
and the next plugin runs. A plugin fails too when it leaves in the output what cannot be used, or does not return in
time.

Each plugin's ``event`` hook gets every event in order, at its own pace: no turn waits for a hook, and no plugin waits
for another.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from instar.event import Event, PluginError, make
from instar.event.bus import Bus
from instar.event.renamed import for_plugins
from instar.plugin.interface import Hooks
from instar.plugin.outcome import detached, fill, json_copy, taken
from instar.plugin.points import NOT_POINTS, HookPoint, HookPoints, Refused
from instar.plugin.tool import Tool
from instar.plugin.waiting import NAMED_AFTER, HookWait
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.wire import Plain, Wire

log = logging.getLogger("instar.plugin")

PATIENCE: Final = 60.0
"""Seconds that a plugin's function at load, its ``config`` and its login may take."""
LIMITS: Final = MappingProxyType({"gate": 60.0, "observer": 5.0})
"""Seconds that a handler may take, where neither its plugin nor the settings (``plugin_timeouts``) say otherwise.

At a gate a person may be asked; behind any other hook point, and behind ``event``, a turn or a plugin waits.
"""
DISPOSE: Final = 5.0
"""Seconds that a plugin's ``dispose`` may take."""
GRACE: Final = 0.8
"""Seconds that cancelled code has to end: within one second of an abort nothing of a turn may run."""
_TRIES: Final = 3


class Late(Exception):
    """Code that did not return in time, or that was cancelled from within; the text says which."""


ENDINGS: Final = (SystemExit, KeyboardInterrupt)
"""What code raises that asks for the end of the program."""


class Exited(Exception):
    """Code that raised one of `ENDINGS`: it would end every plugin, and instar."""

    def __init__(self, error: BaseException) -> None:
        what = f"raised {type(error).__name__}"
        if isinstance(error, SystemExit):
            what = f"called sys.exit({'' if error.code is None else repr(error.code)})"
        super().__init__(f"it {what}, which would end instar: that is not done here")


async def kept(function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function, async or not, gives. Raises `Exited`, and what the function raises."""
    try:
        found = function(*args)
        return await found if inspect.isawaitable(found) else found
    except ENDINGS as error:
        raise Exited(error) from error


async def in_time(
    seconds: float | None, function: Callable[..., Any], *args: Any, wait: HookWait | None = None
) -> Any:
    """Return what a function, async or not, gives within `seconds`; None are as many as it wants.

    `wait` names it when it takes long. When the caller is cancelled, the call is cancelled too, and has `GRACE`
    seconds to end. Raises `Late`, `Exited`, and what the function raises.
    """
    if seconds is None:
        async with wait or nullcontext():
            return await _own_limits(kept(function, *args))
    task: asyncio.Task[Any] = asyncio.ensure_future(kept(function, *args))
    try:
        # One timer in turn for both: a hook that is quick pays for nothing else.
        await asyncio.wait([task], timeout=min(seconds, NAMED_AFTER) if wait else seconds)
        if wait and seconds > NAMED_AFTER and not task.done():
            await wait.late()
            try:
                await asyncio.wait([task], timeout=seconds - NAMED_AFTER)
            finally:
                await wait.over()
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not task.done():
        await _end(task)
        raise Late(f"it did not return within {seconds:g} s and was ended")
    if task.cancelled():
        raise Late("it was cancelled from within")
    return task.result()


async def _own_limits(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Late("it was cancelled from within") from None


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel `task`; when it ignores that, close its coroutine, so that the end of the program can go on."""
    task.add_done_callback(_forget)
    task.cancel()
    try:
        await asyncio.wait([task], timeout=GRACE)
    finally:
        if not task.done():
            _close(task)


def _close(task: asyncio.Task[Any]) -> None:
    for _ in range(_TRIES):
        try:
            task.get_coro().close()
            break
        except RuntimeError as error:
            log.warning("a plugin's code goes on: %s", error)
    # It wakes to a coroutine that is closed, and is done.
    task.cancel()


def _forget(task: asyncio.Task[Any]) -> None:
    # Asked for, so that the event loop does not report as forgotten what was already named.
    if not task.cancelled():
        task.exception()


MOST_WAITING: Final = 10_000
"""Events that may wait for a plugin."""
_MOST_NAMED: Final = 100
"""Different failures of one plugin that are published; the log has them all."""

Handler = Callable[[Event], Awaitable[None]]


class EventEar:
    """Gives one plugin's hook every event from now on until the bus closes, and keeps its failures that were published.

    One call may take as many seconds as `patience` gives (None: as many as it wants).
    """

    def __init__(
        self,
        bus: Bus,
        plugin: str,
        handler: Handler,
        patience: Callable[[], float | None],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._bus = bus
        self._plugin = plugin
        self._handler = handler
        self._patience = patience
        self._most = most_waiting
        self._named: set[tuple[str, str]] = set()

    async def listen(self) -> None:
        """Hand over events until the subscription ends."""
        missed = 0
        with self._bus.subscribe(self._most) as events:
            async for event in events:
                for heard in for_plugins(event, time.time_ns() // 1_000_000):
                    # What one plugin does to an event, no other plugin and no client sees.
                    await self._call(heard.copy())
                if events.missed > missed:
                    self._report(f"it was too slow: {events.missed - missed} events were left out")
                    missed = events.missed

    async def _call(self, event: Event) -> None:
        try:
            await in_time(self._patience(), self._handler, event)
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


I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin that runs: its name and its hooks.

    `mark` says from which code it was loaded, with which options (`instar.plugin.load.Mark`); None: it is built in.
    `host` runs it if it is not Python (`instar.plugin.load.PluginHost`).
    """

    name: str
    hooks: Hooks
    mark: Any = None
    host: Any = None


class Plugins:
    """The plugins of one instance, in registration order.

    `limits` gives the seconds that settings set: by hook point, or for every ``gate`` or ``observer``.
    """

    def __init__(
        self, bus: Bus, points: HookPoints, limits: Callable[[], Mapping[str, float]] = dict[str, float]
    ) -> None:
        self._bus = bus
        self._points = points
        self._limits = limits
        self._loaded: list[LoadedPlugin] = []
        self._hearing: dict[int, tuple[LoadedPlugin, asyncio.Task[None]]] = {}
        self._odd: set[tuple[str, str]] = set()
        self._left: list[Any] = []

    def add(self, name: str, hooks: Hooks, mark: Any = None, host: Any = None) -> None:
        """Register a plugin's hooks.

        ``timeout`` gives the seconds that one call may take; None says that the plugin keeps limits of its own.
        """
        self._loaded.append(LoadedPlugin(name, hooks, mark, host))

    def warn(self) -> None:
        """Log the names that plugins subscribed to, or settings limit, and nobody declared: they mean nothing.

        Call it once all are loaded, since a plugin may declare what an earlier one subscribes to.
        """
        for plugin in self._loaded:
            for key in plugin.hooks:
                if key not in NOT_POINTS and self._points.find(key) is None:
                    log.warning("unknown hook plugin=%s hook=%s: it is never called", plugin.name, key)
        for key in self._limits():
            if key not in (*LIMITS, "event") and self._points.find(key) is None:
                log.warning("unknown hook plugin_timeouts.%s: it limits nothing", key)

    @property
    def loaded(self) -> list[LoadedPlugin]:
        """The plugins, in registration order."""
        return list(self._loaded)

    def with_loaded(self, loaded: Iterable[LoadedPlugin] = ()) -> "Plugins":
        """Return a second set of plugins on the same bus and hook points. Nothing calls it before `replace`."""
        found = Plugins(self._bus, self._points, self._limits)
        found._loaded = list(loaded)
        return found

    def replace(self, loaded: Iterable[LoadedPlugin]) -> None:
        """Replace all plugins at once. A running hook point continues with the plugins that it began with."""
        self._loaded = list(loaded)

    @property
    def names(self) -> list[str]:
        """The plugins' names, in registration order."""
        return [plugin.name for plugin in self._loaded]

    def listens(self, point: HookPoint[Any, Any]) -> bool:
        """Whether anybody subscribed to `point`: ask before preparing an output that costs something."""
        for plugin in self._loaded:
            for name in (point.name, *point.aliases):
                if plugin.hooks.get(name) is not None:
                    return True
        return False

    async def trigger(
        self, point: HookPoint[I, O], given: I, output: O, saw: Callable[[str, O], None] | None = None
    ) -> O:
        """Run every plugin's handler of `point`, put what they made into `output` and return it.

        `saw` is called with each plugin's name and the output as that plugin left it; it must not change the output.
        Raises `Refused` when the point is a gate and a handler failed.
        """
        for plugin, handler in self._handlers(point):
            seconds = self._seconds(plugin, "gate" if point.gate else "observer", point.name, *point.aliases)
            try:
                if plugin.host is not None:
                    # Its start, after it ended, is no time that the plugin takes.
                    await plugin.host.ready()
                wait = self._wait(plugin.name, point.name, given)
                found = await _handled(seconds, handler, given, output, wait)
            except Exception as error:
                if point.gate:
                    reason = _reason(error)
                    log.info("refused plugin=%s hook=%s reason=%s", plugin.name, point.name, reason)
                    raise Refused(plugin.name, point.name, reason) from error
                self._report(plugin.name, point.name, error)
            else:
                fill(output, found)
                if saw is not None:
                    saw(plugin.name, output)
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

    def owners(self) -> dict[str, str]:
        """Return the name of the plugin that each plugin's tool comes from, by the tool's name."""
        return {name: one.name for one in self._loaded for name in dict(one.hooks.get("tool") or {})}

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
                await in_time(plugin.hooks.get("timeout", PATIENCE), plugin.hooks["config"], working)
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

    def forward_events(self) -> None:
        """Give every bus event from now on to every plugin's ``event`` hook, in order, until the bus closes.

        Call it again after `replace`: new plugins are added, and those that are gone get no more events.
        """
        hears = {id(one): one for one in self._loaded if one.hooks.get("event") is not None}
        for gone in self._hearing.keys() - hears.keys():
            self._hearing.pop(gone)[1].cancel()
        for key, one in hears.items():
            if key not in self._hearing:
                patience = partial(self._seconds, one, "observer", "event")
                ear = EventEar(self._bus, one.name, one.hooks["event"], patience)
                self._hearing[key] = one, asyncio.create_task(ear.listen(), name=f"events for {one.name}")

    async def drain_events(self, grace: float) -> None:
        """Wait up to `grace` seconds until every plugin got the events from before the bus was closed."""
        listening = [task for _, task in self._hearing.values()]
        if listening:
            await asyncio.wait(listening, timeout=grace)
        for task in listening:
            task.cancel()

    async def dispose(self) -> None:
        """Tell every plugin that the instance ends; each gets a few seconds."""
        for plugin in self._loaded:
            await self.end(plugin)
        for host in tuple(self._left):
            await self.close_host(host)

    async def end(self, plugin: LoadedPlugin) -> None:
        """Call a plugin's ``dispose``; it gets `DISPOSE` seconds. A failure is published.

        A host that runs no plugin any more stays in `idle_hosts` until `close_host`: its tools may still be at work.
        """
        if plugin.hooks.get("dispose") is not None:
            try:
                await in_time(DISPOSE, plugin.hooks["dispose"])
            except Exception as error:
                self._report(plugin.name, "dispose", error)
        if plugin.host is not None and plugin.host.release(plugin.hooks):
            self._left.append(plugin.host)

    @property
    def idle_hosts(self) -> list[Any]:
        """The hosts (`instar.plugin.load`) that run no plugin any more."""
        return list(self._left)

    async def close_host(self, host: Any) -> None:
        """Close one of `idle_hosts`."""
        await host.close()
        if host in self._left:
            self._left.remove(host)

    @property
    def hears_events(self) -> bool:
        """Whether a plugin has an ``event`` hook."""
        return any("event" in plugin.hooks for plugin in self._loaded)

    def _handlers(self, point: HookPoint[Any, Any]) -> Iterator[tuple[LoadedPlugin, Callable[..., Any]]]:
        for plugin in self._loaded:
            for name in (point.name, *point.aliases):
                handler = plugin.hooks.get(name)
                if handler is not None:
                    yield plugin, handler

    def _seconds(self, plugin: LoadedPlugin, kind: str, *names: str) -> float | None:
        """Return the seconds that a call of a plugin's may take: as the plugin says, the settings, the default."""
        seconds: float | None = LIMITS[kind]
        if "timeout" in plugin.hooks:
            seconds = plugin.hooks["timeout"]
        elif limits := self._limits():
            seconds = next((limits[name] for name in (*names, kind) if name in limits), seconds)
        return seconds

    def _wait(self, name: str, hook: str, given: Any) -> HookWait | None:
        """Return what names the plugin; rules and scripts are named by their own plugins, each."""
        if name in FLAGSHIPS:
            return None
        return HookWait(self._publish, getattr(given, "session_id", None), name, name, hook)

    async def _publish(self, properties: Wire) -> None:
        self._bus.publish(make(properties))

    def _report(self, plugin: str, hook: str, error: Exception) -> None:
        message = _reason(error)
        log.error("plugin failed plugin=%s hook=%s error=%s", plugin, hook, message, exc_info=error)
        self._bus.publish(make(PluginError(plugin=plugin, hook=hook, message=message)))


async def _handled(
    seconds: float | None, handler: Callable[..., Any], given: Any, output: O, wait: HookWait | None
) -> O:
    """Return the output as a handler leaves it. Raises `Unsound`, and what the handler raises."""
    if getattr(handler, "crosses", False):
        return taken(output, await in_time(seconds, handler, given, output, wait=wait))
    working = detached(output)
    await in_time(seconds, handler, given, working, wait=wait)
    return detached(working)


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
