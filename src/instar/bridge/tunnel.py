"""opencode's HTTP interface over the protocol: each request is made by its own SDK's client, in its process.

`opencode run` has no server that could be asked, so this is the one way there is.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2

from instar.client import AsyncClient
from instar.wire import Plain

Ask = Callable[[str, Plain], Awaitable[Any]]


Kind = TypeVar("Kind", bound=AsyncClient)


def client_of(ask: Ask, directory: str, kind: type[Kind]) -> Kind:
    """Return a typed client of the opencode that `ask` reaches. It opens no streams: events come by themselves."""
    return kind("http://opencode", transport=Tunnel(ask), directory=directory)


class Tunnel(httpx2.AsyncBaseTransport):
    """Hands requests over, and their answers back."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return opencode's answer. Raises `httpx2.TransportError` when there is none."""
        body = (await request.aread()).decode("utf-8")
        kept = ("content-type", "accept")
        asked: Plain = {
            "method": request.method,
            "path": request.url.raw_path.decode("ascii"),
            "headers": {name: value for name, value in request.headers.items() if name in kept},
            **({"body": body} if body else {}),
        }
        try:
            found = await self._ask("http", asked)
        except Exception as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
        headers = {"content-type": str(found.get("type") or "application/json")}
        return httpx2.Response(int(found["status"]), headers=headers, content=str(found["body"]).encode())
