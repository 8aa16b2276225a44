"""What runs plugins of other languages: opened when the first of them is met, so that others pay nothing for it.

A load opens hosts of its own: a plugin that changed runs in a fresh child, in which nothing of its old code is left,
beside those that stay (`instar.reload`).
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from instar.plugin.door import Loaded, Plugins, unsound
from instar.plugin.interface import Hooks, PluginInput
from instar.plugin.locate import LoadError, Located
from instar.wire import Plain


class PluginHost(Protocol):
    """Runs plugins of one language; a module that is named by `Located.host` opens one with ``open_host``."""

    def begin(self, places: Iterable[Located]) -> None:
        """Start what `places` need, beside whatever else is done."""

    async def load(
        self, place: Located, options: Plain, make_input: Callable[[str], PluginInput], patience: float
    ) -> list[tuple[str, Hooks]]:
        """Return the name and hooks of each plugin that a module offers. Raises `LoadError`."""

    def release(self, hooks: Hooks) -> bool:
        """Forget a plugin that was loaded here; return whether none is left."""

    async def close(self) -> None:
        """End it, and all that is under way. May be called twice."""


class Hosts:
    """The hosts of one load, by their modules."""

    def __init__(self, plugins: Plugins, make_input: Callable[[str], PluginInput], patience: float) -> None:
        self._plugins, self._make_input, self._patience = plugins, make_input, patience
        self._open: dict[str, Any] = {}

    def begin(self, places: Iterable[Located]) -> None:
        """Let them start beside what is loaded before their first plugin."""
        foreign = [place for place in places if place.host]
        for first in {place.host: place for place in reversed(foreign)}.values():
            self._host(first).begin([place for place in foreign if place.host == first.host])

    async def load(self, place: Located, options: Plain, mark: Any) -> None:
        """Load a plugin. Raises `LoadError`."""
        host = self._host(place)
        ready = await host.load(place, options, self._make_input, self._patience)
        problems = [problem for _, hooks in ready if (problem := unsound(hooks)) is not None]
        if problems:
            for _, hooks in ready:
                host.release(hooks)
            raise LoadError(problems[0])
        for name, hooks in ready:
            self._plugins.add(name, hooks, mark, host)

    async def close_unused(self, loaded: Iterable[Loaded]) -> None:
        """Close those that run none of `loaded`."""
        used = {id(one.host) for one in loaded}
        for host in self._open.values():
            if id(host) not in used:
                await host.close()

    def _host(self, place: Located) -> Any:
        if place.host not in self._open:
            opened = importlib.import_module(place.host).open_host(self._make_input(place.name))
            self._open[place.host] = opened
        return self._open[place.host]
