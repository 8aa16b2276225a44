"""What `instar bridge` answers: the plugins' side of the protocol (``docs/plugin-protocol.md``)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from instar import __version__
from instar.bridge import calling
from instar.bridge.calling import Calling
from instar.bridge.hooks import Hooks, Stopped
from instar.bridge.moments import Moments
from instar.bridge.opening import Opened, read
from instar.bridge.pipe import connect
from instar.client import Invalid
from instar.message import WithParts, decode_with_parts
from instar.plugin import ToolFailure
from instar.plugin.outcome import json_copy
from instar.process import Processes
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.jshost.peer import Peer

log = logging.getLogger("instar.bridge")

PROTOCOL: Final = 1
"""The version of the protocol that is spoken."""
KEY: Final = "instar"
"""The one plugin that opencode sees: all of instar's, in their order."""


async def serve(environment: Mapping[str, str]) -> None:
    """Serve the plugins of the directory that the other end names, until it closes its end."""
    bridge = Bridge(environment)
    bridge.peer = await connect(bridge.answer)
    try:
        if wrong := await bridge.peer.run():
            log.error("opencode's half of the bridge: %s", wrong)
    finally:
        await bridge.close()


class Bridge:
    """The plugins of one directory, served to one opencode."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._greeting: Plain = {}
        self._opened: Opened | None = None
        self._hooks: Hooks | None = None
        self._moments: Moments | None = None
        self._histories: dict[str, list[WithParts]] = {}
        self.peer: Peer
        self._methods: dict[str, Callable[[Plain], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "load": self._load,
            "hook": self._hook,
            "messages": self._messages,
            "config": self._config,
            "event": self._event,
            "tool": self._tool,
            "dispose": self._dispose,
            "ping": self._ping,
        }

    async def answer(self, method: str, params: Plain) -> Any:
        """Answer what opencode's half asks. Raises what is its answer's error."""
        answer = self._methods.get(method)
        if answer is None:
            raise Invalid(f"there is no method {method}")
        return await answer(params)

    async def close(self) -> None:
        """Close the plugins, and the connection."""
        await self._end()
        await self.peer.close("the bridge ends")

    async def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            if self._moments is not None:
                await self._moments.close()
            await opened.close()

    @property
    def _hooked(self) -> Hooks:
        if self._hooks is None:
            raise Invalid("nothing is loaded yet")
        return self._hooks

    async def _initialize(self, params: Plain) -> Plain:
        self._greeting = params
        return {"runtime": "instar", "version": __version__, "protocol": PROTOCOL}

    async def _hook(self, params: Plain) -> Plain:
        return await self._hooked.hook(params["hook"], params["input"], params["output"])

    async def _event(self, params: Plain) -> None:
        if self._moments is not None:
            self._moments.hear(params["event"])

    async def _dispose(self, params: Plain) -> None:
        await self._end()

    async def _ping(self, params: Plain) -> str:
        return "pong"

    async def _load(self, params: Plain) -> Plain:
        told = self._greeting
        directory = Path(told["directory"])
        found = await read(directory, self._environment, Processes())
        self._opened = opened = Opened(found, directory, self._environment, self._asked)
        await opened.load(str(told.get("version") or ""), str(told.get("url") or ""))
        self._moments = Moments(opened.plugins, opened.client, opened.bus)
        self._hooks = Hooks(opened, self._moments)
        tools = {
            name: {"description": tool.description, "parameters": dict(tool.parameters)}
            for name, tool in opened.plugins.tools().items()
        }
        names = [*self._hooks.names, *(["event", "dispose"] if opened.plugins.loaded else [])]
        one = {"key": KEY, "hooks": names, "tools": tools, "timeout": None}
        return {"id": KEY, "plugins": [one] if opened.plugins.loaded else []}

    async def _asked(self, method: str, params: Plain) -> Any:
        return await self.peer.request(method, params)

    async def _messages(self, params: Plain) -> Plain | None:
        for one in params.get("forget") or ():
            self._histories.pop(one, None)
        session_id, length = params["session"], params["length"]
        kept = self._histories.setdefault(session_id, [])
        del kept[length:]
        for index, message in params["set"]:
            kept[index : index + 1] = [decode_with_parts(message)]
        try:
            return await self._hooked.messages(session_id, kept)
        except Stopped as stopped:
            return {"stop": str(stopped)}

    async def _config(self, params: Plain) -> Plain | None:
        if self._opened is None:
            return None
        config: Plain = params["config"]
        before = json_copy(config)
        await self._opened.plugins.configure(config, lambda _config: None)
        return None if config == before else {"config": config}

    async def _tool(self, params: Plain) -> Plain:
        opened, name = self._opened, params["tool"]
        tool = opened.plugins.tools().get(name) if opened is not None else None
        if opened is None or tool is None:
            raise ToolFailure(f"There is no tool {name} any more: its plugin took it away.")
        history = await opened.client.session.messages(params["context"]["sessionID"])
        context = Calling(opened, params, history, self._asked, self.peer.notify)
        return await calling.run(tool, name, params["args"], context)


async def run(environment: Mapping[str, str]) -> None:
    """Serve until the other end is gone; a signal ends it in the same way."""
    try:
        await serve(environment)
    except asyncio.CancelledError:
        log.info("the bridge was ended by a signal")
