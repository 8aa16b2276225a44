"""The routes by which clients answer: permissions and questions that wait for a person.

An answer finds its question in the runtime of the request's directory, else in any that is open: a client
that follows a session need not know where it lives.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from instar import wire
from instar.plugin import NotFound, QuestionClient
from instar.runtime import Runtime
from instar.server.errors import missing, reply
from instar.server.request import Finder, body, check_id
from instar.wire import Wire

Reply = Literal["once", "always", "reject"]


class PermissionBody(Wire):
    """The body of an answer to a permission; `message` tells the model why it was rejected."""

    reply: Reply
    message: str | None = None


class ResponseBody(Wire):
    """The body of an answer to a permission in opencode's older form."""

    response: Reply


class AnswersBody(Wire):
    """The body of an answer to questions: for each the labels chosen, or what was typed."""

    answers: list[list[str]]


class AnswerRoutes:
    """What waits for a person, and the answers."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def permissions(self, request: Request) -> Response:
        """GET /permission: the calls that wait."""
        runtime = await self._finder.runtime(request)
        return reply([wire.to_plain(asked) for asked in await runtime.permission.list()])

    async def permit(self, request: Request) -> Response:
        """POST /permission/{id}/reply."""
        given = await body(request, PermissionBody)
        request_id = check_id(request.path_params["id"], "per", "Params")
        try:
            return await self._anywhere(
                request, lambda runtime: runtime.permission.reply(request_id, given.reply, given.message)
            )
        except NotFound as error:
            return missing("PermissionNotFoundError", request_id, str(error))

    async def respond(self, request: Request) -> Response:
        """POST /session/{id}/permissions/{permission}: as older clients of opencode answer."""
        given = await body(request, ResponseBody)
        request_id = check_id(request.path_params["permission"], "per", "Params")
        runtime, session_id = await self._finder.of_session(request)
        waiting = [one.id for one in await runtime.permission.list() if one.session_id == session_id]
        if request_id not in waiting:
            return missing(
                "PermissionNotFoundError",
                request_id,
                f"session {session_id} waits for no answer to {request_id}",
            )
        try:
            await runtime.permission.reply(request_id, given.response)
        except NotFound as error:
            return missing("PermissionNotFoundError", request_id, str(error))
        return reply(True)

    async def questions(self, request: Request) -> Response:
        """GET /question: the questions that wait."""
        runtime = await self._finder.runtime(request)
        return reply([wire.to_plain(asked) for asked in await runtime.question.list()])

    async def answer(self, request: Request) -> Response:
        """POST /question/{id}/reply."""
        given = await body(request, AnswersBody)
        return await self._questioned(request, lambda to, request_id: to.reply(request_id, given.answers))

    async def dismiss(self, request: Request) -> Response:
        """POST /question/{id}/reject."""
        return await self._questioned(request, lambda to, request_id: to.reject(request_id))

    async def _questioned(
        self, request: Request, carry: Callable[[QuestionClient, str], Awaitable[None]]
    ) -> Response:
        request_id = check_id(request.path_params["id"], "que", "Params")
        try:
            return await self._anywhere(request, lambda runtime: carry(runtime.question, request_id))
        except NotFound as error:
            return missing("QuestionNotFoundError", request_id, str(error))

    async def _anywhere(self, request: Request, carry: Callable[[Runtime], Awaitable[None]]) -> Response:
        """Carry an answer to the runtime that waits for it. Raises the `NotFound` of the request's own."""
        absent: NotFound | None = None
        async for runtime in self._places(request):
            try:
                await carry(runtime)
            except NotFound as error:
                absent = absent or error
            else:
                return reply(True)
        assert absent is not None
        raise absent

    async def _places(self, request: Request) -> AsyncIterator[Runtime]:
        named = await self._finder.runtime(request)
        yield named
        for runtime in self._finder.instances.opened():
            if runtime is not named:
                yield runtime
