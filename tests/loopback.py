"""A model on loopback that a test drives: it counts the requests, and says what a function makes of each.

Use it with ``pytest_plugins = ["tests.turn", "tests.loopback"]``. It runs on the test's own event loop. Tests import it
before pytest does: PYTEST_DONT_REWRITE.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

Answer = Callable[[int, dict[str, Any]], Any]
"""The number of a request (from 1) and its body in; one of `text`, `calls`, `status`, `begin` and `hang` out."""


def text(words: str, tokens: tuple[int, int] = (100, 20)) -> list[Any]:
    """An answer of words, with its usage."""
    return [{"choices": [{"delta": {"content": words}, "finish_reason": "stop"}]}, _usage(tokens)]


def calls(*made: tuple[str, dict[str, Any]], tokens: tuple[int, int] = (100, 20)) -> list[Any]:
    """An answer of tool calls."""
    asked = [
        {"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": json.dumps(given)}}
        for index, (name, given) in enumerate(made)
    ]
    return [{"choices": [{"delta": {"tool_calls": asked}, "finish_reason": "tool_calls"}]}, _usage(tokens)]


def status(code: int, **headers: str) -> tuple[int, dict[str, str]]:
    """A refusal."""
    return code, headers


def hang(words: str = "thinking") -> list[Any]:
    """An answer that begins and never ends."""
    return [{"choices": [{"delta": {"content": words}}]}, None]


class Loopback:
    """The server: `asked` are the bodies of the requests, `open` how many are answered now, `most` the most at once."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.open = self.most = self.closed = 0
        self.answer: Answer = lambda number, body: text("hello")
        self.slow = 0.0
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration of a provider ``local`` with a model ``m``, for `House.settings`."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        cost = {"input": 1000.0, "output": 0.0}
        return {
            "local": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "k"},
                "models": {"m": {"limit": {"context": 32000, "output": 1000}, "cost": cost}},
            }
        }

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length: ")[2].split("\r\n")[0])
                self.asked.append(json.loads(await reader.readexactly(length)))
                self.open += 1
                self.most = max(self.most, self.open)
                try:
                    await self._answer(reader, writer, self.answer(len(self.asked), self.asked[-1]))
                finally:
                    self.open -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            self.closed += 1  # a cancelled handler would be logged as a failure
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: Any) -> None:
        if isinstance(said, tuple):
            code, headers = said
            lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
            body = json.dumps({"error": {"message": f"refused with {code}"}}).encode()
            writer.write(f"HTTP/1.1 {code} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            return
        writer.write(
            b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for piece in said:
            if piece is None:
                await writer.drain()
                await reader.readexactly(1)  # until the client goes away
            if self.slow:
                await asyncio.sleep(self.slow)
            kind = f"event: {piece['type']}\n" if "type" in piece else ""
            _chunk(writer, f"{kind}data: {json.dumps(piece)}\n\n".encode())
        _chunk(writer, b"data: [DONE]\n\n")
        _chunk(writer, b"")
        await writer.drain()


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _usage(tokens: tuple[int, int]) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}}


@pytest.fixture
async def loopback() -> AsyncIterator[Loopback]:
    made = Loopback()
    await made.start()
    yield made
    await made.close()
