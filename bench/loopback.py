"""A model that costs next to nothing: `python -m bench.loopback` prints its address and serves.

Chat Completions over keep-alive connections on one asyncio loop; an answer is one write, so that what is measured is
the program that asked. What it says follows from the request's body, in the words of `bench.acting`: a line
`call NAME {json}` of the last user message is one step. A line `deltas N` in the last message is answered by so many
deltas of one word; `paced N` by the same one by one, as a model would say them. Who does not ask for a stream gets one
object. A GET answers with the body of the last request, so that a bench can send it again and learn what the model
alone takes.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.acting import CALL, openai_events, told_openai

HEAD_END: Final = b"\r\n\r\n"
DELTAS: Final = re.compile(r"^(deltas|paced) (\d+)$", re.MULTILINE)
PACE: Final = 0.0002
"""Seconds between the deltas of a long answer; a timer takes as long again."""


class Asked(msgspec.Struct):
    """What of a request decides the answer; the tools are passed over."""

    messages: list[dict[str, Any]]
    stream: bool = False


class Loopback(asyncio.Protocol):
    """One connection. `last` is the body of the last POST on any."""

    last = b""

    def __init__(self) -> None:
        self._read = bytearray()
        self._transport: asyncio.Transport | None = None
        self._pacing: asyncio.Task[None] | None = None

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
            self._answer(self._transport, method, body)

    def _answer(self, transport: asyncio.Transport, method: bytes, body: bytes) -> None:
        if method == b"GET":
            transport.write(framed(b"application/json", Loopback.last))
            return
        Loopback.last = body
        asked = msgspec.json.decode(body, type=Asked)
        found = DELTAS.search(last_text(asked.messages))
        events = list(deltas(int(found[2])) if found else answer(asked, len(body) // 4))
        if not asked.stream:
            transport.write(framed(b"application/json", whole(events)))
            return
        data = framed(b"text/event-stream", "".join(f"data: {event}\n\n" for event in events).encode())
        if found and found[1] == "paced":
            self._pacing = asyncio.create_task(paced(transport, data))
        else:
            transport.write(data)


async def paced(transport: asyncio.Transport, data: bytes) -> None:
    """Write an answer event by event, `PACE` seconds apart: what comes at once, a program may take at once."""
    for line in data.split(b"\n\n")[:-1]:
        transport.write(line + b"\n\n")
        await asyncio.sleep(PACE)


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


def answer(asked: Asked, size: int) -> Iterator[str]:
    """The chunks that answer a request of Chat Completions of so many tokens."""
    steps, done = told_openai(asked.messages)
    calls = CALL.findall(steps[done]) if done < len(steps) else []
    # Ids of calls follow from how much was said before, so that they differ within a session.
    yield from openai_events(f"step {len(asked.messages)}", calls, size)


def last_text(messages: list[dict[str, Any]]) -> str:
    """The text of the last message; empty unless a user's."""
    last = messages[-1]
    if last["role"] != "user":
        return ""
    content = last["content"]
    return content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content)


def deltas(count: int) -> Iterator[str]:
    """The chunks of an answer of so many words."""
    word = json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}}]})
    yield from [word] * count
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield json.dumps({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": count}})
    yield "[DONE]"


def whole(events: list[str]) -> bytes:
    """The answer of these chunks in one piece."""
    chunks = [json.loads(event) for event in events[:-1]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = "".join(one["delta"].get("content", "") for one in choices)
    if calls := [call for one in choices for call in one["delta"].get("tool_calls", [])]:
        message["tool_calls"] = calls
    reason = choices[-1]["finish_reason"]
    usage = {**chunks[-1]["usage"], "total_tokens": sum(chunks[-1]["usage"].values())}
    head = {"id": "answer", "object": "chat.completion", "created": 0, "model": "m", "usage": usage}
    return json.dumps(
        {**head, "choices": [{"index": 0, "finish_reason": reason, "message": message}]}
    ).encode()


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
