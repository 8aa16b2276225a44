"""The routes that change and look back at a session: revert, fork, diff, single messages, its own fields."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from instar import wire
from instar.message import ModelRef, Rule
from instar.server.errors import BadRequest, reply
from instar.server.request import Finder, body, check_id
from instar.wire import Plain, Wire

_LATEST: Final = 8_640_000_000_000_000
"""The last millisecond that a client's clock knows; what is far beyond it cannot be stored."""


class RevertBody(Wire):
    """The body of ``POST /session/{id}/revert``."""

    message_id: str
    part_id: str | None = None


class ForkBody(Wire):
    """The body of ``POST /session/{id}/fork``."""

    message_id: str | None = None


class SummarizeBody(Wire):
    """The body of ``POST /session/{id}/summarize``. `auto` is read and makes no difference: a person asks here."""

    provider_id: str
    model_id: str
    auto: bool = False


class ChangedTime(Wire):
    """The times that a client may set, in ms."""

    archived: float | None = None


class ChangeBody(Wire):
    """The body of ``PATCH /session/{id}``."""

    title: str | None = None
    metadata: Plain | None = None
    permission: list[Rule] | None = None
    time: ChangedTime | None = None


class HistoryRoutes:
    """A session's past."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def change(self, request: Request) -> Response:
        """PATCH /session/{id}: title, metadata, ``time.archived``; ``permission`` rules are added."""
        runtime, session_id = await self._finder.of_session(request)
        given = await body(request, ChangeBody, empty=True)
        archived = given.time.archived if given.time is not None else None
        if archived is not None and not 0 <= archived <= _LATEST:
            raise BadRequest(f"time.archived must be milliseconds since 1970, found {archived!r}")
        changed = await runtime.session.update(
            session_id,
            title=given.title,
            archived=None if archived is None else int(archived),
            metadata=given.metadata,
            permission=given.permission or (),
        )
        return reply(wire.to_plain(changed))

    async def revert(self, request: Request) -> Response:
        """POST /session/{id}/revert."""
        runtime, session_id = await self._finder.of_session(request)
        given = await body(request, RevertBody)
        check_id(given.message_id, "msg")
        if given.part_id is not None:
            check_id(given.part_id, "prt")
        done = await runtime.session.revert(session_id, given.message_id, given.part_id)
        return reply(wire.to_plain(done.session))

    async def unrevert(self, request: Request) -> Response:
        """POST /session/{id}/unrevert."""
        runtime, session_id = await self._finder.of_session(request)
        return reply(wire.to_plain((await runtime.session.unrevert(session_id)).session))

    async def fork(self, request: Request) -> Response:
        """POST /session/{id}/fork."""
        runtime, session_id = await self._finder.of_session(request)
        given = await body(request, ForkBody, empty=True)
        if given.message_id is not None:
            check_id(given.message_id, "msg")
        return reply(wire.to_plain(await runtime.session.fork(session_id, given.message_id)))

    async def diff(self, request: Request) -> Response:
        """GET /session/{id}/diff; ``messageID`` asks for one turn."""
        runtime, session_id = await self._finder.of_session(request)
        message_id = request.query_params.get("messageID")
        if message_id is not None:
            check_id(message_id, "msg", "Query")
        found = await runtime.session.diff(session_id, message_id)
        return reply([wire.to_plain(one) for one in found])

    async def summarize(self, request: Request) -> Response:
        """POST /session/{id}/summarize: answers when the summary is written."""
        runtime, session_id = await self._finder.of_session(request)
        given = await body(request, SummarizeBody)
        model = ModelRef(provider_id=given.provider_id, model_id=given.model_id)
        await runtime.session.summarize(session_id, model)
        return reply(True)

    async def children(self, request: Request) -> Response:
        """GET /session/{id}/children."""
        runtime, session_id = await self._finder.of_session(request)
        return reply([wire.to_plain(child) for child in await runtime.session.children(session_id)])

    async def todo(self, request: Request) -> Response:
        """GET /session/{id}/todo."""
        runtime, session_id = await self._finder.of_session(request)
        return reply([wire.to_plain(todo) for todo in await runtime.session.todos(session_id)])

    async def message(self, request: Request) -> Response:
        """GET /session/{id}/message/{message}."""
        runtime, session_id = await self._finder.of_session(request)
        found = await runtime.session.message(session_id, _message(request))
        return reply(found.to_plain())

    async def remove_message(self, request: Request) -> Response:
        """DELETE /session/{id}/message/{message}."""
        runtime, session_id = await self._finder.of_session(request)
        await runtime.session.remove(session_id, _message(request))
        return reply(True)

    async def remove_part(self, request: Request) -> Response:
        """DELETE /session/{id}/message/{message}/part/{part}."""
        runtime, session_id = await self._finder.of_session(request)
        part_id = check_id(request.path_params["part"], "prt", "Params")
        await runtime.session.remove(session_id, _message(request), part_id)
        return reply(True)


def _message(request: Request) -> str:
    return check_id(request.path_params["message"], "msg", "Params")
