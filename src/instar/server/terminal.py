"""A terminal over a web socket, as opencode's clients speak it.

The server sends what was printed as text; once what had been printed before is told, a binary message
``\\0{"cursor": N}`` says the place that was reached. What the client sends, text or binary, is typed. The socket is
closed with 1000 when the terminal is over, and at once with 4404 where it was over before.
"""

import asyncio
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from instar import wire
from instar.server.connection import ABORT
from instar.terminal import Full, Lost, Terminal

FRAME: Final = 64 * 1024
"""UTF-16 code units of one message."""
NEWEST: Final = 256 * 1024
"""Units with which a client goes on that has missed some."""
STALLED: Final = 20.0
"""Seconds that a client may take over one message."""
OVER: Final = 4404
UNREAD: Final = 1008


async def converse(socket: WebSocket, terminal: Terminal, cursor: str | None) -> None:
    """Show a terminal to a client, and type what it sends, until one of them has gone.

    The terminal waits for nobody. A client that is further behind than what is kept goes on with the newest of it,
    after a message with its new place; one that takes too long over a message loses its connection.
    """
    await socket.accept()
    if terminal.over:
        await socket.close(OVER, "session exited")
        return
    tasks = [asyncio.create_task(_show(socket, terminal, _place(terminal, cursor)))]
    tasks.append(asyncio.create_task(_listen(socket, terminal)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    # Only now nobody else sends: what follows is the last that the client hears.
    for error in ended:
        await _part(socket, error)
    if ended[0] is None:
        await socket.close(1000)


async def _part(socket: WebSocket, error: BaseException | None) -> None:
    match error:
        case Full():
            await socket.close(UNREAD, str(error)[:100])
        case TimeoutError():
            socket.scope["state"][ABORT]()
        case None | WebSocketDisconnect() | asyncio.CancelledError():
            return
        case _:
            raise error


async def _show(socket: WebSocket, terminal: Terminal, place: int) -> None:
    reached = terminal.printed.end
    while place < reached:
        place = await _forward(socket, terminal, place)
    await _tell(socket, place)
    while not terminal.over or place < terminal.printed.end:
        place = await _forward(socket, terminal, place)


async def _forward(socket: WebSocket, terminal: Terminal, place: int) -> int:
    """Send what was printed from a place on; return the place behind it."""
    try:
        text, place = await terminal.read(place, FRAME)
    except Lost:
        place = max(terminal.printed.start, terminal.printed.end - NEWEST)
        await _tell(socket, place)
        return place
    if text:
        await _send(socket, {"text": text})
    return place


async def _tell(socket: WebSocket, place: int) -> None:
    await _send(socket, {"bytes": b"\0" + wire.encode({"cursor": place})})


async def _send(socket: WebSocket, message: dict[str, Any]) -> None:
    async with asyncio.timeout(STALLED):
        await socket.send({"type": "websocket.send", **message})


async def _listen(socket: WebSocket, terminal: Terminal) -> None:
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        terminal.write(message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace"))


def _place(terminal: Terminal, cursor: str | None) -> int:
    """The place that a client asks for; the beginning of what is kept where it says none, or none that could be."""
    start, end = terminal.printed.start, terminal.printed.end
    if cursor == "-1":
        return end
    asked = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < 20 else 0
    return min(max(asked, start), end)
