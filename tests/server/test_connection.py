"""Connections that take their time, over a real socket."""

import asyncio
import contextlib

import httpx2
import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from tests.server.follower import nothing, publish
from tests.waiting import until

from instar.event import FileEdited, make
from instar.server.call import LARGEST_BODY, Call
from instar.server.connection import HEADERS, KEPT
from instar.server.errors import BadRequest, answer_for
from instar.server.listen import Address, HttpServer, bind
from instar.server.stream import EventStream, Feed, Following, of_directory, wanted


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the size of the body, or with why it was not read."""
    try:
        data = await Call(Request(scope, receive), None).bytes()
        answer = answer_for(BadRequest(str(len(data)), "Body", 200))
    except BadRequest as error:
        answer = answer_for(error)
    await answer(scope, receive, send)


@contextlib.asynccontextmanager
async def connected(application=_application):
    bound = bind(Address("127.0.0.1", 0))
    server = HttpServer(application)
    server.config.timeout_keep_alive = 4711  # how long that is, a connection knows by itself
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        yield reader, writer
        writer.close()
    finally:
        server.should_exit = True
        await serving


def head(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_headers_that_do_not_end_close_the_connection(monkeypatch, sent):
    monkeypatch.setattr("instar.server.connection.HEADERS", 0.05)
    async with connected() as (reader, writer):
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 5) == b""


@pytest.mark.slow
async def test_a_request_that_came_in_time_is_answered_however_long_that_takes(monkeypatch):
    monkeypatch.setattr("instar.server.connection.HEADERS", 1.5)
    async with connected() as (reader, writer):
        writer.write(head(3))
        await asyncio.sleep(2)  # longer than headers may take: what is awaited is the body
        writer.write(b"abc")
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200")


async def test_a_connection_is_closed_only_after_clients_have_let_go_of_it(monkeypatch):
    # What a client sends in the moment in which it is closed is lost.
    assert 2 * (httpx2.Limits().keepalive_expiry or 0) <= KEPT < HEADERS
    monkeypatch.setattr("instar.server.connection.KEPT", 0.05)
    async with connected() as (reader, writer):
        writer.write(head(3) + b"abc")
        answer = await asyncio.wait_for(reader.read(), HEADERS / 2)
        assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("name", "sent"), [("QUIET", [b"a"]), ("LONGEST", [b"a"] * 100)])
async def test_a_body_that_does_not_come_is_answered(monkeypatch, name, sent):
    monkeypatch.setattr(f"instar.server.call.{name}", 0.05)
    async with connected() as (reader, writer):
        writer.write(head(1000))
        for piece in sent:
            writer.write(piece)
            await asyncio.sleep(0.001)
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 408")


async def test_a_body_that_is_too_large_is_answered_before_it_comes_and_what_follows_is_not_waited_for(
    monkeypatch,
):
    monkeypatch.setattr("instar.server.connection.LINGER", 0.05)
    async with connected() as (reader, writer):
        writer.write(head(LARGEST_BODY + 1) + b"x" * 1000)
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 413")
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            rest = await asyncio.wait_for(reader.read(), 5)
        assert b'"name":"BadRequest"' in rest


async def test_a_client_of_events_that_never_reads_loses_its_connection_and_what_waited_for_it():
    feed = Feed()
    following = Following(wanted("/a"), of_directory, nothing, most=(10_000, 4 << 20))
    async with connected(EventStream(feed, following)) as (reader, writer):
        writer.transport.pause_reading()
        writer.write(b"GET /event HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: feed.clients == 1)
        large, sent = "x" * 100_000, 0
        # The system's own buffers take some of it first.
        while feed.clients:
            sent += 1
            assert sent < 1000
            publish(feed, make(FileEdited(file=large)))
            await asyncio.sleep(0)
        writer.transport.resume_reading()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(sent * 100_000), 5)
