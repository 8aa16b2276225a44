"""opencode's newer routes of sessions (``/api/session``) and of their past: messages, durable events, reverts.

A page of a list names the pages before and after it by cursors, which hold its first and its last entry.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec
from starlette.responses import Response

from instar.api.operation import operation
from instar.api.v2_message import RevertState, SessionDurableEvent, SessionMessage
from instar.api.v2_session import (
    AdmitBody,
    AfterQuery,
    AgentBody,
    CreateBody,
    Cursors,
    Data,
    HistoryQuery,
    ModelBody,
    Order,
    Page,
    SessionActive,
    SessionHistory,
    SessionInputAdmitted,
    SessionMessagesQuery,
    SessionsQuery,
    SessionV2Info,
    StageBody,
)
from instar.message import PERSON, ModelRef, Session, SessionModel, User, WithParts, visible
from instar.opencode.v2_events import SessionStream, history, kept
from instar.opencode.v2_messages import (
    given_prompt,
    prompt_body,
    prompt_of,
    revert_state,
    session_info,
    session_messages,
)
from instar.plugin import NotFound, PromptBody, SessionBody
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import BadRequest, Formed
from instar.server.routes.sessions import seal, unless_busy, unseal
from instar.session.sessions import DEFAULT_VARIANT
from instar.wire import Wire, ids

T = TypeVar("T")

session_operation: Final = partial(operation, scoped=False, errors=(404,))
"""Declares an operation on one session."""

Direction = Literal["previous", "next"]
USUAL: Final = 50
"""How many entries a page has, where the query names no limit (as a real opencode 1.18.33 answers)."""


class PagePosition(msgspec.Struct, frozen=True):
    """Where a page begins: `next` to the entry with this key, or the `previous` ones."""

    key: Any
    direction: Direction


def paged(
    found: Sequence[T], key: Callable[[T], Any], order: Order, place: PagePosition | None, limit: int | None
) -> list[T]:
    """Return a page of entries in an order of their keys; `place` None is the first page."""
    entries = sorted(found, key=key, reverse=order == "desc")
    most = limit or USUAL
    if place is None:
        return entries[:most]
    rises = (place.direction == "next") == (order == "asc")
    beyond = [one for one in entries if (key(one) > place.key if rises else key(one) < place.key)]
    return beyond[:most] if place.direction == "next" else beyond[-most:]


def around(shown: Sequence[T], cursor: Callable[[T, Direction], object]) -> Cursors:
    """Return the cursors of a page; an empty one has none. `cursor` gives what they hold."""
    if not shown:
        return Cursors()
    return Cursors(previous=seal(cursor(shown[0], "previous")), next=seal(cursor(shown[-1], "next")))


def opened(cursor: str, kind: type[T]) -> T:
    """Return a cursor's content. Raises `Formed` for an invalid one."""
    try:
        return msgspec.convert(unseal(cursor), kind)
    except (ValueError, msgspec.ValidationError):
        raise refused("Invalid cursor") from None


def refused(why: str) -> Formed:
    """Return the error for a cursor that cannot be used."""
    return Formed(400, {"_tag": "InvalidCursorError", "message": why})


