"""A server that speaks as much Chat Completions as a test asks of it; started as a process.

``python server.py FOLDER`` prints its port. The model of a request names a plan, ``FOLDER/MODEL.json``:
``status``, ``headers``, ``pieces`` (texts that are sent one by one, each as a chunk of its own; a number is
a pause in seconds, {"hex": …} bytes, "hang" silence for ever, "drop" a torn connection, {"together": …} a wait for so
many requests of this plan), ``before`` (seconds before the head), ``answers`` (how many requests a connection answers;
at the next one it is closed). Every request is appended to
``FOLDER/requests.jsonl`` with its headers and its raw body.
"""

import asyncio
import json
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first, headers, body


async def send(writer, plan, asked):
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"} | plan.get("headers", {})
    lines = [
        f"HTTP/1.1 {plan.get('status', 200)} X",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    await asyncio.sleep(plan.get("before", 0))
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    for piece in plan.get("pieces", []):
        if piece == "hang":
            await writer.drain()
            await asyncio.sleep(3600)
        if piece == "drop":
            await writer.drain()
            writer.transport.abort()
            raise ConnectionError
        if isinstance(piece, int | float):
            await writer.drain()
            await asyncio.sleep(piece)
            continue
        if isinstance(piece, dict) and "together" in piece:
            await writer.drain()
            while asked() < piece["together"]:
                await asyncio.sleep(0.01)
            continue
        data = bytes.fromhex(piece["hex"]) if isinstance(piece, dict) else piece.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def serve(folder):
    connections = 0
    asked = Counter()

    async def handle(reader, writer):
        nonlocal connections
        connections += 1
        number, answered = connections, 0
        try:
            while True:
                first, headers, body = await read_request(reader)
                wire = json.loads(body)
                # Some protocols name the model in the address.
                plan = wire.get("model") or re.search(r"plan-\d+", first).group()
                line = {
                    "plan": plan,
                    "first": first,
                    "connection": number,
                    "headers": headers,
                    "body": wire,
                    "raw": body.decode(),
                }
                with (folder / "requests.jsonl").open("a") as out:
                    out.write(json.dumps(line) + "\n")
                asked[plan] += 1
                told = json.loads((folder / f"{plan}.json").read_text())
                if answered == told.get("answers"):
                    break
                await send(writer, told, partial(asked.__getitem__, plan))
                answered += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            (folder / f"closed-{number}").touch()
        finally:
            writer.close()

    return handle


async def main():
    server = await asyncio.start_server(serve(Path(sys.argv[1])), "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
