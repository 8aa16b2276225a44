"""From a request to the operation's method, and from what it returns to an answer.

Three kinds of operations: those of the core (one route for all), those over a web socket (``media="websocket"``), and
those that plugins contribute below ``/instar/``.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast, get_args
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, WebSocketRoute, compile_path, request_response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from instar import wire
from instar.api.operation import Bound, Signature, flagship_operations, signature
from instar.message import TRACE, trace_parent
from instar.plugin import NotFound, Registry
from instar.plugin.door import ENDINGS, Exited
from instar.server.call import Call
from instar.server.errors import BadRequest, Forbidden, Kind, answer_for, refusal, reply
from instar.server.instances import Instances
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.wire import wire_name

Endpoint = Callable[[Request], Awaitable[Response]]

_NOBODY: Final = (
    "{} is a person's to ask for, and this server asks nobody for a password, so that a program of the model's could "
    "ask too: type it as an instar command, or start the server without --no-auth"
)


def endpoint(bound: Bound, instances: Instances) -> Endpoint:
    """Return an operation's ASGI endpoint; the method's types are looked at when it is first asked for."""
    known: list[Signature] = []

    async def carry(request: Request) -> Response:
        call = Call(request, instances)
        try:
            if not known:
                known.append(signature(bound.handler))
            return await answer(bound, known[0], call, request.path_params)
        except Exception as error:
            return answer_for(call.explained(error), request.url.path)

    return carry


async def answer(bound: Bound, taken: Signature, call: Call, path: Mapping[str, str]) -> Response:
    """Carry a request out. Raises what the method raises, and `BadRequest` for what does not fit its types.

    Raises `Forbidden` for what only a person may ask for, where whoever asks did not have to log in.
    """
    if bound.operation.order and not call.is_person:
        raise Forbidden(_NOBODY.format(bound.operation.id))
    arguments: dict[str, Any] = {
        name: _fit(path[wire_name(name)], kind, "Params", wire_name(name))
        for name, kind in taken.path.items()
    }
    if taken.query is not None:
        arguments["query"] = _fit(dict(call.request.query_params), taken.query, "Query", "the query")
    if taken.body is not None:
        arguments["body"] = await _body(call, taken)
    offered: dict[str, Any] = {"call": call}
    if taken.given - {"call"}:
        session_id = arguments.get("session_id")
        runtime = await (call.runtime() if session_id is None else call.of_session(session_id))
        offered |= {"runtime": runtime, "instance": runtime.instance}
    arguments |= {name: offered[name] for name in taken.given}
    TRACE.set(trace_parent(call.request.headers.get("traceparent", "")))
    value = await bound.handler(**arguments)
    if isinstance(value, Response):
        return value
    status, media = bound.operation.status, bound.operation.media
    if status == 204:
        return Response(status_code=204)
    if media not in ("application/json", "websocket"):
        return Response(value, status, media_type=media)
    answered = reply(plain(value), status)
    answered.headers.update(call.headers)
    return answered


def plain(value: Any) -> Any:
    """Return an answer as what can be encoded: values with a form of their own in that form."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    own = getattr(value, "to_plain", None)
    return value if own is None else own()


