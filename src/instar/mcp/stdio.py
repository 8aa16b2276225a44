"""A local server: a child of `instar.process`, spoken to in lines of JSON. Imports the SDK: see `link`.

The SDK's own transport ends only the child itself once it has gone by its own will; this one leaves nothing of
its process group behind, whether the connection is closed, cancelled, or the runtime ends.
"""

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from instar.config import McpConfig
from instar.mcp.protocol import LinkError, Place
from instar.process import Output, ProcessError

LONGEST: Final = 64 * 1024 * 1024
"""Bytes of one message; a server that sends a longer one is ended."""
_FAREWELL: Final = 0.5
"""Seconds that a server gets to end by itself once its stdin is closed."""
_KEPT: Final = 16 * 1024
"""Bytes of stderr that are kept to say why a server ended."""

Messages = MemoryObjectReceiveStream[SessionMessage | Exception]
Sink = MemoryObjectSendStream[SessionMessage]


class Child:
    """A running server: its streams, what it printed that was no message, and why it ended."""

    def __init__(self) -> None:
        # Without bounds, so that neither the child's reader nor an aborted call ever waits for the other side.
        self._arrived, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.sink, self._outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._buffer = bytearray()
        self._searched = 0
        self.garbage: str | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def feed(self, data: bytes) -> None:
        """Take what the child printed. Raises `LinkError` when a message is longer than `LONGEST`."""
        self._buffer += data
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._line(line)
        self._searched = len(self._buffer)
        if self._searched > LONGEST:
            raise LinkError(f"it sent a message of more than {LONGEST >> 20} MiB")

    async def write(self, file: BinaryIO) -> None:
        """Write what is sent to the child's stdin, until the stream or the child ends."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        try:
            async for item in self._outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()
        except OSError:
            # The child has closed its stdin; that it has ended is said by `ended`.
            return
        finally:
            transport.abort()

    def ended(self, reason: str) -> None:
        """Say that the child has gone: whoever waits for an answer hears of it."""
        if not self.lost.done():
            self.lost.set_result(reason)
        self._arrived.close()

    def close(self) -> None:
        """Let go of every stream."""
        for stream in (self._arrived, self.messages, self.sink, self._outgoing):
            stream.close()

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self.garbage = self.garbage or line[:120].decode(errors="replace")
            refusal = _refusal(line)
            if refusal is None:
                return
            message = refusal
        if not self.lost.done():
            self._arrived.send_nowait(SessionMessage(message))


@asynccontextmanager
async def started(config: McpConfig, place: Place) -> AsyncIterator[Child]:
    """Run a local server while the context is open; afterwards nothing of its process group is left."""
    child = Child()
    reading, descriptor = os.pipe()
    writing = os.fdopen(descriptor, "wb", 0)
    running = asyncio.create_task(_run(config, place, child, reading))
    feeding = asyncio.create_task(child.write(writing))
    try:
        yield child
    finally:
        feeding.cancel()
        try:
            await asyncio.wait([feeding])
            writing.close()
            await asyncio.wait([running], timeout=_FAREWELL)
        finally:
            # Also when this is cancelled a second time: the child's group ends with its task.
            running.cancel()
            try:
                await asyncio.wait([running])
            finally:
                child.close()


async def _run(config: McpConfig, place: Place, child: Child, stdin: int) -> None:
    try:
        output = await place.processes.run(
            config.command,
            cwd=place.directory / (config.cwd or "."),
            env={**place.environment, **config.environment},
            stdin=stdin,
            limit=_KEPT,
            on_output=child.feed,
        )
        child.ended(_end(output))
    except (ProcessError, LinkError) as error:
        child.ended(str(error))
    finally:
        os.close(stdin)
        child.ended("it was ended")


def _refusal(line: bytes) -> JSONRPCError | None:
    """An error in the place of an answer that is none, so that nobody waits for it; None for other lines."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    answered = found.get("id") if isinstance(found, dict) and "method" not in found else None
    if isinstance(answered, bool) or not isinstance(answered, int | str):
        return None
    data = ErrorData(code=INTERNAL_ERROR, message="an answer that is no message of the protocol")
    return JSONRPCError(jsonrpc="2.0", id=answered, error=data)


def _end(output: Output) -> str:
    how = f"by signal {output.signal}" if output.signal else f"with exit code {output.code}"
    lines = output.stderr.decode(errors="replace").strip().splitlines()
    return f"it ended {how}" + (f": {lines[-1][:300]}" if lines else "")
