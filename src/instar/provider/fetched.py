"""Calls that a plugin's login sends: its ``fetch`` in the place of a connection, with the same times and errors.

`connection` imports this room where a model has such a login, and never otherwise: httpx2 takes 0.1 s.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import httpx2

from instar.plugin.fetch import Fetch, FetchFailed, FetchRequest

_OWN: Final = frozenset({"host", "connection", "content-length", "transfer-encoding"})
"""Headers of a connection, which whoever makes it sets."""
_UNPACKED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers of an answer that no longer hold once its body is decompressed."""


class Fetched(httpx2.AsyncBaseTransport):
    """What httpx2 sends goes through `fetch`."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises `httpx2.ConnectError`, and `FetchFailed`."""
        headers = {name: value for name, value in request.headers.items() if name not in _OWN}
        asked = FetchRequest(str(request.url), request.method, headers, await request.aread())
        try:
            answer = await self._fetch(asked)
        except OSError as error:
            raise httpx2.ConnectError(_said(error), request=request) from error
        except Exception as error:
            raise FetchFailed(_said(error)) from error
        found = [(name, value) for name, value in answer.headers if name.lower() not in _UNPACKED]
        wait = request.extensions.get("timeout", {}).get("read")
        return httpx2.Response(answer.status, headers=found, stream=_Body(answer.body, wait))


class _Body(httpx2.AsyncByteStream):
    """The body of an answer; a silence of `wait` seconds ends it."""

    def __init__(self, chunks: AsyncGenerator[bytes, None], wait: float | None) -> None:
        self._chunks, self._wait = chunks, wait

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._wait):
                    chunk = await anext(self._chunks, None)
            except TimeoutError:
                raise httpx2.ReadTimeout("the answer fell silent") from None
            except Exception as error:
                raise httpx2.ReadError(_said(error)) from error
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        """Let go of what was not read."""
        await self._chunks.aclose()


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
