"""The routes of ``/sync``: what opencode's servers tell each other of a session that moves between them.

There is one server for a session here, so that nothing is taken over; what is stored can be read.
"""

from collections.abc import AsyncIterator
from typing import cast

from starlette.responses import StreamingResponse

from instar import wire
from instar.api.event import HistoryEvent, Number, OfSession, ReplayBody, StealBody
from instar.plugin.route import operation
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.routes.events import stored_after
from instar.store import Store, Stored


class SyncRoutes:
    """Durable events as rows."""

    @operation("POST", "/sync/start", "sync.start")
    async def start(self, call: Call) -> bool:
        """See that a directory's sessions are kept up to date: here they always are."""
        await call.runtime()
        return True

    @operation("POST", "/sync/history", "sync.history.list")
    async def history(self, call: Call, body: dict[str, Number]) -> list[HistoryEvent]:
        """List the durable events of all sessions, of a session that the body names those after its number."""
        runtime = await call.runtime()
        rows = _array(runtime.instance.store, body)
        # All that was ever stored: sent as it is read, never held as a whole.
        return cast("list[HistoryEvent]", StreamingResponse(rows, media_type="application/json"))

    @operation("POST", "/sync/replay", "sync.replay")
    async def replay(self, call: Call, body: ReplayBody) -> OfSession:
        """Refuse to carry out another server's events."""
        await call.instances.get(body.directory)
        raise _not_here()

    @operation("POST", "/sync/steal", "sync.steal")
    async def steal(self, call: Call, body: StealBody) -> OfSession:
        """Refuse to take a session over from another server."""
        await call.runtime()
        raise _not_here()


async def _array(store: Store, known: dict[str, int]) -> AsyncIterator[bytes]:
    before = b"["
    async for stored in stored_after(store, 0, None):
        if stored.seq > known.get(stored.session_id, -1):
            yield before + _row(stored)
            before = b","
    yield b"[]" if before == b"[" else b"]"


def _row(stored: Stored) -> bytes:
    head = {
        "id": stored.event_id,
        "aggregate_id": stored.session_id,
        "seq": stored.seq,
        "type": f"{stored.type}.{stored.version}",
    }
    return b'%b,"data":%b}' % (wire.encode(head)[:-1], stored.data.encode())


def _not_here() -> Formed:
    """opencode's answer where it has no other server to sync with; its document knows no text for it."""
    return Formed(400, {"_tag": "BadRequest"})
