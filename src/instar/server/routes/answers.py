"""The routes by which clients answer: permissions and questions that wait for a person.

An answer finds its question in the runtime of the request's directory, else in any that is open: a client
that follows a session need not know where it lives.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from instar.api.operation import operation
from instar.api.session import AnswersBody, PermissionBody, ResponseBody
from instar.event import PermissionAsked, QuestionAsked
from instar.plugin import NotFound, QuestionClient
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Missing
from instar.wire import ids


class AnswerRoutes:
    """What waits for a person, and the answers."""

    @operation("GET", "/permission", "permission.list")
    async def permissions(self, runtime: Runtime) -> Sequence[PermissionAsked]:
        """List the tool calls that wait for a permission."""
        return await runtime.permission.list()

    @operation("POST", "/permission/{requestID}/reply", "permission.reply", errors=(404,))
    async def permit(self, call: Call, request_id: ids.PermissionID, body: PermissionBody) -> bool:
        """Answer a permission."""
        try:
            return await _anywhere(
                call, lambda runtime: runtime.permission.reply(request_id, body.reply, body.message)
            )
        except NotFound as error:
            raise Missing("PermissionNotFoundError", request_id, str(error)) from None

    @operation("POST", "/session/{sessionID}/permissions/{permissionID}", "permission.respond", errors=(404,))
    async def respond(
        self, runtime: Runtime, session_id: ids.SessionID, permission_id: ids.PermissionID, body: ResponseBody
    ) -> bool:
        """Answer a permission as older clients of opencode do."""
        waiting = [one.id for one in await runtime.permission.list() if one.session_id == session_id]
        if permission_id not in waiting:
            why = f"session {session_id} waits for no answer to {permission_id}"
            raise Missing("PermissionNotFoundError", permission_id, why)
        try:
            await runtime.permission.reply(permission_id, body.response)
        except NotFound as error:
            raise Missing("PermissionNotFoundError", permission_id, str(error)) from None
        return True

    @operation("GET", "/question", "question.list")
    async def questions(self, runtime: Runtime) -> Sequence[QuestionAsked]:
        """List the questions that wait."""
        return await runtime.question.list()

    @operation("POST", "/question/{requestID}/reply", "question.reply", errors=(404,))
    async def answer(self, call: Call, request_id: ids.QuestionID, body: AnswersBody) -> bool:
        """Answer questions."""
        return await _questioned(call, request_id, lambda to: to.reply(request_id, body.answers))

    @operation("POST", "/question/{requestID}/reject", "question.reject", errors=(404,))
    async def dismiss(self, call: Call, request_id: ids.QuestionID) -> bool:
        """Say that nobody will answer."""
        return await _questioned(call, request_id, lambda to: to.reject(request_id))


async def _questioned(
    call: Call, request_id: str, carry: Callable[[QuestionClient], Awaitable[None]]
) -> bool:
    try:
        return await _anywhere(call, lambda runtime: carry(runtime.question))
    except NotFound as error:
        raise Missing("QuestionNotFoundError", request_id, str(error)) from None


async def _anywhere(call: Call, carry: Callable[[Runtime], Awaitable[None]]) -> bool:
    """Carry an answer to the runtime that waits for it. Raises the `NotFound` of the request's own."""
    absent: NotFound | None = None
    async for runtime in _places(call):
        try:
            await carry(runtime)
        except NotFound as error:
            absent = absent or error
        else:
            return True
    assert absent is not None
    raise absent


async def _places(call: Call) -> AsyncIterator[Runtime]:
    named = await call.runtime()
    yield named
    for runtime in call.instances.opened():
        if runtime is not named:
            yield runtime
