"""Every route, and the handler that carries it out on the runtime of the request's directory."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from instar import __version__
from instar.server.answers import AnswerRoutes
from instar.server.definitions import DefinitionRoutes
from instar.server.errors import answer_for, refusal, reply
from instar.server.history import HistoryRoutes
from instar.server.instances import Instances
from instar.server.request import Finder
from instar.server.sessions import SessionRoutes
from instar.server.stream import EventStream

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The handlers, over the runtimes of one server. `closing` ends the event streams."""

    def __init__(self, instances: Instances, closing: asyncio.Event) -> None:
        self._finder = Finder(instances)
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return every route. A fixed path stands before the pattern that would match it too."""
        sessions = SessionRoutes(self._finder)
        history = HistoryRoutes(self._finder)
        answers = AnswerRoutes(self._finder)
        defined = DefinitionRoutes(self._finder)
        return [
            _route("/global/health", self.health, "GET"),
            _route("/event", self.events, "GET"),
            _route("/agent", defined.agents, "GET"),
            _route("/command", defined.commands, "GET"),
            _route("/session", sessions.list, "GET"),
            _route("/session", sessions.create, "POST"),
            _route("/session/status", sessions.status, "GET"),
            _route("/session/{id}", sessions.get, "GET"),
            _route("/session/{id}", sessions.delete, "DELETE"),
            _route("/session/{id}", history.change, "PATCH"),
            _route("/session/{id}/revert", history.revert, "POST"),
            _route("/session/{id}/unrevert", history.unrevert, "POST"),
            _route("/session/{id}/fork", history.fork, "POST"),
            _route("/session/{id}/diff", history.diff, "GET"),
            _route("/session/{id}/summarize", history.summarize, "POST"),
            _route("/session/{id}/children", history.children, "GET"),
            _route("/session/{id}/todo", history.todo, "GET"),
            _route("/session/{id}/message/{message}", history.message, "GET"),
            _route("/session/{id}/message/{message}", history.remove_message, "DELETE"),
            _route("/session/{id}/message/{message}/part/{part}", history.remove_part, "DELETE"),
            _route("/session/{id}/message", sessions.messages, "GET"),
            _route("/session/{id}/message", sessions.prompt, "POST"),
            _route("/session/{id}/prompt_async", sessions.prompt_async, "POST"),
            _route("/session/{id}/command", sessions.command, "POST"),
            _route("/session/{id}/abort", sessions.abort, "POST"),
            _route("/session/{id}/permissions/{permission}", answers.respond, "POST"),
            _route("/permission", answers.permissions, "GET"),
            _route("/permission/{id}/reply", answers.permit, "POST"),
            _route("/question", answers.questions, "GET"),
            _route("/question/{id}/reply", answers.answer, "POST"),
            _route("/question/{id}/reject", answers.dismiss, "POST"),
        ]

    async def health(self, request: Request) -> Response:
        """GET /global/health."""
        return reply({"healthy": True, "version": __version__})

    async def events(self, request: Request) -> Response:
        """GET /event."""
        runtime = await self._finder.runtime(request)
        runtime.watch()
        return EventStream(runtime.instance.bus, self._closing)


def application(api: Api) -> Starlette:
    """Return the ASGI application, without the guard."""
    return Starlette(routes=api.routes(), exception_handlers={HTTPException: _http_error})


def _route(path: str, handler: Handler, method: str) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return answer_for(error)

    return Route(path, endpoint, methods=[method])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = "NotFoundError" if error.status_code == 404 else "BadRequest"
    return refusal(error.status_code, name, f"{request.method} {request.url.path}: {error.detail}")
