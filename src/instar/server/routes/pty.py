"""The routes of terminals, and the conversation with one over a web socket, as opencode's clients speak it.

The server sends what was printed as text. Once it has sent what was printed before, a binary message
``\\0{"cursor": N}`` gives the position that was reached. What the client sends, text or binary, is typed. The socket is
closed with 1000 when the terminal is over, and at once with 4404 if it was over before.
"""

import asyncio
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from instar import wire
from instar.api.operation import operation
from instar.api.terminal import (
    PtyConnectQuery,
    PtyCreateBody,
    PtyID,
    PtyShell,
    PtyTicketConnectToken,
    PtyUpdateBody,
)
from instar.event import Pty
from instar.runtime import Runtime
from instar.server.access import LIFE
from instar.server.call import Call
from instar.server.connection import ABORT
from instar.server.dispatch import MEDIA
from instar.server.errors import BadRequest, Formed
from instar.session.instance import Instance
from instar.terminal import Full, Lost, NoTerminal, Terminal, TerminalRequest, shells

_HEADER: Final = "x-opencode-ticket"
"""A header that a page of another site cannot send without a preflight; its value is ``1``."""
FORBIDDEN: Final = "Invalid PTY connect token request"


class PtyRoutes:
    """The terminals of a directory. One that was opened here is gone when its program has exited."""

    @operation("GET", "/pty/shells", "pty.shells")
    async def shells(self, instance: Instance) -> list[PtyShell]:
        """List the shells of the machine."""
        return [PtyShell(**one._asdict()) for one in shells(instance.environment)]

    @operation("GET", "/pty", "pty.list")
    async def all(self, runtime: Runtime) -> list[Pty]:
        """List the terminals, oldest first."""
        return runtime.terminals.list()

    @operation("POST", "/pty", "pty.create", order=True)
    async def create(self, runtime: Runtime, body: PtyCreateBody | None = None) -> Pty:
        """Open a terminal and start a program in it."""
        return await runtime.terminals.create(new_terminal(body))

    @operation("GET", "/pty/{ptyID}", "pty.get", errors=(404,))
    async def get(self, runtime: Runtime, pty_id: PtyID) -> Pty:
        """Get a terminal."""
        return terminal_of(runtime, pty_id).info

    @operation("PUT", "/pty/{ptyID}", "pty.update", errors=(404,))
    async def update(self, runtime: Runtime, pty_id: PtyID, body: PtyUpdateBody | None = None) -> Pty:
        """Set a terminal's title and size."""
        given = body or PtyUpdateBody()
        size = None if given.size is None else (given.size.rows, given.size.cols)
        terminal_of(runtime, pty_id)
        return runtime.terminals.update(pty_id, given.title, size)

    @operation("DELETE", "/pty/{ptyID}", "pty.remove", errors=(404,))
    async def remove(self, runtime: Runtime, pty_id: PtyID) -> bool:
        """End a terminal's program and forget the terminal."""
        terminal_of(runtime, pty_id)
        await runtime.terminals.remove(pty_id)
        return True

    @operation("POST", "/pty/{ptyID}/connect-token", "pty.connectToken", errors=(404,))
    async def token(self, call: Call, runtime: Runtime, pty_id: PtyID) -> PtyTicketConnectToken:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        return ticket(call, runtime, pty_id, "PtyForbiddenError")

    @operation("GET", "/pty/{ptyID}/connect", "pty.connect", errors=(404,), media=MEDIA)
    async def connect(self, call: Call, pty_id: PtyID, query: PtyConnectQuery) -> bool:
        """Join a terminal over a web socket."""
        runtime = await admitted(call, pty_id, query.ticket, {"_tag": "Forbidden"})
        return await join(call, runtime.terminals.get(pty_id), query.cursor)


def new_terminal(body: PtyCreateBody | None) -> TerminalRequest:
    """Return what a body asks for."""
    given = body or PtyCreateBody()
    return TerminalRequest(
        command=given.command or "",
        args=given.args or (),
        cwd=given.cwd or "",
        title=given.title or "",
        env=given.env or {},
    )


def terminal_of(runtime: Runtime, pty_id: str) -> Terminal:
    """Return a terminal. Raises `Formed` (404) where there is none."""
    try:
        return runtime.terminals.get(pty_id)
    except NoTerminal as error:
        form = {"_tag": "PtyNotFoundError", "ptyID": pty_id, "message": str(error)}
        raise Formed(404, form) from error


def ticket(call: Call, runtime: Runtime, pty_id: str, tag: str) -> PtyTicketConnectToken:
    """Return a ticket for a terminal. Raises `Formed` (403, `tag`) for a request without the header."""
    if call.request.headers.get(_HEADER) != "1":
        raise Formed(403, {"_tag": tag, "message": FORBIDDEN})
    terminal_of(runtime, pty_id)
    issued = call.instances.tickets.issue(pty_id, str(runtime.instance.directory))
    return PtyTicketConnectToken(ticket=issued, expires_in=LIFE)


async def admitted(call: Call, pty_id: str, given: str | None, refused: dict[str, str]) -> Runtime:
    """Return the runtime of a request for a terminal. Raises `Formed` (403, `refused`) for a ticket that is not good.

    A ticket must be good also beside a password, and is used up.
    """
    directory = None if given is None else call.instances.tickets.redeem(given, pty_id)
    if given is not None and directory is None:
        raise Formed(403, refused)
    runtime = await call.runtime()
    if directory is not None and directory != str(runtime.instance.directory):
        raise Formed(403, refused)
    return runtime


async def join(call: Call, terminal: Terminal, cursor: str | None) -> bool:
    """Connect the client with a terminal until one of them is gone. Raises `BadRequest` for a plain request."""
    if not isinstance(call.request, WebSocket):
        raise BadRequest("a terminal is joined over a web socket: ask for an upgrade")
    await converse(call.request, terminal, cursor)
    return True


FRAME: Final = 64 * 1024
"""UTF-16 code units of one message."""
NEWEST: Final = 256 * 1024
"""UTF-16 code units that a client gets that has missed some: the newest."""
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
