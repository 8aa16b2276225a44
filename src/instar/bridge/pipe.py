"""The connection of `instar bridge`: frames on the stdin and stdout that it was started with."""

import asyncio
import os

from instar.jshost.peer import Answer, Peer


async def connect(answer: Answer) -> Peer:
    """Take stdin and stdout over, and return who speaks on them.

    From then on stdin is empty and what is printed goes to stderr: a plugin's ``print`` must not break a frame, and a
    child must not read one.
    """
    loop = asyncio.get_running_loop()
    taken, given = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(taken, "rb", 0))
    # A protocol serves one pipe; that of the other is never read from.
    idle = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: idle, os.fdopen(given, "wb", 0))
    return Peer(reader, asyncio.StreamWriter(transport, idle, None, loop), answer)
