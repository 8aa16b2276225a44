"""The routes: requests in opencode's shapes, carried out on the runtime of their directory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from instar import __version__, ids, wire
from instar.message import Session
from instar.plugin import PromptBody, SessionBody
from instar.runtime import Runtime
from instar.server.errors import BadRequest, answer_for, refusal, reply
from instar.server.instances import Instances
from instar.server.stream import EventStream

LARGEST_BODY: Final = 20 * 1024 * 1024
"""Bytes of a request's body."""

Handler = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class Api:
    """The handlers, over the runtimes of one server. `closing` ends the event streams."""

    def __init__(self, instances: Instances, closing: asyncio.Event) -> None:
        self._instances = instances
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return every route. A fixed path stands before the pattern that would match it too."""
        return [
            _route("/global/health", self.health, "GET"),
            _route("/event", self.events, "GET"),
            _route("/session", self.list_sessions, "GET"),
            _route("/session", self.create_session, "POST"),
            _route("/session/status", self.status, "GET"),
            _route("/session/{id}", self.get_session, "GET"),
            _route("/session/{id}", self.delete_session, "DELETE"),
            _route("/session/{id}/message", self.messages, "GET"),
            _route("/session/{id}/message", self.prompt, "POST"),
            _route("/session/{id}/prompt_async", self.prompt_async, "POST"),
            _route("/session/{id}/abort", self.abort, "POST"),
        ]

    async def health(self, request: Request) -> Response:
        """GET /global/health."""
        return reply({"healthy": True, "version": __version__})

    async def events(self, request: Request) -> Response:
        """GET /event."""
        runtime = await self._runtime(request)
        return EventStream(runtime.instance.bus, self._closing)

    async def list_sessions(self, request: Request) -> Response:
        """GET /session; ``roots``, ``start`` (ms), ``search`` and ``limit`` narrow the list."""
        runtime = await self._runtime(request)
        found = [session for session in await runtime.session.list() if _is_wanted(session, request)]
        limit = _number(request, "limit")
        return reply([wire.to_plain(session) for session in (found if limit is None else found[:limit])])

    async def create_session(self, request: Request) -> Response:
        """POST /session."""
        runtime = await self._runtime(request)
        body = await _body(request, SessionBody, empty=True)
        if body.parent_id is not None:
            _check_id(body.parent_id, "ses")
            await self._instances.of_session(body.parent_id, _directory(request))
        return reply(wire.to_plain(await runtime.session.create(body)))

    async def status(self, request: Request) -> Response:
        """GET /session/status: what each session that is not idle does."""
        runtime = await self._runtime(request)
        statuses = await runtime.session.status()
        return reply({session_id: wire.to_plain(status) for session_id, status in statuses.items()})

    async def get_session(self, request: Request) -> Response:
        """GET /session/{id}."""
        runtime, session_id = await self._session(request)
        return reply(wire.to_plain(await runtime.session.get(session_id)))

    async def delete_session(self, request: Request) -> Response:
        """DELETE /session/{id}."""
        runtime, session_id = await self._session(request)
        await runtime.session.delete(session_id)
        return reply(True)

    async def messages(self, request: Request) -> Response:
        """GET /session/{id}/message; ``limit`` takes the newest, ``before`` those older than a message."""
        runtime, session_id = await self._session(request)
        found = await runtime.session.messages(session_id)
        before, limit = request.query_params.get("before"), _number(request, "limit")
        if before:
            found = [message for message in found if message.info.id < before]
        shown = found if limit is None else found[len(found) - min(limit, len(found)) :]
        return reply([message.to_plain() for message in shown])

    async def prompt(self, request: Request) -> Response:
        """POST /session/{id}/message: answers when the turn is over."""
        runtime, session_id = await self._session(request)
        answer = await runtime.session.prompt(session_id, await _prompt(request))
        return reply(answer.to_plain())

    async def prompt_async(self, request: Request) -> Response:
        """POST /session/{id}/prompt_async: answers when the turn has begun."""
        runtime, session_id = await self._session(request)
        await runtime.session.prompt_async(session_id, await _prompt(request))
        return Response(status_code=204)

    async def abort(self, request: Request) -> Response:
        """POST /session/{id}/abort."""
        runtime, session_id = await self._session(request)
        await runtime.session.abort(session_id)
        return reply(True)

    async def _runtime(self, request: Request) -> Runtime:
        return await self._instances.get(_directory(request))

    async def _session(self, request: Request) -> tuple[Runtime, str]:
        session_id = _check_id(request.path_params["id"], "ses", "Params")
        return await self._instances.of_session(session_id, _directory(request)), session_id


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


def _directory(request: Request) -> str | None:
    """The directory that a request is about: GETs name it in the query, others in a header, URI-encoded."""
    header = request.headers.get("x-opencode-directory")
    return request.query_params.get("directory") or (unquote(header) if header else None)


async def _prompt(request: Request) -> PromptBody:
    body = await _body(request, PromptBody)
    if body.message_id is not None:
        _check_id(body.message_id, "msg")
    return body


async def _body(request: Request, kind: type[T], *, empty: bool = False) -> T:
    """Read and decode a request's body; with `empty` none is the same as ``{}``. Raises `BadRequest`."""
    data = await _bytes(request)
    try:
        plain = wire.parse(data) if data.strip() or not empty else {}
        if not isinstance(plain, dict):
            raise BadRequest("the body must be a JSON object")
        return wire.decode(plain, kind)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body does not fit: {error}") from None


async def _bytes(request: Request) -> bytes:
    data = bytearray()
    too_large = BadRequest(f"the body is larger than {LARGEST_BODY} bytes", "Body", 413)
    if int(request.headers.get("content-length") or 0) > LARGEST_BODY:
        raise too_large
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY:
            raise too_large
    return bytes(data)


def _check_id(value: Any, prefix: str, kind: Any = "Payload") -> str:
    if not ids.is_id(value, prefix):
        raise BadRequest(f"expected an id that begins with {prefix}_, found {value!r}", kind)
    return str(value)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        value = -1
    if value < 0:
        raise BadRequest(f"{name} must be a number of 0 or more, found {text!r}", "Query")
    return value


def _is_wanted(session: Session, request: Request) -> bool:
    """Whether the query of ``GET /session`` lets a session through."""
    query = request.query_params
    start, search = _number(request, "start"), query.get("search", "").lower()
    return (
        (query.get("roots") not in ("true", "1") or session.parent_id is None)
        and (start is None or session.time.updated >= start)
        and search in session.title.lower()
    )
