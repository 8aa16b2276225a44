"""The routes of terminals, in their older form and in that of opencode's newer routes."""

from starlette.websockets import WebSocket

from instar.api.location import Located
from instar.api.pty import (
    PtyConnectQuery,
    PtyCreateBody,
    PtyID,
    PtyShell,
    PtyTicketConnectToken,
    PtyUpdateBody,
)
from instar.event import Pty
from instar.plugin.route import operation
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import BadRequest, Formed
from instar.server.location import located
from instar.server.sockets import MEDIA
from instar.server.terminal import converse
from instar.server.ticket import LIFE
from instar.terminal import Asked, NoTerminal, Terminal, shells

_HEADER = "x-opencode-ticket"
"""What a page of another site cannot send without being asked first; its value is ``1``."""
_FORBIDDEN = "Invalid PTY connect token request"


class PtyRoutes:
    """The terminals of a directory. One that was opened here is gone when its program has exited."""

    @operation("GET", "/pty/shells", "pty.shells")
    async def shells(self, call: Call) -> list[PtyShell]:
        """List the shells of the machine."""
        runtime = await call.runtime()
        return [PtyShell(**one._asdict()) for one in shells(runtime.instance.environment)]

    @operation("GET", "/pty", "pty.list")
    async def all(self, call: Call) -> list[Pty]:
        """List the terminals, oldest first."""
        return (await call.runtime()).terminals.list()

    @operation("POST", "/pty", "pty.create", order=True)
    async def create(self, call: Call, body: PtyCreateBody | None = None) -> Pty:
        """Open a terminal and start a program in it."""
        return await (await call.runtime()).terminals.create(_asked(body))

    @operation("GET", "/pty/{ptyID}", "pty.get", errors=(404,))
    async def get(self, call: Call, pty_id: PtyID) -> Pty:
        """Get a terminal."""
        return _terminal(await call.runtime(), pty_id).info

    @operation("PUT", "/pty/{ptyID}", "pty.update", errors=(404,))
    async def update(self, call: Call, pty_id: PtyID, body: PtyUpdateBody | None = None) -> Pty:
        """Set a terminal's title and size."""
        return _updated(await call.runtime(), pty_id, body)

    @operation("DELETE", "/pty/{ptyID}", "pty.remove", errors=(404,))
    async def remove(self, call: Call, pty_id: PtyID) -> bool:
        """End a terminal's program and forget the terminal."""
        await _remove(await call.runtime(), pty_id)
        return True

    @operation("POST", "/pty/{ptyID}/connect-token", "pty.connectToken", errors=(404,))
    async def token(self, call: Call, pty_id: PtyID) -> PtyTicketConnectToken:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        return _ticket(call, await call.runtime(), pty_id, "PtyForbiddenError")

    @operation("GET", "/pty/{ptyID}/connect", "pty.connect", errors=(404,), media=MEDIA)
    async def connect(self, call: Call, pty_id: PtyID, query: PtyConnectQuery) -> bool:
        """Join a terminal over a web socket."""
        return await _connected(call, pty_id, query, {"_tag": "Forbidden"})


