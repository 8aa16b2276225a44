"""The routes of sessions: ``/session`` and what lies below it."""

from starlette.requests import Request
from starlette.responses import Response

from instar import wire
from instar.message import Session
from instar.plugin import CommandBody, PromptBody, SessionBody
from instar.server.errors import reply
from instar.server.request import Finder, body, check_id, directory, number


class SessionRoutes:
    """Sessions, their messages and turns."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def list(self, request: Request) -> Response:
        """GET /session; ``roots``, ``start`` (ms), ``search`` and ``limit`` narrow the list."""
        runtime = await self._finder.runtime(request)
        found = [session for session in await runtime.session.list() if _is_wanted(session, request)]
        limit = number(request, "limit")
        return reply([wire.to_plain(session) for session in (found if limit is None else found[:limit])])

    async def create(self, request: Request) -> Response:
        """POST /session."""
        runtime = await self._finder.runtime(request)
        given = await body(request, SessionBody, empty=True)
        if given.parent_id is not None:
            check_id(given.parent_id, "ses")
            await self._finder.instances.of_session(given.parent_id, directory(request))
        return reply(wire.to_plain(await runtime.session.create(given)))

    async def status(self, request: Request) -> Response:
        """GET /session/status: what each session that is not idle does."""
        runtime = await self._finder.runtime(request)
        statuses = await runtime.session.status()
        return reply({session_id: wire.to_plain(status) for session_id, status in statuses.items()})

    async def get(self, request: Request) -> Response:
        """GET /session/{id}."""
        runtime, session_id = await self._finder.of_session(request)
        return reply(wire.to_plain(await runtime.session.get(session_id)))

    async def delete(self, request: Request) -> Response:
        """DELETE /session/{id}."""
        runtime, session_id = await self._finder.of_session(request)
        await runtime.session.delete(session_id)
        return reply(True)

    async def messages(self, request: Request) -> Response:
        """GET /session/{id}/message; ``limit`` takes the newest, ``before`` those older than a message."""
        runtime, session_id = await self._finder.of_session(request)
        found = await runtime.session.messages(session_id)
        before, limit = request.query_params.get("before"), number(request, "limit")
        if before:
            found = [message for message in found if message.info.id < before]
        shown = found if limit is None else found[len(found) - min(limit, len(found)) :]
        return reply([message.to_plain() for message in shown])

    async def prompt(self, request: Request) -> Response:
        """POST /session/{id}/message: answers when the turn is over."""
        runtime, session_id = await self._finder.of_session(request)
        answer = await runtime.session.prompt(session_id, await _prompt(request))
        return reply(answer.to_plain())

    async def prompt_async(self, request: Request) -> Response:
        """POST /session/{id}/prompt_async: answers when the turn has begun."""
        runtime, session_id = await self._finder.of_session(request)
        await runtime.session.prompt_async(session_id, await _prompt(request))
        return Response(status_code=204)

    async def command(self, request: Request) -> Response:
        """POST /session/{id}/command: answers when the turn is over."""
        runtime, session_id = await self._finder.of_session(request)
        given = await body(request, CommandBody)
        if given.message_id is not None:
            check_id(given.message_id, "msg")
        answer = await runtime.session.command(session_id, given)
        return reply(answer.to_plain())

    async def abort(self, request: Request) -> Response:
        """POST /session/{id}/abort."""
        runtime, session_id = await self._finder.of_session(request)
        await runtime.session.abort(session_id)
        return reply(True)


async def _prompt(request: Request) -> PromptBody:
    given = await body(request, PromptBody)
    if given.message_id is not None:
        check_id(given.message_id, "msg")
    return given


def _is_wanted(session: Session, request: Request) -> bool:
    """Whether the query of ``GET /session`` lets a session through."""
    query = request.query_params
    start, search = number(request, "start"), query.get("search", "").lower()
    return (
        (query.get("roots") not in ("true", "1") or session.parent_id is None)
        and (start is None or session.time.updated >= start)
        and search in session.title.lower()
    )