async def _body(call: Call, taken: Signature) -> Any:
    data = await call.bytes()
    try:
        found = wire.parse(data) if data.strip() or not taken.optional else {}
        if isinstance(taken.body, type) and not isinstance(found, dict):
            raise BadRequest("the body must be a JSON object")
        return wire.received(found, taken.body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body does not fit: {error}") from None


def _fit(given: Any, kind: Any, where: Kind, name: str) -> Any:
    """A path's part or the query as its type: texts become numbers and truth values where those are due."""
    try:
        return msgspec.convert(_numbers(given, kind), cast("Any", kind), strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadRequest(f"{name}: {error}", where) from None


def _numbers(given: Any, kind: Any) -> Any:
    """A query with ``5.0`` and ``1e3`` as JavaScript may write whole numbers, and without empty fields."""
    if not isinstance(given, dict):
        return given
    fields = msgspec.structs.fields(kind)
    whole = {field.encode_name for field in fields if _holds(field.type, int)}
    # msgspec takes the word for nothing where no text may stand; a client that means nothing leaves the field out.
    words = {field.encode_name for field in fields if _holds(field.type, str)}
    for key in {field.encode_name for field in fields} - words:
        if str(given.get(key, "")).lower() == "null":
            raise ValueError(f"{key} is {given[key]!r}; leave it out")
    return {key: _whole(value) if key in whole else value for key, value in given.items()}


def _holds(kind: Any, wanted: type) -> bool:
    return kind is wanted or any(_holds(one, wanted) for one in get_args(kind))


def _whole(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


ANY: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
"""Methods that reach what plugins contribute."""
NODE: Final = "instar.node"
"""The key of a request's scope for the node of its path."""
_SLASH: Final = "\ue000"
"""Stands for an encoded slash while a path is looked up: a character that means nothing by itself."""


class _Node:
    """Where a path's parts lead to; at an operation's end that path, its variable parts and its methods' endpoints."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.rest: _Node | None = None
        self.path = ""
        self.names: list[str] = []
        self.endpoints: dict[str, Endpoint] = {}

    def below(self, part: str) -> "_Node":
        """Return the node for a part of an operation's path, which may be ``{name}`` or ``{name:path}``."""
        if not part.startswith("{"):
            return self.fixed.setdefault(part, _Node())
        if part.endswith(":path}"):
            self.rest = self.rest or _Node()
            return self.rest
        self.variable = self.variable or _Node()
        return self.variable

    def find(self, parts: Sequence[str]) -> "tuple[_Node, list[str]] | None":
        """Return the node of a path, and its variable parts. A fixed part stands before a variable one."""
        if not parts:
            return (self, []) if self.endpoints else None
        first, *others = parts
        for node, given in ((self.fixed.get(first), []), (self.variable if first else None, [first])):
            found = None if node is None else node.find(others)
            if found is not None:
                return found[0], [*given, *found[1]]
        return None if self.rest is None else (self.rest, ["/".join(parts)])


class OperationTree(BaseRoute):
    """The route of all operations. Its parts may hold encoded slashes.

    A route of Starlette for each path would compile 179 patterns when a server starts, a seventh of that.
    """

    def __init__(self, bounds: Iterable[Bound], instances: Instances) -> None:
        self._top = _Node()
        self._app = request_response(_carried)
        for bound in bounds:
            node, parts = self._top, bound.operation.path.split("/")
            for part in parts:
                node = node.below(part)
            node.path = bound.operation.path
            node.names = [part[1:-1].partition(":")[0] for part in parts if part.startswith("{")]
            node.endpoints[bound.operation.method] = endpoint(bound, instances)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request's path; the parts that it gives are decoded."""
        if scope["type"] != "http":
            return Match.NONE, {}
        raw: bytes = scope.get("raw_path") or b""
        path = str(scope["path"])
        if b"%2f" in raw.lower():
            path = unquote(raw.decode("ascii", "replace").replace("%2F", "%2f").replace("%2f", quote(_SLASH)))
        found = self._top.find(path.split("/"))
        if found is None:
            return Match.NONE, {}
        node, parts = found
        given = {name: part.replace(_SLASH, "/") for name, part in zip(node.names, parts, strict=True)}
        return Match.FULL, {NODE: node, "path_params": given}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that was matched."""
        await self._app(scope, receive, send)


async def _carried(request: Request) -> Response:
    endpoints: Mapping[str, Endpoint] = request.scope[NODE].endpoints
    method = "GET" if request.method == "HEAD" else request.method
    if method not in endpoints:
        raise HTTPException(405, headers={"Allow": allowed(endpoints)})
    return await endpoints[method](request)


def allowed(methods: Iterable[str]) -> str:
    """Return the methods of a path for a refusal; a path with GET also has HEAD."""
    known = {*methods}
    return ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))


log = logging.getLogger("instar.server")

MEDIA: Final = "websocket"
"""What such an operation says of its answer."""
LARGEST: Final = 1024 * 1024
"""Bytes of a client's message."""


def sockets(bounds: Iterable[Bound], instances: Instances) -> list[WebSocketRoute]:
    """Return the routes of such operations; a plain request for one has its own (`instar.server.dispatch`)."""
    return [
        WebSocketRoute(bound.operation.path, socket_endpoint(bound, instances))
        for bound in bounds
        if bound.operation.media == MEDIA
    ]


def socket_endpoint(bound: Bound, instances: Instances) -> Callable[[WebSocket], Awaitable[None]]:
    """Return an operation's endpoint; its method accepts the socket and returns when the conversation is over.

    What it raises before that is answered in place of opening the socket, as a request is.
    """

    async def carry(socket: WebSocket) -> None:
        call = Call(cast("Request", socket), instances)
        try:
            await answer(bound, signature(bound.handler), call, socket.path_params)
        except WebSocketDisconnect:
            return
        except Exception as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                log.error("web socket failed path=%s", socket.url.path, exc_info=error)
                await socket.close(1011)
                return
            refused = answer_for(call.explained(error), socket.url.path)
            await socket.send_denial_response(refused)

    return carry


PATH: Final = "/instar/{rest:path}"


class Contributed:
    """Carries out what no operation of the core's (`own`) does."""

    def __init__(self, instances: Instances, own: Iterable[Bound]) -> None:
        self._instances = instances
        self._own = tuple(own)
        self._known: WeakKeyDictionary[Callable[..., Any], Signature] = WeakKeyDictionary()

    async def carry(self, request: Request) -> Response:
        """Answer a request for a path of `PATH`."""
        try:
            return await self._answer(request)
        except ENDINGS as error:  # a plugin ends no server
            return answer_for(Exited(error), request.url.path)
        except Exception as error:
            return answer_for(error, request.url.path)

    async def _answer(self, request: Request) -> Response:
        call = Call(request, self._instances)
        method = "GET" if request.method == "HEAD" else request.method
        path = str(request.scope["path"])
        registry = (await call.runtime()).registry
        found = _find(registry.routes, method, path)
        if found is not None:
            bound, parts = found
            return await answer(bound, self._signature(bound), call, parts)
        for name, bounds in flagship_operations().items():
            if _find(bounds, method, path) is not None:
                raise NotFound(f"{name} is not in use in this directory: {_why(registry, name)}")
        others = [
            *self._own,
            *registry.routes,
            *(bound for bounds in flagship_operations().values() for bound in bounds),
        ]
        known = {one.operation.method for one in others if _parts(one, path) is not None}
        if known:
            refused = refusal(405, "BadRequest", f"{method} {path}: it is asked for by {allowed(known)}")
            refused.headers["Allow"] = allowed(known)
            return refused
        raise NotFound(f"{method} {path}: Not Found")

    def _signature(self, bound: Bound) -> Signature:
        function = getattr(bound.handler, "__func__", bound.handler)
        known = self._known.get(function)
        if known is None:
            known = self._known[function] = signature(bound.handler)
        return known


def _why(registry: Registry, name: str) -> str:
    return registry.idle.get(name) or FLAGSHIPS[name].idle


def _find(bounds: Iterable[Bound], method: str, path: str) -> tuple[Bound, dict[str, str]] | None:
    """The operation of a request, and the variable parts of its path; a fixed path stands before a pattern."""
    for bound in sorted(bounds, key=lambda one: one.operation.path.count("{")):
        if bound.operation.method == method and (parts := _parts(bound, path)) is not None:
            return bound, parts
    return None


def _parts(bound: Bound, path: str) -> dict[str, str] | None:
    """Return the variable parts of a path by their wire names; None if the path is not this operation's."""
    found = compile_path(bound.operation.path)[0].match(path)
    return None if found is None else found.groupdict()
