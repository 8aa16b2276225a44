"""The answer to a prompt comes after its events: `opencode run --attach` ends with it, whatever it has read by then."""

import asyncio
import base64
import contextlib
import socket
import time
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import LOGIN
from tests.waiting import SOON, quickest

from instar.server.stream import DELIVERY, READING, Feed, heartbeat, wanted

MODEL = {"providerID": "scripted", "modelID": "test"}
SCRIPT = '== when "."\ntext: It was said.\n'


class Deaf:
    """An event stream whose client reads its first event, and nothing more."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.socket()
        # A small window: what the server sends soon stays with the server.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((where.hostname, where.port))
        login = base64.b64encode(":".join(LOGIN).encode()).decode()
        head = f"GET /event HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Basic {login}\r\n\r\n"
        self._socket.sendall(head.encode())
        read = b""
        while b"server.connected" not in read:
            read += self._socket.recv(4096)

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("message", {"parts": [{"type": "text", "text": "hi"}], "noReply": True, "model": MODEL}),
        ("command", {"command": "init", "arguments": "", "model": "scripted/test"}),
    ],
)
def test_the_answer_to_a_prompt_waits_until_its_events_are_sent(serve, path, body):
    server = serve(script=SCRIPT)
    session_id = server.session(title="A talk")
    with contextlib.closing(Deaf(server.url)):
        sent = server.ask(session_id, "x" * 8_000_000, "prompt_async", noReply=True)
        assert sent.status_code == 204, sent.text
        began = time.monotonic()
        answer = server.http.post(f"/session/{session_id}/{path}", json=body)
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - began >= DELIVERY


async def test_a_client_that_does_not_read_is_waited_for_once_until_it_has_caught_up(monkeypatch):
    feed = Feed()
    reader = feed.follow(wanted(None))
    feed.publish(heartbeat())
    assert await seconds(feed.delivered()) >= DELIVERY
    feed.publish(heartbeat())
    assert await quickest(lambda: seconds(feed.delivered()), DELIVERY) < DELIVERY
    assert len(await reader.take()) == 2
    taking = asyncio.create_task(reader.take())
    await feed.delivered()
    monkeypatch.setattr("instar.server.stream.DELIVERY", 60.0)
    feed.publish(heartbeat())
    waiting = asyncio.create_task(feed.delivered())
    assert await taking
    taking = asyncio.create_task(reader.take())
    await asyncio.wait_for(waiting, SOON)
    reader.close()
    assert await taking == []


async def test_opencodes_own_program_is_given_time_to_print_what_it_was_sent():
    feed = Feed()
    reader = feed.follow(wanted(None))
    taking = asyncio.create_task(reader.take())
    feed.publish(heartbeat())
    assert await taking
    taking = asyncio.create_task(reader.take())
    assert await seconds(feed.delivered("opencode/1.18.33")) >= READING
    assert await quickest(lambda: seconds(feed.delivered("python-httpx")), READING) < READING
    reader.close()
    assert await taking == []


async def seconds(work: Coroutine[Any, Any, None]) -> float:
    """How long it took."""
    now = asyncio.get_running_loop().time
    began = now()
    await work
    return now() - began
