"""opencode's newer routes of a session's past: its messages, its durable events, and how it is taken back."""

from starlette.responses import Response

from instar import ids
from instar.api.session_event import SessionDurableEvent
from instar.api.session_v2 import (
    AfterQuery,
    HistoryQuery,
    Messages,
    OneMessage,
    Order,
    SessionHistory,
    SessionMessagesQuery,
    SessionMessagesResponse,
    StageBody,
    Staged,
)
from instar.message import visible
from instar.plugin import NotFound
from instar.plugin.route import operation
from instar.projection import revert_state, session_messages
from instar.server.call import Call
from instar.server.cursor import Place, Way, around, opened, paged, refused
from instar.server.errors import Formed
from instar.server.routes.history import unless_busy
from instar.server.session_stream import SessionStream, history
from instar.wire import Wire

_MOST_EVENTS = 1000
"""Events in one answer."""


class ApiHistoryRoutes:
    """What was said and done in a session, in the newer form."""

    @operation(
        "POST",
        "/api/session/{sessionID}/revert/stage",
        "v2.session.revert.stage",
        scoped=False,
        errors=(404,),
    )
    async def stage(self, call: Call, session_id: ids.SessionID, body: StageBody) -> Staged:
        """Take a session, and the files that it changed, back to before a message."""
        runtime = await call.of_session(session_id)
        try:
            with unless_busy():
                done = await runtime.session.revert(
                    session_id, body.message_id, files=body.files is not False
                )
        except NotFound:
            raise _no_message(session_id, body.message_id) from None
        assert done.session.revert is not None
        return Staged(data=revert_state(done.session.revert))

    @operation(
        "POST",
        "/api/session/{sessionID}/revert/clear",
        "v2.session.revert.clear",
        status=204,
        scoped=False,
        errors=(404,),
    )
    async def clear(self, call: Call, session_id: ids.SessionID) -> None:
        """Undo a revert, the files with it."""
        runtime = await call.of_session(session_id)
        with unless_busy():
            await runtime.session.unrevert(session_id)

    @operation(
        "POST",
        "/api/session/{sessionID}/revert/commit",
        "v2.session.revert.commit",
        status=204,
        scoped=False,
        errors=(404,),
    )
    async def commit(self, call: Call, session_id: ids.SessionID) -> None:
        """Drop what a session was taken back from for good."""
        runtime = await call.of_session(session_id)
        with unless_busy():
            await runtime.session.settle(session_id)

    @operation("GET", "/api/session/{sessionID}/context", "v2.session.context", scoped=False, errors=(404,))
    async def context(self, call: Call, session_id: ids.SessionID) -> Messages:
        """List the messages that the next prompt's model sees, oldest first: from the last summary on."""
        runtime = await call.of_session(session_id)
        return Messages(data=session_messages(visible(await runtime.session.messages(session_id))))

    @operation("GET", "/api/session/{sessionID}/history", "v2.session.history", scoped=False, errors=(404,))
    async def history(self, call: Call, session_id: ids.SessionID, query: HistoryQuery) -> SessionHistory:
        """List a session's durable events."""
        runtime = await call.of_session(session_id)
        limit = min(query.limit or _MOST_EVENTS, _MOST_EVENTS)
        told, more = await history(runtime.instance.store, session_id, query.after, limit)
        return SessionHistory(data=told, has_more=more)

    @operation(
        "GET",
        "/api/session/{sessionID}/event",
        "v2.session.events",
        media="text/event-stream",
        scoped=False,
        errors=(404,),
        events=SessionDurableEvent,
    )
    async def events(self, call: Call, session_id: ids.SessionID, query: AfterQuery) -> Response:
        """Follow a session's durable events: first those that there are, then those that come."""
        runtime = await call.of_session(session_id)
        return SessionStream(call.instances.feed, runtime.instance.store, session_id, query.after)

    @operation("GET", "/api/session/{sessionID}/message", "v2.session.messages", scoped=False, errors=(404,))
    async def messages(
        self, call: Call, session_id: ids.SessionID, query: SessionMessagesQuery
    ) -> SessionMessagesResponse:
        """List a session's messages, newest first unless `order` is ``asc``."""
        mark = None if query.cursor is None else opened(query.cursor, _Mark)
        if mark is not None and query.order is not None:
            raise refused("Cursor cannot be combined with order")
        runtime = await call.of_session(session_id)
        every = session_messages(await runtime.session.messages(session_id))
        at = {one.id: index for index, one in enumerate(every)}
        order = query.order or "desc" if mark is None else mark.order
        if mark is not None and mark.id not in at:
            raise refused("Invalid cursor")
        place = None if mark is None else Place(at[mark.id], mark.direction)
        shown = paged(every, lambda one: at[one.id], order, place, query.limit)
        cursors = around(shown, lambda one, way: _Mark(id=one.id, order=order, direction=way))
        return SessionMessagesResponse(data=shown, cursor=cursors)

    @operation(
        "GET",
        "/api/session/{sessionID}/message/{messageID}",
        "v2.session.message",
        scoped=False,
        errors=(404,),
    )
    async def message(self, call: Call, session_id: ids.SessionID, message_id: ids.MessageID) -> OneMessage:
        """Get a message."""
        runtime = await call.of_session(session_id)
        every = session_messages(await runtime.session.messages(session_id))
        one = next((one for one in every if one.id == message_id), None)
        if one is None:
            raise _no_message(session_id, message_id)
        return OneMessage(data=one)


class _Mark(Wire):
    """What the cursor of a page of messages holds: the message next to which it is, and its order."""

    id: str
    order: Order
    direction: Way


def _no_message(session_id: str, message_id: str) -> Formed:
    why = f"Message not found: {message_id}"
    form = {
        "_tag": "MessageNotFoundError",
        "sessionID": session_id,
        "messageID": message_id,
        "message": why,
    }
    return Formed(404, form)
