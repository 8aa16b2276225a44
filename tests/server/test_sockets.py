"""A web socket's connection, and a client of a terminal that takes nothing."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from tests.server.test_connection import connected

from instar.process import Processes
from instar.server.connection import ABORT
from instar.server.routes import pty as shown
from instar.server.routes.pty import converse
from instar.terminal import Scrollback, Terminal, described

UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TYPED = b"\x81\x82\0\0\0\0hi"
"""A text message as a client sends it; its mask is zero."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})
        return
    socket = WebSocket(scope, receive, send)
    await socket.accept()
    await socket.send_text(await socket.receive_text())
    await socket.close()


@pytest.mark.slow
@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_a_web_socket_is_not_held_to_the_times_of_requests(monkeypatch, before):
    for name in ("HEADERS", "LINGER"):
        monkeypatch.setattr(f"instar.server.connection.{name}", 1.5)
    async with connected(echo) as (reader, writer):
        if before:
            writer.write(before)
            assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(UPGRADE)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(2)  # longer than a request's headers or the rest of its body may take
        writer.write(TYPED)
        assert await asyncio.wait_for(reader.readexactly(4), 5) == b"\x81\x02hi"


@pytest.mark.parametrize("takes", [0, 1])
async def test_a_client_that_takes_no_message_loses_its_connection(monkeypatch, tmp_path: Path, takes: int):
    monkeypatch.setattr(shown, "STALLED", 0.05)
    processes = Processes()
    program = described("pty_1", "", "/bin/sh", ["-c", "echo hello; read x"], tmp_path)
    terminal = Terminal(program, lasting=False)
    await terminal.start(processes, dict(os.environ), lambda one: None)
    await terminal.read(0, 10)
    ended, sent = asyncio.Event(), []
    messages = iter([{"type": "websocket.connect"}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            sent.append(message)
            if len(sent) > takes:
                await asyncio.Event().wait()

    scope = {"type": "websocket", "path": "/", "headers": [], "state": {ABORT: ended.set}}
    await asyncio.wait_for(converse(WebSocket(scope, receive, send), terminal, None), 5)
    assert ended.is_set()
    assert not terminal.over
    await terminal.end()
    await processes.close()


async def test_a_client_that_takes_its_time_stops_no_program_and_goes_on_with_the_newest(
    monkeypatch, tmp_path: Path
):
    monkeypatch.setattr(shown, "NEWEST", 100)
    processes, over = Processes(), asyncio.Event()
    program = described("pty_1", "", "/bin/sh", ["-c", "stty -echo; echo A; read x; seq 1000"], tmp_path)
    terminal = Terminal(program, lasting=False)
    terminal.printed = Scrollback(200)
    await terminal.start(processes, dict(os.environ), lambda one: over.set())
    await terminal.read(0, 10)
    sent: list[Any] = []
    messages = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "\n"}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            sent.append(message.get("text") or message["bytes"])
            await over.wait()  # it takes the first message when the program has ended

    socket = WebSocket({"type": "websocket", "path": "/", "headers": []}, receive, send)
    await asyncio.wait_for(converse(socket, terminal, None), 5)
    end = terminal.printed.end
    assert end == len("A\r\n") + sum(len(f"{number}\r\n") for number in range(1, 1001))
    assert sent[0] == "A\r\n"
    assert b'\0{"cursor":%d}' % (end - 100) in sent
    assert len(sent[-1]) == 100
    assert sent[-1].endswith("999\r\n1000\r\n")
    await processes.close()
