"""opencode's newer routes of a directory (``/api/…``): what it is, its files and terminals, and the events of all."""

import json
from typing import Final, TypeVar

from starlette.responses import Response

from instar.api.instance import ResumedEvents
from instar.api.operation import operation
from instar.api.project import FileSystemEntry
from instar.api.terminal import PtyConnectQuery, PtyCreateBody, PtyID, PtyTicketConnectToken, PtyUpdateBody
from instar.api.v2 import FindQuery, ListQuery, Located, LocationInfo, LocationProject, ReferenceInfo
from instar.event import Pty
from instar.project import files
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.dispatch import MEDIA
from instar.server.routes.events import STREAM, follow_all
from instar.server.routes.files import search
from instar.server.routes.pty import FORBIDDEN, PtyRoutes, admitted, join, new_terminal, terminal_of, ticket
from instar.server.stream import Published

T = TypeVar("T")

_USUAL: Final = 100
"""Names in an answer where the client gives no limit."""
_UNKNOWN: Final = frozenset(("server.instance.disposed",))
"""Event types that opencode's ``V2Event`` has no schema for."""
_PTY: Final = PtyRoutes()


def location_of(runtime: Runtime) -> LocationInfo:
    """Return the location of a runtime: its directory and project."""
    project = runtime.instance.project
    return LocationInfo(
        directory=str(runtime.instance.directory),
        project=LocationProject(id=project.id, directory=str(project.worktree)),
    )


def located(runtime: Runtime, data: T) -> Located[T]:
    """Return an answer with the location for which it holds."""
    return Located(location=location_of(runtime), data=data)


class LocationRoutes:
    """A directory: what it is, its files, and the events of all of them."""

    @operation("GET", "/api/location", "v2.location.get")
    async def location(self, call: Call) -> LocationInfo:
        """Get the location that a request is about: its directory and its project."""
        return location_of(await call.runtime())

    @operation("GET", "/api/reference", "v2.reference.list")
    async def references(self, call: Call) -> Located[list[ReferenceInfo]]:
        """List the references. Always empty: instar has none."""
        return located(await call.runtime(), [])

    @operation("GET", "/api/fs/list", "v2.fs.list")
    async def entries(self, call: Call, query: ListQuery) -> Located[list[FileSystemEntry]]:
        """List the files and folders in a folder; links are left out."""
        runtime = await call.runtime()
        return located(runtime, await files.entries(runtime.instance.project.directory, query.path))

    @operation("GET", "/api/fs/find", "v2.fs.find")
    async def find(self, call: Call, query: FindQuery) -> Located[list[FileSystemEntry]]:
        """Find files and folders whose path holds these letters in this order, best first."""
        runtime = await call.runtime()
        return located(runtime, await search(call, runtime, query.query, query.type, query.limit or _USUAL))

    @operation("GET", "/api/fs/read/{path:path}", "v2.fs.read", media="application/octet-stream")
    async def data(self, call: Call, path: str) -> Response:
        """Read a file's bytes."""
        runtime = await call.runtime()
        data, mime = await files.data(runtime.instance.project.directory, path)
        # A page that a repository holds must not run as if it were the server's own.
        headers = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
        return Response(data, headers={**headers, "Content-Type": mime})

    @operation("GET", "/api/event", "v2.event.subscribe", media=STREAM, scoped=False)
    async def events(self, call: Call, query: ResumedEvents) -> Response:
        """Follow the events of all directories, in the form of the newer routes."""
        return follow_all(call, query, event_message, but=_UNKNOWN)


def event_message(event: Published, position: str) -> bytes:
    """Return an event as ``{"id", "type", "durable", "location", "data"}``; a heartbeat is a comment."""
    if event.type == "server.heartbeat":
        return b": heartbeat\n\n"
    more: dict[str, object] = {}
    if event.seq is not None:
        more["durable"] = {"aggregateID": event.session_id or "", "seq": event.seq, "version": event.version}
    if event.directory is not None and event.project_id:
        more["location"] = {"directory": event.directory}
    head = json.dumps({"id": event.id, "type": event.type, **more}, separators=(",", ":"))
    return b'data: %b,"data":%b}\nid: %b\n\n' % (head[:-1].encode(), event.payload, position.encode())


class ApiPtyRoutes:
    """The same terminals. One that was opened here stays, as exited, until it is removed."""

    @operation("GET", "/api/pty", "v2.pty.list")
    async def all(self, runtime: Runtime) -> Located[list[Pty]]:
        """List the terminals, oldest first."""
        return located(runtime, await _PTY.all(runtime))

    @operation("POST", "/api/pty", "v2.pty.create", order=True)
    async def create(self, call: Call, body: PtyCreateBody | None = None) -> Located[Pty]:
        """Open a terminal and start a program in it."""
        runtime = await call.runtime()
        return located(runtime, await runtime.terminals.create(new_terminal(body), lasting=True))

    @operation("GET", "/api/pty/{ptyID}", "v2.pty.get", errors=(404,))
    async def get(self, runtime: Runtime, pty_id: PtyID) -> Located[Pty]:
        """Get a terminal."""
        return located(runtime, await _PTY.get(runtime, pty_id))

    @operation("PUT", "/api/pty/{ptyID}", "v2.pty.update", errors=(404,))
    async def update(
        self, runtime: Runtime, pty_id: PtyID, body: PtyUpdateBody | None = None
    ) -> Located[Pty]:
        """Set a terminal's title and size."""
        return located(runtime, await _PTY.update(runtime, pty_id, body))

    @operation("DELETE", "/api/pty/{ptyID}", "v2.pty.remove", errors=(404,), status=204)
    async def remove(self, runtime: Runtime, pty_id: PtyID) -> None:
        """End a terminal's program and forget the terminal."""
        await _PTY.remove(runtime, pty_id)

    @operation("POST", "/api/pty/{ptyID}/connect-token", "v2.pty.connectToken", errors=(404,))
    async def token(self, call: Call, pty_id: PtyID) -> Located[PtyTicketConnectToken]:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""
        runtime = await call.runtime()
        return located(runtime, ticket(call, runtime, pty_id, "ForbiddenError"))

    @operation("GET", "/api/pty/{ptyID}/connect", "v2.pty.connect", errors=(404,), media=MEDIA)
    async def connect(self, call: Call, pty_id: PtyID, query: PtyConnectQuery) -> bool:
        """Join a terminal over a web socket."""
        refused = {"_tag": "ForbiddenError", "message": FORBIDDEN}
        runtime = await admitted(call, pty_id, query.ticket, refused)
        return await join(call, terminal_of(runtime, pty_id), query.cursor)
