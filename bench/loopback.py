"""A model that costs next to nothing: `python -m bench.loopback` prints its address and serves.

Chat Completions over keep-alive connections on one asyncio loop; each answer is one write, so that what is measured is
the program that asked. What it says follows from the request's body, in the words of `bench.acting`: a line
`call NAME {json}` of the last user message is one step. A GET answers with the body of the last request, so that a
bench can send it again and learn what the model alone takes.
"""

import asyncio
from typing import Any, Final

import msgspec

from bench.acting import CALL, openai_events, told_openai

HEAD_END: Final = b"\r\n\r\n"


class Asked(msgspec.Struct):
    """What of a request decides the answer; the tools are passed over."""

    messages: list[dict[str, Any]]


class Loopback(asyncio.Protocol):
    """One connection. `last` is the body of the last POST on any."""

    last = b""

    def __init__(self) -> None:
        self._read = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._read += data
        while (found := split(self._read)) is not None:
            method, body, length = found
            del self._read[:length]
            assert self._transport is not None
            self._transport.write(self._answer(method, body))

    def _answer(self, method: bytes, body: bytes) -> bytes:
        if method == b"GET":
            return framed(b"application/json", Loopback.last)
        Loopback.last = body
        return framed(b"text/event-stream", answer(body))


def split(read: bytes | bytearray) -> tuple[bytes, bytes, int] | None:
    """The method, the body and the whole length of the first request in `read`; None while it is not all there.

    Only a body of a stated length is understood. Raises `ValueError` for one that comes in chunks.
    """
    end = read.find(HEAD_END)
    if end < 0:
        return None
    head = bytes(read[:end]).lower()
    if b"\r\ntransfer-encoding:" in head:
        raise ValueError("bench.loopback: a request in chunks; send a Content-Length")
    _, found, rest = head.partition(b"\r\ncontent-length:")
    start = end + len(HEAD_END)
    length = start + (int(rest.partition(b"\r\n")[0]) if found else 0)
    if len(read) < length:
        return None
    return bytes(read[: read.find(b" ")]), bytes(read[start:length]), length


def answer(body: bytes) -> bytes:
    """The server-sent events that answer a request of Chat Completions."""
    messages = msgspec.json.decode(body, type=Asked).messages
    steps, done = told_openai(messages)
    calls = CALL.findall(steps[done]) if done < len(steps) else []
    # Ids of calls follow from how much was said before, so that they differ within a session.
    events = openai_events(f"step {len(messages)}", calls, len(body) // 4)
    return "".join(f"data: {event}\n\n" for event in events).encode()


def framed(kind: bytes, body: bytes) -> bytes:
    """An HTTP answer of one piece."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(body), body)


async def serve() -> None:
    """Serve on a free port of loopback until ended."""
    server = await asyncio.get_running_loop().create_server(Loopback, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
