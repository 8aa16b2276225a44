"""The routes that change and look back at a session: revert, fork, diff, single messages, its own fields."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from instar import ids
from instar.api.session import ChangeBody, DiffQuery, ForkBody, RevertBody, SummarizeBody
from instar.event import Todo
from instar.message import FileDiff, KnownPart, ModelRef, Session, WithParts
from instar.plugin import Busy, NotFound
from instar.plugin.route import operation
from instar.server.call import Call
from instar.server.errors import BadRequest

_LATEST: Final = 8_640_000_000_000_000
"""The last millisecond that a client's clock knows; what is far beyond it cannot be stored."""


class HistoryRoutes:
    """A session's past."""

    @operation("PATCH", "/session/{sessionID}", "session.update", errors=(404,))
    async def change(self, call: Call, session_id: ids.SessionID, body: ChangeBody | None = None) -> Session:
        """Change a session's title or metadata, put it away, or add permission rules to its own."""
        runtime = await call.of_session(session_id)
        given = body or ChangeBody()
        archived = given.time.archived if given.time is not None else None
        if archived is not None and not 0 <= archived <= _LATEST:
            raise BadRequest(f"time.archived must be milliseconds since 1970, found {archived!r}")
        return await runtime.session.update(
            session_id,
            title=given.title,
            archived=None if archived is None else int(archived),
            metadata=given.metadata,
            permission=given.permission or (),
        )

    @operation("POST", "/session/{sessionID}/revert", "session.revert", errors=(404, 409))
    async def revert(self, call: Call, session_id: ids.SessionID, body: RevertBody) -> Session:
        """Take a session and the files that it changed back to before a message."""
        runtime = await call.of_session(session_id)
        return (await runtime.session.revert(session_id, body.message_id, body.part_id)).session

    @operation("POST", "/session/{sessionID}/unrevert", "session.unrevert", errors=(404, 409))
    async def unrevert(self, call: Call, session_id: ids.SessionID) -> Session:
        """Undo a revert, the files with it."""
        return (await (await call.of_session(session_id)).session.unrevert(session_id)).session

    @operation("POST", "/session/{sessionID}/fork", "session.fork", errors=(404,))
    async def fork(self, call: Call, session_id: ids.SessionID, body: ForkBody | None = None) -> Session:
        """Make a session of copies of another one's messages."""
        runtime = await call.of_session(session_id)
        return await runtime.session.fork(session_id, (body or ForkBody()).message_id)

    @operation("GET", "/session/{sessionID}/diff", "session.diff")
    async def diff(self, call: Call, session_id: ids.SessionID, query: DiffQuery) -> Sequence[FileDiff]:
        """Tell how the files differ that a session changed; nothing of a session or message that is not there."""
        try:
            return await (await call.of_session(session_id)).session.diff(session_id, query.message_id)
        except NotFound:
            return []

    @operation("POST", "/session/{sessionID}/summarize", "session.summarize", errors=(404,))
    async def summarize(self, call: Call, session_id: ids.SessionID, body: SummarizeBody) -> bool:
        """Summarise a session; answers when the summary is written."""
        runtime = await call.of_session(session_id)
        model = ModelRef(provider_id=body.provider_id, model_id=body.model_id)
        await runtime.session.summarize(session_id, model)
        return True

    @operation("GET", "/session/{sessionID}/children", "session.children", errors=(404,))
    async def children(self, call: Call, session_id: ids.SessionID) -> Sequence[Session]:
        """List the sessions whose parent a session is, last updated first."""
        return await (await call.of_session(session_id)).session.children(session_id)

    @operation("GET", "/session/{sessionID}/todo", "session.todo", errors=(404,))
    async def todo(self, call: Call, session_id: ids.SessionID) -> Sequence[Todo]:
        """Get a session's list of things to do."""
        return await (await call.of_session(session_id)).session.todos(session_id)

    @operation("GET", "/session/{sessionID}/message/{messageID}", "session.message", errors=(404,))
    async def message(self, call: Call, session_id: ids.SessionID, message_id: ids.MessageID) -> WithParts:
        """Get a message."""
        return await (await call.of_session(session_id)).session.message(session_id, message_id)

    @operation(
        "DELETE", "/session/{sessionID}/message/{messageID}", "session.deleteMessage", errors=(404, 409)
    )
    async def remove_message(self, call: Call, session_id: ids.SessionID, message_id: ids.MessageID) -> bool:
        """Delete a message; files stay as they are."""
        await (await call.of_session(session_id)).session.remove(session_id, message_id)
        return True

    @operation(
        "DELETE", "/session/{sessionID}/message/{messageID}/part/{partID}", "part.delete", errors=(404,)
    )
    async def remove_part(
        self, call: Call, session_id: ids.SessionID, message_id: ids.MessageID, part_id: ids.PartID
    ) -> bool:
        """Delete a part of a message. While a turn runs it is refused (400)."""
        sessions = (await call.of_session(session_id)).session
        with unless_busy():
            await sessions.remove(session_id, message_id, part_id)
        return True

    @operation(
        "PATCH", "/session/{sessionID}/message/{messageID}/part/{partID}", "part.update", errors=(404,)
    )
    async def change_part(
        self,
        call: Call,
        session_id: ids.SessionID,
        message_id: ids.MessageID,
        part_id: ids.PartID,
        body: KnownPart,
    ) -> KnownPart:
        """Change a part of a message; its type stays. While a turn runs it is refused (400)."""
        sessions = (await call.of_session(session_id)).session
        if (body.id, body.message_id, body.session_id) != (part_id, message_id, session_id):
            raise BadRequest("the part's id, messageID and sessionID must be those of the path")
        with unless_busy():
            return await sessions.put_part(session_id, body)


@contextlib.contextmanager
def unless_busy() -> Iterator[None]:
    """Refuse what cannot be done while a turn runs, where the document knows no status for that but 400."""
    try:
        yield
    except Busy as error:
        raise BadRequest(str(error)) from error