class ApiSessionRoutes:
    """Sessions in the newer form."""

    @operation("GET", "/api/session", "v2.session.list", scoped=False)
    async def sessions(self, call: Call, query: SessionsQuery) -> Page[SessionV2Info]:
        """List the sessions of all projects, last made first."""
        limit, place = query.limit, None
        if query.cursor is not None:
            query = page = opened(query.cursor, _Page)
            place = PagePosition((page.anchor.time, page.anchor.id), page.anchor.direction)
        store = (await call.instances.get(None)).instance.store
        every = await store.sessions(query.project, directory=query.directory, archived=True)
        wanted = [one for one in every if _is_wanted(one, query)]
        shown = paged(wanted, lambda one: (one.time.created, one.id), query.order or "desc", place, limit)
        asked = {name: getattr(query, name) for name in _ASKED}

        def cursor(one: Session, direction: Direction) -> object:
            return _Page(**asked, anchor=_Anchor(id=one.id, time=one.time.created, direction=direction))

        return Page(data=[session_info(one) for one in shown], cursor=around(shown, cursor))

    @operation("POST", "/api/session", "v2.session.create", scoped=False)
    async def create(self, call: Call, body: CreateBody | None = None) -> Data[SessionV2Info]:
        """Make a session; under an id that there is one of, return that one."""
        given = body or CreateBody()
        where = given.location
        runtime = await call.instances.get(where.directory if where is not None else call.directory)
        if given.id is not None and (known := await runtime.instance.store.session(given.id)) is not None:
            return Data(data=session_info(known))
        model = None if given.model is None else msgspec.to_builtins(given.model)
        wanted = SessionBody(
            agent=given.agent, model=model, workspace_id=where.workspace_id if where is not None else None
        )
        try:
            return Data(data=session_info(await runtime.session.create(wanted, given.id)))
        except NotFound as error:  # of the workspace: the document knows no 404 here
            raise BadRequest(str(error)) from error

    @operation("GET", "/api/session/active", "v2.session.active", scoped=False)
    async def active(self, call: Call) -> Data[dict[str, SessionActive]]:
        """Tell in which sessions turns run."""
        await call.instances.get(None)
        running = [live.id for one in call.instances.opened() for live in one.instance.sessions.running()]
        return Data(data={session_id: SessionActive() for session_id in running})

    @session_operation("GET", "/api/session/{sessionID}", "v2.session.get")
    async def get(self, call: Call, session_id: ids.SessionID) -> Data[SessionV2Info]:
        """Get a session."""
        runtime = await call.of_session(session_id)
        return Data(data=session_info(await runtime.session.get(session_id)))

    @session_operation("POST", "/api/session/{sessionID}/agent", "v2.session.switchAgent", status=204)
    async def switch_agent(self, call: Call, session_id: ids.SessionID, body: AgentBody) -> None:
        """Let a session go on with another agent."""
        await (await call.of_session(session_id)).session.update(session_id, agent=body.agent)

    @session_operation("POST", "/api/session/{sessionID}/model", "v2.session.switchModel", status=204)
    async def switch_model(self, call: Call, session_id: ids.SessionID, body: ModelBody) -> None:
        """Let a session go on with another model."""
        await (await call.of_session(session_id)).session.update(session_id, model=body.model)

    @session_operation("POST", "/api/session/{sessionID}/prompt", "v2.session.prompt", errors=(404, 409))
    async def prompt(
        self, call: Call, session_id: ids.SessionID, body: AdmitBody
    ) -> Data[SessionInputAdmitted]:
        """Take a prompt; answers when it is kept, its turn goes on by itself.

        The same prompt under the same id is taken once, another one under a known id is refused (409).
        """
        runtime = await call.of_session(session_id)
        message_id = body.id or ids.new("msg")
        known = await _known(runtime, session_id, message_id)
        if known is None:
            return Data(data=await _admit(runtime, session_id, message_id, body))
        if prompt_of(known.parts).text != body.prompt.text:
            why = f"Prompt message ID conflicts with an existing durable record: {message_id}"
            form = {"_tag": "ConflictError", "message": why, "resource": message_id}
            raise Formed(409, form)
        seq = await _seq_of(runtime, session_id, message_id, 0)
        return Data(data=_admitted(session_id, message_id, body, seq, known.info.time.created))

    @session_operation(
        "POST", "/api/session/{sessionID}/compact", "v2.session.compact", status=204, errors=(404, 503)
    )
    async def compact(self, call: Call, session_id: ids.SessionID) -> None:
        """Summarise a session; answers when the summary is written."""
        runtime = await call.of_session(session_id)
        chosen = (await runtime.session.get(session_id)).model
        await runtime.session.summarize(session_id, _reference(chosen))

    @session_operation(
        "POST", "/api/session/{sessionID}/wait", "v2.session.wait", status=204, errors=(404, 503)
    )
    async def wait(self, call: Call, session_id: ids.SessionID) -> None:
        """Answer when no turn runs in a session."""
        await (await call.of_session(session_id)).session.wait(session_id)

    @session_operation("POST", "/api/session/{sessionID}/interrupt", "v2.session.interrupt", status=204)
    async def interrupt(self, call: Call, session_id: ids.SessionID) -> None:
        """End a session's turn."""
        await (await call.of_session(session_id)).session.abort(session_id)


async def _known(runtime: Runtime, session_id: str, message_id: str) -> WithParts | None:
    try:
        message = await runtime.session.message(session_id, message_id)
    except NotFound:
        return None
    return message if isinstance(message.info, User) else None


async def _admit(runtime: Runtime, session_id: str, message_id: str, body: AdmitBody) -> SessionInputAdmitted:
    """Take a prompt that is new. One that is to wait for the end of a turn is queued while one runs."""
    session = await runtime.session.get(session_id)
    wanted = PromptBody(
        message_id=message_id,
        agent=session.agent,
        model=_reference(session.model),
        no_reply=True if body.resume is False else None,
        parts=prompt_body(body.prompt),
    )
    before = await runtime.instance.store.last_seq(session_id)
    live = await runtime.instance.sessions.open(session_id)
    if body.delivery == "queue" and live.turn is not None:
        await runtime.session.follow_up(session_id, wanted, PERSON)
        return _admitted(session_id, message_id, body, before, live.next_time())
    await runtime.session.prompt_async(session_id, wanted)
    seq = await _seq_of(runtime, session_id, message_id, before)
    message = await runtime.session.message(session_id, message_id)
    return _admitted(session_id, message_id, body, seq, message.info.time.created)


async def _seq_of(runtime: Runtime, session_id: str, message_id: str, after: int) -> int:
    """The number under which a message was first kept."""
    records = await kept(runtime.instance.store, session_id, after)
    own = (one.seq for one in records if one.data.get("info", {}).get("id") == message_id)
    return next(own, after)


