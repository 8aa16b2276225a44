"""opencode's newer routes of what waits for a person: permissions and questions, of a location and of a session."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from instar.api.operation import operation
from instar.api.session import AnswersBody
from instar.api.v2 import Located
from instar.api.v2_session import (
    Data,
    Effect,
    PermissionEffect,
    PermissionQuestion,
    PermissionSavedInfo,
    PermissionV2Body,
    PermissionV2Request,
    PermissionV2Source,
    SavedQuery,
)
from instar.definitions.agent import UnknownAgent
from instar.event import AskedBy, Event, PermissionAsked, QuestionAsked
from instar.opencode.routes.location import located
from instar.opencode.routes.sessions import session_operation
from instar.plugin import Ask, Invalid, NotFound, PermissionDenied
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Missing
from instar.server.routes.sessions import seal, unseal
from instar.wire import ids

_ASKER: Final = "client"
"""What a client's own question is of, where a call of a tool is asked about else."""


Asked = TypeVar("Asked", PermissionAsked, QuestionAsked)


class ApiAnswerRoutes:
    """What waits for a person, in the newer form."""

    @operation("GET", "/api/permission/request", "v2.permission.request.list")
    async def permissions_here(self, call: Call) -> Located[list[PermissionV2Request]]:
        """List the calls of a directory that wait for a permission."""
        runtime = await call.runtime()
        waiting = await runtime.permission.list()
        return located(runtime, [_request(one) for one in waiting])

    @operation("GET", "/api/permission/saved", "v2.permission.saved.list", scoped=False)
    async def saved(self, call: Call, query: SavedQuery) -> Data[list[PermissionSavedInfo]]:
        """List what was allowed for always in a directory's worktree."""
        runtime = await call.runtime()
        project_id = runtime.instance.project.id
        rules = await runtime.permission.approvals() if query.project_id in (None, project_id) else []
        return Data(
            data=[
                PermissionSavedInfo(
                    id=seal([rule.permission, rule.pattern]),
                    project_id=project_id,
                    action=rule.permission,
                    resource=rule.pattern,
                )
                for rule in rules
            ]
        )

    @operation("DELETE", "/api/permission/saved/{id}", "v2.permission.saved.remove", scoped=False, status=204)
    async def forget(self, call: Call, id: str) -> None:  # noqa: A002 - the document's name
        """Remove an `always` permission. Nothing happens if it does not exist."""
        runtime = await call.runtime()
        with contextlib.suppress(ValueError, TypeError):
            permission, pattern = unseal(id)
            if isinstance(permission, str) and isinstance(pattern, str):
                await runtime.permission.forget(permission, pattern)

    @session_operation("POST", "/api/session/{sessionID}/permission", "v2.session.permission.create")
    async def ask(
        self, call: Call, session_id: ids.SessionID, body: PermissionQuestion
    ) -> Data[PermissionEffect]:
        """Ask whether a session may do something.

        What the rules neither allow nor deny waits for a person's answer, as a tool's call does.
        """
        runtime = await call.of_session(session_id)
        effect, asked = await _asked(runtime, session_id, body)
        request_id = asked.id if asked is not None else ids.new("per")
        return Data(data=PermissionEffect(id=request_id, effect=effect))

    @session_operation("GET", "/api/session/{sessionID}/permission", "v2.session.permission.list")
    async def permissions(self, call: Call, session_id: ids.SessionID) -> Data[list[PermissionV2Request]]:
        """List the calls of a session that wait for a permission."""
        waiting = await (await call.of_session(session_id)).permission.list()
        return Data(data=[_request(one) for one in waiting if one.session_id == session_id])

    @session_operation("GET", "/api/session/{sessionID}/permission/{requestID}", "v2.session.permission.get")
    async def permission(
        self, call: Call, session_id: ids.SessionID, request_id: ids.PermissionID
    ) -> Data[PermissionV2Request]:
        """Get a call that waits for a permission."""
        waiting = await (await call.of_session(session_id)).permission.list()
        return Data(data=_request(_waiting("Permission", waiting, session_id, request_id)))

    @session_operation(
        "POST",
        "/api/session/{sessionID}/permission/{requestID}/reply",
        "v2.session.permission.reply",
        status=204,
    )
    async def permit(
        self, call: Call, session_id: ids.SessionID, request_id: ids.PermissionID, body: PermissionV2Body
    ) -> None:
        """Answer a permission."""
        runtime = await call.of_session(session_id)
        _waiting("Permission", await runtime.permission.list(), session_id, request_id)
        try:
            await runtime.permission.reply(request_id, body.reply, body.message)
        except NotFound as error:
            raise Missing("PermissionNotFoundError", request_id, str(error)) from None

    @operation("GET", "/api/question/request", "v2.question.request.list")
    async def questions_here(self, call: Call) -> Located[list[QuestionAsked]]:
        """List the questions of a directory that wait."""
        runtime = await call.runtime()
        return located(runtime, [*await runtime.question.list()])

    @session_operation("GET", "/api/session/{sessionID}/question", "v2.session.question.list")
    async def questions(self, call: Call, session_id: ids.SessionID) -> Data[list[QuestionAsked]]:
        """List the questions of a session that wait."""
        waiting = await (await call.of_session(session_id)).question.list()
        return Data(data=[one for one in waiting if one.session_id == session_id])

    @session_operation(
        "POST", "/api/session/{sessionID}/question/{requestID}/reply", "v2.session.question.reply", status=204
    )
    async def answer(
        self, call: Call, session_id: ids.SessionID, request_id: ids.QuestionID, body: AnswersBody
    ) -> None:
        """Answer questions."""
        runtime = await call.of_session(session_id)
        _waiting("Question", await runtime.question.list(), session_id, request_id)
        await runtime.question.reply(request_id, body.answers)

    @session_operation(
        "POST",
        "/api/session/{sessionID}/question/{requestID}/reject",
        "v2.session.question.reject",
        status=204,
    )
    async def dismiss(self, call: Call, session_id: ids.SessionID, request_id: ids.QuestionID) -> None:
        """Say that nobody will answer."""
        runtime = await call.of_session(session_id)
        _waiting("Question", await runtime.question.list(), session_id, request_id)
        await runtime.question.reject(request_id)


