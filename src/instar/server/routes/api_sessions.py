"""opencode's newer routes of sessions (``/api/session``): the same sessions, shown in another form."""

from typing import Final

import msgspec

from instar import ids
from instar.api.session_v2 import (
    ActiveSessions,
    AdmitBody,
    Admitted,
    AgentBody,
    CreateBody,
    ModelBody,
    OneSession,
    SessionActive,
    SessionInputAdmitted,
    SessionsQuery,
    SessionsResponse,
)
from instar.message import PERSON, ModelRef, Session, SessionModel, User, WithParts
from instar.plugin import NotFound, PromptBody, SessionBody
from instar.plugin.route import operation
from instar.projection import given_prompt, prompt_body, prompt_of, session_info
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.cursor import Place, Way, around, opened, paged
from instar.server.errors import BadRequest, Formed
from instar.server.session_stream import kept, last_seq
from instar.session import DEFAULT_VARIANT
from instar.wire import Wire


class ApiSessionRoutes:
    """Sessions in the newer form."""

    @operation("GET", "/api/session", "v2.session.list", scoped=False)
    async def sessions(self, call: Call, query: SessionsQuery) -> SessionsResponse:
        """List the sessions of all projects, last made first."""
        limit, place = query.limit, None
        if query.cursor is not None:
            query = page = opened(query.cursor, _Page)
            place = Place((page.anchor.time, page.anchor.id), page.anchor.direction)
        store = (await call.instances.get(None)).instance.store
        every = await store.sessions(query.project, directory=query.directory, archived=True)
        wanted = [one for one in every if _is_wanted(one, query)]
        shown = paged(wanted, lambda one: (one.time.created, one.id), query.order or "desc", place, limit)
        asked = {name: getattr(query, name) for name in _ASKED}

        def cursor(one: Session, way: Way) -> object:
            return _Page(**asked, anchor=_Anchor(id=one.id, time=one.time.created, direction=way))

        return SessionsResponse(data=[session_info(one) for one in shown], cursor=around(shown, cursor))

    @operation("POST", "/api/session", "v2.session.create", scoped=False)
    async def create(self, call: Call, body: CreateBody | None = None) -> OneSession:
        """Make a session; under an id that there is one of, return that one."""
        given = body or CreateBody()
        where = given.location
        runtime = await call.instances.get(where.directory if where is not None else call.directory)
        if given.id is not None and (known := await runtime.instance.store.session(given.id)) is not None:
            return OneSession(data=session_info(known))
        model = None if given.model is None else msgspec.to_builtins(given.model)
        wanted = SessionBody(
            agent=given.agent, model=model, workspace_id=where.workspace_id if where is not None else None
        )
        try:
            return OneSession(data=session_info(await runtime.session.create(wanted, given.id)))
        except NotFound as error:  # of the workspace: the document knows no 404 here
            raise BadRequest(str(error)) from error

    @operation("GET", "/api/session/active", "v2.session.active", scoped=False)
    async def active(self, call: Call) -> ActiveSessions:
        """Tell in which sessions turns run."""
        await call.instances.get(None)
        running = [live.id for one in call.instances.opened() for live in one.instance.sessions.running()]
        return ActiveSessions(data={session_id: SessionActive() for session_id in running})

    @operation("GET", "/api/session/{sessionID}", "v2.session.get", scoped=False, errors=(404,))
    async def get(self, call: Call, session_id: ids.SessionID) -> OneSession:
        """Get a session."""
        runtime = await call.of_session(session_id)
        return OneSession(data=session_info(await runtime.session.get(session_id)))

    @operation(
        "POST",
        "/api/session/{sessionID}/agent",
        "v2.session.switchAgent",
        status=204,
        scoped=False,
        errors=(404,),
    )
    async def switch_agent(self, call: Call, session_id: ids.SessionID, body: AgentBody) -> None:
        """Let a session go on with another agent."""
        await (await call.of_session(session_id)).session.update(session_id, agent=body.agent)

    @operation(
        "POST",
        "/api/session/{sessionID}/model",
        "v2.session.switchModel",
        status=204,
        scoped=False,
        errors=(404,),
    )
    async def switch_model(self, call: Call, session_id: ids.SessionID, body: ModelBody) -> None:
        """Let a session go on with another model."""
        await (await call.of_session(session_id)).session.update(session_id, model=body.model)

    @operation(
        "POST", "/api/session/{sessionID}/prompt", "v2.session.prompt", scoped=False, errors=(404, 409)
    )
    async def prompt(self, call: Call, session_id: ids.SessionID, body: AdmitBody) -> Admitted:
        """Take a prompt; answers when it is kept, its turn goes on by itself.

        The same prompt under the same id is taken once, another one under a known id is refused (409).
        """
        runtime = await call.of_session(session_id)
        message_id = body.id or ids.new("msg")
        known = await _known(runtime, session_id, message_id)
        if known is None:
            return Admitted(data=await _admit(runtime, session_id, message_id, body))
        if prompt_of(known.parts).text != body.prompt.text:
            why = f"Prompt message ID conflicts with an existing durable record: {message_id}"
            form = {"_tag": "ConflictError", "message": why, "resource": message_id}
            raise Formed(409, form)
        seq = await _seq_of(runtime, session_id, message_id, 0)
        return Admitted(data=_admitted(session_id, message_id, body, seq, known.info.time.created))

    @operation(
        "POST",
        "/api/session/{sessionID}/compact",
        "v2.session.compact",
        status=204,
        scoped=False,
        errors=(404, 503),
    )
    async def compact(self, call: Call, session_id: ids.SessionID) -> None:
        """Summarise a session; answers when the summary is written."""
        runtime = await call.of_session(session_id)
        chosen = (await runtime.session.get(session_id)).model
        await runtime.session.summarize(session_id, _reference(chosen))

    @operation(
        "POST",
        "/api/session/{sessionID}/wait",
        "v2.session.wait",
        status=204,
        scoped=False,
        errors=(404, 503),
    )
    async def wait(self, call: Call, session_id: ids.SessionID) -> None:
        """Answer when no turn runs in a session."""
        await (await call.of_session(session_id)).session.wait(session_id)

    @operation(
        "POST",
        "/api/session/{sessionID}/interrupt",
        "v2.session.interrupt",
        status=204,
        scoped=False,
        errors=(404,),
    )
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
    before = await last_seq(runtime.instance.store, session_id)
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
    direction: Way


class _Page(SessionsQuery):
    """What the cursor of a page of sessions holds: what was asked for, and where the page is."""

    anchor: _Anchor


_ASKED: Final = ("workspace", "order", "search", "directory", "project", "subpath")