def _admitted(
    session_id: str, message_id: str, body: AdmitBody, seq: int, created: int
) -> SessionInputAdmitted:
    return SessionInputAdmitted(
        admitted_seq=seq,
        id=message_id,
        session_id=session_id,
        prompt=given_prompt(body.prompt),
        delivery=body.delivery or "steer",
        time_created=created,
    )


def _reference(model: SessionModel | None) -> ModelRef | None:
    if model is None:
        return None
    variant = None if model.variant == DEFAULT_VARIANT else model.variant
    return ModelRef(provider_id=model.provider_id, model_id=model.id, variant=variant)


def _is_wanted(session: Session, query: SessionsQuery) -> bool:
    below = query.subpath.strip("/") if query.subpath is not None else ""
    return (
        (query.search or "").lower() in session.title.lower()
        and query.workspace in (None, session.workspace_id)
        and (not below or f"{session.path}/".startswith(f"{below}/"))
    )


class _Anchor(Wire):
    """The session next to which a page is."""

    id: str
    time: float
    direction: Direction


class _Page(SessionsQuery):
    """What the cursor of a page of sessions holds: what was asked for, and where the page is."""

    anchor: _Anchor


_ASKED: Final = ("workspace", "order", "search", "directory", "project", "subpath")

_MOST_EVENTS = 1000
"""Events in one answer."""


class ApiHistoryRoutes:
    """What was said and done in a session, in the newer form."""

    @session_operation("POST", "/api/session/{sessionID}/revert/stage", "v2.session.revert.stage")
    async def stage(self, call: Call, session_id: ids.SessionID, body: StageBody) -> Data[RevertState]:
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
        return Data(data=revert_state(done.session.revert))

    @session_operation("POST", "/api/session/{sessionID}/revert/clear", "v2.session.revert.clear", status=204)
    async def clear(self, call: Call, session_id: ids.SessionID) -> None:
        """Undo a revert, the files with it."""
        runtime = await call.of_session(session_id)
        with unless_busy():
            await runtime.session.unrevert(session_id)

    @session_operation(
        "POST", "/api/session/{sessionID}/revert/commit", "v2.session.revert.commit", status=204
    )
    async def commit(self, call: Call, session_id: ids.SessionID) -> None:
        """Drop what a session was taken back from for good."""
        runtime = await call.of_session(session_id)
        with unless_busy():
            await runtime.session.settle(session_id)

    @session_operation("GET", "/api/session/{sessionID}/context", "v2.session.context")
    async def context(self, call: Call, session_id: ids.SessionID) -> Data[list[SessionMessage]]:
        """List the messages that the next prompt's model sees, oldest first: from the last summary on."""
        runtime = await call.of_session(session_id)
        return Data(data=session_messages(visible(await runtime.session.messages(session_id))))

    @session_operation("GET", "/api/session/{sessionID}/history", "v2.session.history")
    async def history(self, call: Call, session_id: ids.SessionID, query: HistoryQuery) -> SessionHistory:
        """List a session's durable events."""
        runtime = await call.of_session(session_id)
        limit = min(query.limit or _MOST_EVENTS, _MOST_EVENTS)
        told, more = await history(runtime.instance.store, session_id, query.after, limit)
        return SessionHistory(data=told, has_more=more)

    @session_operation(
        "GET",
        "/api/session/{sessionID}/event",
        "v2.session.events",
        media="text/event-stream",
        events=SessionDurableEvent,
    )
    async def events(self, call: Call, session_id: ids.SessionID, query: AfterQuery) -> Response:
        """Follow a session's durable events: first those that there are, then those that come."""
        runtime = await call.of_session(session_id)
        return SessionStream(call.instances.feed, runtime.instance.store, session_id, query.after)

    @session_operation("GET", "/api/session/{sessionID}/message", "v2.session.messages")
    async def messages(
        self, call: Call, session_id: ids.SessionID, query: SessionMessagesQuery
    ) -> Page[SessionMessage]:
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
        place = None if mark is None else PagePosition(at[mark.id], mark.direction)
        shown = paged(every, lambda one: at[one.id], order, place, query.limit)
        cursors = around(shown, lambda one, direction: _Mark(id=one.id, order=order, direction=direction))
        return Page(data=shown, cursor=cursors)

    @session_operation("GET", "/api/session/{sessionID}/message/{messageID}", "v2.session.message")
    async def message(
        self, call: Call, session_id: ids.SessionID, message_id: ids.MessageID
    ) -> Data[SessionMessage]:
        """Get a message."""
        runtime = await call.of_session(session_id)
        every = session_messages(await runtime.session.messages(session_id))
        one = next((one for one in every if one.id == message_id), None)
        if one is None:
            raise _no_message(session_id, message_id)
        return Data(data=one)


class _Mark(Wire):
    """What the cursor of a page of messages holds: the message next to which it is, and its order."""

    id: str
    order: Order
    direction: Direction


def _no_message(session_id: str, message_id: str) -> Formed:
    why = f"Message not found: {message_id}"
    form = {"_tag": "MessageNotFoundError", "sessionID": session_id, "messageID": message_id, "message": why}
    return Formed(404, form)
