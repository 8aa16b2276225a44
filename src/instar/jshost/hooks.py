"""A JavaScript plugin's hooks as the door calls them: each call crosses over to the child and back.

The door gives such a handler no copy of the output: what crosses over is one (`plugin.door`). A handler returns what
it changed, by the names of the wire.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from instar import wire
from instar.event import Event
from instar.jshost.functions import revived
from instar.jshost.history import restored
from instar.jshost.login import Loader
from instar.jshost.speaking import Speaking
from instar.jshost.tool import tool_of
from instar.plugin import Hooks, points
from instar.wire import Plain

log = logging.getLogger("instar.jshost")

PATIENCE: Final = 30.0
"""Seconds that a hook may take, where the plugin says nothing else with ``timeout`` (issue 11)."""
_MESSAGES: Final = (points.MESSAGES.name, *points.MESSAGES.aliases)
_OWN: Final = ("event", "config", "dispose")


def hooks_of(host: Speaking, offered: Plain) -> Hooks:
    """Return the hooks of one plugin that the child has `offered`."""
    key: str = offered["key"]
    found: dict[str, Any] = {
        name: Handler(host, key, name) for name in offered["hooks"] if name not in (*_OWN, "timeout")
    }
    own = {"event": Listener(host, key), "config": Configurer(host, key), "dispose": Disposer(host, key)}
    found |= {name: own[name] for name in _OWN if name in offered["hooks"]}
    found["timeout"] = offered.get("timeout", PATIENCE)
    if offered["tools"]:
        found["tool"] = {name: tool_of(host, key, name, said) for name, said in offered["tools"].items()}
    for name in ("auth", "provider"):
        if offered.get(name):
            found[name] = revived(host, offered[name])
    if "auth" in found and "loader" in found["auth"]:
        found["auth"]["loader"] = Loader(host, key)
    for name in offered.get("odd") or ():
        # A module's helper that is exported counts as a plugin too, as in opencode: what it gives need be no hooks.
        log.warning("odd hook hook=%s: it is neither a function nor an object, and is never called", name)
    return found


class Handler:
    """A handler of one hook point."""

    crosses: Final = True

    def __init__(self, host: Speaking, plugin: str, hook: str) -> None:
        self._host, self._plugin, self._hook = host, plugin, hook

    async def __call__(self, given: Any, output: Any) -> Mapping[str, Any]:
        """Return what the hook changed in `output`; None for what it removed. Raises `JavaScriptError`."""
        called: Plain = {"plugin": self._plugin, "hook": self._hook}
        if self._hook in _MESSAGES:
            return await self._messages(called, output)
        called |= {"input": wire.to_plain(given), "output": wire.to_plain(output)}
        found = await self._host.request("hook", called)
        return {**found["changed"], **dict.fromkeys(found["removed"])}

    async def _messages(self, called: Plain, output: points.MessagesOutput) -> Mapping[str, Any]:
        found = await self._host.send_messages(called, output.messages)
        return {} if found is None else {"messages": restored(found, output.messages)}


class Listener:
    """The ``event`` hook: told in order, and not waited for, as in opencode."""

    def __init__(self, host: Speaking, plugin: str) -> None:
        self._host, self._plugin = host, plugin

    async def __call__(self, event: Event) -> None:
        """Tell the child of an event. Raises `JavaScriptError` when there is none."""
        await self._host.tell("event", {"plugin": self._plugin, "event": event.to_plain()})


class Configurer:
    """The ``config`` hook."""

    def __init__(self, host: Speaking, plugin: str) -> None:
        self._host, self._plugin = host, plugin

    async def __call__(self, config: Plain) -> None:
        """Let the hook change `config`. Raises `JavaScriptError`."""
        found = await self._host.request("config", {"plugin": self._plugin, "config": config})
        if found is not None:
            config.clear()
            config.update(found["config"])


class Disposer:
    """The ``dispose`` hook."""

    def __init__(self, host: Speaking, plugin: str) -> None:
        self._host, self._plugin = host, plugin

    async def __call__(self) -> None:
        """Tell the plugin that the instance ends, unless its child has ended already. Raises `JavaScriptError`."""
        if self._host.is_up:
            await self._host.request("dispose", {"plugin": self._plugin})
