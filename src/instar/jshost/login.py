"""A login of a JavaScript plugin: its ``loader``, and the ``fetch`` that this may give, which the child runs."""

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from instar import wire
from instar.jshost.functions import revived
from instar.jshost.speaking import Speaking
from instar.plugin.fetch import FetchRequest, FetchResponse
from instar.wire import Plain

GetAuth = Callable[[], Awaitable[Any]]
"""Gives what is kept of the login now."""


class Loader:
    """The ``loader`` of one plugin's ``auth``, named by the plugin: a child that is started anew has it again."""

    def __init__(self, host: Speaking, plugin: str) -> None:
        self._host, self._plugin = host, plugin
        self._provider: Plain = {}

    async def __call__(self, get_auth: GetAuth, provider: Plain) -> Plain:
        """Return the options that the plugin makes of the login. Raises `JavaScriptError`."""
        self._provider = wire.to_plain(provider)
        self._host.keep_login(self._plugin, get_auth)
        return await self._load()

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Let the plugin send a request. Raises `JavaScriptError`, and `ConnectionError` when it reached nobody."""
        asked: Plain = {
            "plugin": self._plugin,
            "url": request.url,
            "method": request.method,
            "headers": request.headers,
            "body": request.body.decode(),
        }
        found = await self._host.request("fetch", asked)
        if found is None:
            # What the loader gave went with the child that it was given in.
            await self._load()
            found = await self._host.request("fetch", asked)
        if found is None:
            raise ConnectionError("the plugin's login sends no requests any more")
        if "unreached" in found:
            raise ConnectionError(found["unreached"])
        headers = [(str(name), str(value)) for name, value in found["headers"]]
        body = self._body(found["stream"])
        # Begun, so that closing it lets go of the stream also where nobody has read.
        await anext(body)
        return FetchResponse(int(found["status"]), headers, body)

    async def _load(self) -> Plain:
        found = await self._host.request("loader", {"plugin": self._plugin, "provider": self._provider})
        options: Plain = revived(self._host, found["options"])
        return {**options, "fetch": self.fetch} if found["fetch"] else options

    async def _body(self, stream: int | None) -> AsyncGenerator[bytes, None]:
        yield b""
        if stream is None:
            return
        given = {"plugin": self._plugin, "stream": stream}
        whole = False
        try:
            while (data := await self._host.request("read", given)) is not None:
                yield base64.b64decode(data)
            whole = True
        finally:
            if not whole and self._host.is_up:
                await self._host.tell("close", given)