class ApiPtyRoutes:
    """The same terminals. One that was opened here stays, as exited, until it is removed."""

    @operation("GET", "/api/pty", "v2.pty.list")
    async def all(self, call: Call) -> Located[list[Pty]]:
        """List the terminals, oldest first."""
        runtime = await call.runtime()
        return located(runtime, runtime.terminals.list())

    @operation("POST", "/api/pty", "v2.pty.create", order=True)
    async def create(self, call: Call, body: PtyCreateBody | None = None) -> Located[Pty]:
        """Open a terminal and start a program in it."""
        runtime = await call.runtime()
        return located(runtime, await runtime.terminals.create(_asked(body), lasting=True))

    @operation("GET", "/api/pty/{ptyID}", "v2.pty.get", errors=(404,))
    async def get(self, call: Call, pty_id: PtyID) -> Located[Pty]:
        """Get a terminal."""
        runtime = await call.runtime()
        return located(runtime, _terminal(runtime, pty_id).info)

    @operation("PUT", "/api/pty/{ptyID}", "v2.pty.update", errors=(404,))
    async def update(self, call: Call, pty_id: PtyID, body: PtyUpdateBody | None = None) -> Located[Pty]:
        """Set a terminal's title and size."""
        runtime = await call.runtime()
        return located(runtime, _updated(runtime, pty_id, body))

    @operation("DELETE", "/api/pty/{ptyID}", "v2.pty.remove", errors=(404,), status=204)
    async def remove(self, call: Call, pty_id: PtyID) -> None:
        """End a terminal's program and forget the terminal."""
        await _remove(await call.runtime(), pty_id)

    @operation("POST", "/api/pty/{ptyID}/connect-token", "v2.pty.connectToken", errors=(404,))
    async def token(self, call: Call, pty_id: PtyID) -> Located[PtyTicketConnectToken]:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        runtime = await call.runtime()
        return located(runtime, _ticket(call, runtime, pty_id, "ForbiddenError"))

    @operation("GET", "/api/pty/{ptyID}/connect", "v2.pty.connect", errors=(404,), media=MEDIA)
    async def connect(self, call: Call, pty_id: PtyID, query: PtyConnectQuery) -> bool:
        """Join a terminal over a web socket."""
        return await _connected(call, pty_id, query, {"_tag": "ForbiddenError", "message": _FORBIDDEN})


def _asked(body: PtyCreateBody | None) -> Asked:
    given = body or PtyCreateBody()
    return Asked(
        command=given.command or "",
        args=given.args or (),
        cwd=given.cwd or "",
        title=given.title or "",
        env=given.env or {},
    )


def _updated(runtime: Runtime, pty_id: str, body: PtyUpdateBody | None) -> Pty:
    given = body or PtyUpdateBody()
    size = None if given.size is None else (given.size.rows, given.size.cols)
    _terminal(runtime, pty_id)
    return runtime.terminals.update(pty_id, given.title, size)


async def _remove(runtime: Runtime, pty_id: str) -> None:
    _terminal(runtime, pty_id)
    await runtime.terminals.remove(pty_id)


def _terminal(runtime: Runtime, pty_id: str) -> Terminal:
    try:
        return runtime.terminals.get(pty_id)
    except NoTerminal as error:
        form = {"_tag": "PtyNotFoundError", "ptyID": pty_id, "message": str(error)}
        raise Formed(404, form) from error


def _ticket(call: Call, runtime: Runtime, pty_id: str, tag: str) -> PtyTicketConnectToken:
    if call.request.headers.get(_HEADER) != "1":
        raise Formed(403, {"_tag": tag, "message": _FORBIDDEN})
    _terminal(runtime, pty_id)
    ticket = call.instances.tickets.issue(pty_id, str(runtime.instance.directory))
    return PtyTicketConnectToken(ticket=ticket, expires_in=LIFE)


async def _connected(call: Call, pty_id: str, query: PtyConnectQuery, refused: dict[str, str]) -> bool:
    """Join a terminal. A ticket, where there is one, must be good, also beside a password; it is used up first."""
    place = None if query.ticket is None else call.instances.tickets.redeem(query.ticket, pty_id)
    if query.ticket is not None and place is None:
        raise Formed(403, refused)
    runtime = await call.runtime()
    if place is not None and place != str(runtime.instance.directory):
        raise Formed(403, refused)
    terminal = runtime.terminals.get(pty_id) if "message" not in refused else _terminal(runtime, pty_id)
    socket = call.request
    if not isinstance(socket, WebSocket):
        raise BadRequest("a terminal is joined over a web socket: ask for an upgrade")
    await converse(socket, terminal, query.cursor)
    return True
