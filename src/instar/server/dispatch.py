"""From a request to the method that carries it out, and from what it returns to an answer."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from instar import wire
from instar.plugin.route import Bound, Signature, signature
from instar.server.call import Call
from instar.server.errors import BadRequest, Forbidden, Kind, answer_for, reply
from instar.server.instances import Instances
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
    if taken.call:
        arguments["call"] = call
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
