"""One end of JSON-RPC 2.0 in frames: four bytes of length, big-endian, then that many bytes of JSON.

The protocol of ``docs/reference/plugin-protocol.md``; the other end is ``host/peer.mjs``.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from instar import wire
from instar.wire import Plain

log = logging.getLogger("instar.jshost")

MOST: Final = 256 * 1024 * 1024
"""Bytes of the longest frame that is read."""
LAST: Final = 1.0
"""Seconds that listeners have for the last events: one that tells a person of ``session.idle`` needs them."""

Answer = Callable[[str, Plain], Awaitable[Any]]
"""Answers what the other end asks: a method's name and its parameters. What it raises is the answer's error."""


class JavaScriptError(Exception):
    """JavaScript threw, or its child is not there; the text is the error's. `stack` is JavaScript's, "" for none."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


class Peer:
    """A connection to a child over `reader` and `writer`; `answer` is asked what the child wants to know."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        self._reader, self._writer, self._answer = reader, writer, answer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[asyncio.Task[None], Any] = {}
        self._last = 0
        self._closed = ""

    async def request(self, method: str, params: Plain) -> Any:
        """Ask the child and return its answer. A cancellation is passed on to the child. Raises `JavaScriptError`."""
        if self._closed:
            raise JavaScriptError(self._closed)
        self._last += 1
        number = self._last
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await self._drained()
            return await future
        except asyncio.CancelledError:
            self.notify("cancel", {"id": number})
            raise
        finally:
            self._waiting.pop(number, None)

    async def answers(self, seconds: float, busy: float) -> bool:
        """Whether the child answers within `seconds`, or within `busy` while it has earlier requests to work on."""
        earlier = set(self._waiting)
        pinging = asyncio.ensure_future(self.request("ping", {}))
        pinging.add_done_callback(lambda done: done.cancelled() or done.exception())
        end = asyncio.get_running_loop().time() + busy
        await asyncio.wait([pinging], timeout=seconds)
        while (
            not pinging.done() and earlier & self._waiting.keys() and asyncio.get_running_loop().time() < end
        ):
            await asyncio.wait([pinging], timeout=seconds)
        return pinging.done() or not pinging.cancel()

    async def heard(self) -> None:
        """Wait, `LAST` seconds at most, until listeners are done with the events that the child was told."""
        with contextlib.suppress(JavaScriptError, TimeoutError):
            async with asyncio.timeout(LAST):
                await self.request("heard", {})

    def notify(self, method: str, params: Plain) -> None:
        """Tell the child something that it does not answer; nothing happens when it has gone."""
        if not self._closed:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def run(self) -> str:
        """Read what the child says until it closes its end; return what else ended it, "" for nothing else."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                if size > MOST:
                    raise JavaScriptError(f"a frame of {size} bytes is longer than {MOST}")
                self._received(wire.parse(await self._reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""
        except (msgspec.DecodeError, JavaScriptError, TypeError, KeyError, AttributeError) as error:
            return f"it sent nonsense: {error}"

    async def close(self, reason: str) -> None:
        """Close the connection; pending requests fail with `reason`."""
        self._closed = self._closed or reason
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(JavaScriptError(reason))
        for task in list(self._answering):
            task.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _send(self, message: Plain) -> None:
        body = wire.encode(message)
        self._writer.write(len(body).to_bytes(4, "big") + body)

    async def _drained(self) -> None:
        # A child that has gone is reported by `run`.
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def _received(self, message: Plain) -> None:
        if message.get("method") == "cancel":
            self._cancel(message["params"]["id"])
            return
        if "method" in message:
            task = asyncio.create_task(self._reply(message))
            self._answering[task] = message.get("id")
            task.add_done_callback(self._answering.pop)
            return
        future = self._waiting.get(message["id"])
        if future is None or future.done():
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
        else:
            future.set_exception(
                JavaScriptError(str(error["message"]), str((error.get("data") or {}).get("stack", "")))
            )

    def _cancel(self, number: Any) -> None:
        """End the work for an answer that nobody waits for any more."""
        for task in [task for task, own in self._answering.items() if own == number]:
            task.cancel()

    async def _reply(self, message: Plain) -> None:
        number = message.get("id")
        try:
            found: Plain = {"result": await self._answer(message["method"], message.get("params") or {})}
        except Exception as error:
            text = str(error) or type(error).__name__
            log.info("refused method=%s reason=%s", message["method"], text)
            found = {"error": {"code": -32000, "message": text}}
        if number is not None and not self._closed:
            self._send({"jsonrpc": "2.0", "id": number, **found})
            await self._drained()
