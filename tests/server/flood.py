"""A model's server whose answers have no end: ``python flood.py``; it prints its port.

The words of the last message name what it floods with: ``text``, ``thought``, ``arguments``, ``nothing`` (deltas that
say nothing) or ``comments``, one each 0.05 s; any other words get a short answer.
"""

import asyncio
import json

WORDS = "a flood of words " * 4


def delta(**said: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": said}]}).encode() + b"\n\n"


def call(**function: str) -> bytes:
    return delta(tool_calls=[{"index": 0, "id": "call_1", "function": function}])


FLOODS = {
    "text": (b"", delta(content=WORDS)),
    "thought": (b"", delta(reasoning_content=WORDS)),
    "arguments": (call(name="bash", arguments='{"command": "'), call(arguments=WORDS)),
    "nothing": (delta(content="hm"), delta(content="")),
    "comments": (delta(content="hm"), b": still here\n\n"),
}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    body = json.loads(await reader.readexactly(int(head.partition("content-length: ")[2].split("\r\n")[0])))
    said = body["messages"][-1]["content"]
    asked = (said if isinstance(said, str) else said[-1]["text"]).split()[-1]
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    if asked in FLOODS:
        first, piece = FLOODS[asked]
        writer.write(first)
        while True:
            writer.write(piece if asked == "comments" else piece * 100)
            await writer.drain()
            if asked == "comments":
                await asyncio.sleep(0.05)
    writer.write(delta(content="short") + b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n')
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()


async def main() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