def _request(asked: PermissionAsked) -> PermissionV2Request:
    by = asked.tool
    return PermissionV2Request(
        id=asked.id,
        session_id=asked.session_id,
        action=asked.permission,
        resources=asked.patterns,
        save=asked.always or None,
        metadata=asked.metadata or None,
        source=None if by is None else PermissionV2Source(message_id=by.message_id, call_id=by.call_id),
    )


def _waiting(kind: str, waiting: Iterable[Asked], session_id: str, request_id: str) -> Asked:
    """Return what waits in a session under an id. Raises `Missing` when nothing does."""
    for one in waiting:
        if (one.session_id, one.id) == (session_id, request_id):
            return one
    raise Missing(f"{kind}NotFoundError", request_id, f"{kind} request not found: {request_id}")


async def _asked(
    runtime: Runtime, session_id: str, body: PermissionQuestion
) -> tuple[Effect, PermissionAsked | None]:
    """What the rules of a session and its agent say; with the question, if a person is to answer it."""
    if body.id is not None:
        raise Invalid("leave the id out: it is made here")
    session = await runtime.session.get(session_id)
    try:
        agent = runtime.instance.agents.get(body.agent or session.agent)
    except UnknownAgent as error:
        raise Invalid(str(error)) from error
    rules = [*agent.permission, *(session.permission or [])]
    ask = Ask(body.action, body.resources, body.save or [], body.metadata or {})
    source = body.source
    caller = AskedBy(
        message_id=ids.new("msg") if source is None else source.message_id,
        call_id=ids.new("tool") if source is None else source.call_id,
    )
    asked: asyncio.Future[PermissionAsked] = asyncio.get_running_loop().create_future()

    def look(event: Event) -> None:
        told = event.properties
        if isinstance(told, PermissionAsked) and told.tool == caller and not asked.done():
            asked.set_result(told)

    forget = runtime.instance.bus.observe(look)
    outcome: asyncio.Future[Effect] = asyncio.get_running_loop().create_future()
    require = runtime.instance.approvals.require(ask, rules, session_id, _ASKER, caller)
    runtime.turns.spawn(_decide(require, outcome))
    try:
        either: list[asyncio.Future[Any]] = [asked, outcome]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        forget()
    return ("ask", asked.result()) if asked.done() else (outcome.result(), None)


async def _decide(require: Coroutine[Any, Any, None], outcome: "asyncio.Future[Effect]") -> None:
    """Wait for what the rules, plugins and (long after the request, perhaps) a person say."""
    effect: Effect = "deny"
    try:
        with contextlib.suppress(PermissionDenied):
            await require
            effect = "allow"
    finally:
        if not outcome.done():
            outcome.set_result(effect)
