"""The OpenAPI document at ``/doc``, made of the operations' own types."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from instar import __version__
from instar.api.operation import Bound, Operation, Signature, signature
from instar.api.session import MessageWithParts
from instar.message import WithParts
from instar.wire import Plain, Wire, wire_name


class ErrorData(Wire):
    """What went wrong, and for a request that cannot be read, in which part of it."""

    message: str
    kind: str | None = None
    ref: str | None = None


class NamedError(Wire):
    """An error answer in opencode's form."""

    name: str
    data: ErrorData


class TaggedError(Wire):
    """An error answer in the form of opencode's newer routes."""

    tag: str = msgspec.field(name="_tag")
    message: str | None = None


_REF: Final = "#/components/schemas/{name}"
_SHAPES: Final[dict[Any, Any]] = {WithParts: MessageWithParts, list[WithParts]: list[MessageWithParts]}
"""Types that have a form of their own, by the type that has its schema."""
_DIRECTORY: Final = "The directory that the request is about; the server's own where it names none."
_WORKSPACE: Final = "A workspace of that directory's project, in place of its folder."
_SECURITY: Final[Plain] = {"basic": {"type": "http", "scheme": "basic"}}
_UNREADABLE: Final = "What does not fit, and where."


def document(bounds: Sequence[Bound]) -> Plain:
    """Return the document of a server that carries these operations out."""
    known = [(bound, signature(bound.handler)) for bound in bounds]
    found, components = msgspec.json.schema_components(
        _types(known), schema_hook=_anything, ref_template=_REF
    )
    schemas = iter(found)
    error = {"anyOf": [next(schemas), next(schemas)]}
    paths: dict[str, Plain] = {}
    for bound, taken in known:
        described = _operation(bound, taken, schemas, error)
        paths.setdefault(bound.operation.path.replace(":path}", "}"), {})[bound.operation.method.lower()] = (
            described
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "instar", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
        "security": [{"basic": []}],
    }


def _anything(kind: type) -> Plain:
    """The schema of what msgspec knows no form for: JSON of any shape. Raises `TypeError` for other types."""
    if kind is not object:
        raise TypeError(f"{kind} has no JSON schema")
    # An empty schema is taken for none.
    return {"description": "JSON of any shape."}


def _types(known: Iterable[tuple[Bound, Signature]]) -> list[Any]:
    """Every type that needs a schema, in the order in which `_operation` takes them."""
    types: list[Any] = [NamedError, TaggedError]
    for bound, taken in known:
        types += taken.path.values()
        types += _fields(taken).values()
        types += [taken.body] if taken.body is not None else []
        types += [_answer(bound, taken), *bound.operation.forms]
    return types


def _fields(taken: Signature) -> dict[str, Any]:
    if taken.query is None:
        return {}
    return {field.encode_name: field.type for field in msgspec.structs.fields(taken.query)}


def _answer(bound: Bound, taken: Signature) -> Any:
    if bound.operation.media == "text/event-stream":
        return Any if bound.operation.events is None else bound.operation.events
    if bound.operation.media not in ("application/json", "websocket"):
        return str
    return _SHAPES.get(taken.answer, taken.answer)


def _operation(bound: Bound, taken: Signature, schemas: Any, error: Plain) -> Plain:
    operation = bound.operation
    described: Plain = {
        "operationId": operation.id,
        "tags": [operation.id.partition(".")[0]],
        "summary": bound.summary,
        "parameters": _parameters(bound, taken, schemas),
    }
    if bound.description:
        described["description"] = bound.description
    if taken.body is not None:
        content = {"application/json": {"schema": next(schemas)}}
        described["requestBody"] = {"required": not taken.optional, "content": content}
    answer, forms = next(schemas), [next(schemas) for _ in operation.forms]
    described["responses"] = _responses(bound, answer, {"anyOf": [*error["anyOf"], *forms]})
    return described


def _parameters(bound: Bound, taken: Signature, schemas: Any) -> list[Plain]:
    parameters = [
        {"name": wire_name(name), "in": "path", "required": True, "schema": next(schemas)}
        for name in taken.path
    ]
    required = set() if taken.query is None else _required(taken.query)
    parameters += [
        {"name": name, "in": "query", "required": name in required, "schema": _given(next(schemas))}
        for name in _fields(taken)
    ]
    named = {parameter["name"] for parameter in parameters}
    places = _places(bound.operation) if bound.operation.scoped else []
    return [*parameters, *(place for place in places if place["name"] not in named)]


def _places(operation: Operation) -> list[Plain]:
    """How a request names the directory that it is about: `Call.directory` and `Call.runtime` read all of them."""
    fields = {"directory": _DIRECTORY, "workspace": _WORKSPACE}
    schemas = {name: {"type": "string", "description": said} for name, said in fields.items()}
    if operation.id.startswith("v2."):
        whole = {"type": "object", "properties": schemas}
        style = {"style": "deepObject", "explode": True}
        return [{"name": "location", "in": "query", "required": False, **style, "schema": whole}]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in schemas.items()
    ]


def _required(query: type[Wire]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(query) if field.required}


def _given(schema: Plain) -> Plain:
    """Return the schema of a query's field, without null: a query leaves the field out."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return schema if not kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _responses(bound: Bound, answer: Plain, error: Plain) -> Plain:
    operation = bound.operation
    success: Plain = {"description": bound.summary}
    if operation.status != 204:
        # Over a web socket nothing is answered; opencode's document has the method's type in its place.
        media = "application/json" if operation.media == "websocket" else operation.media
        success["content"] = {media: {"schema": answer}}
    refused = {"application/json": {"schema": error}}
    told = {400: _UNREADABLE, 401: "No name and password, or wrong ones.", 404: "There is no such thing."}
    told |= {
        403: "The Host or the Origin is not this server's.",
        409: "It is busy.",
        413: "The body is too large.",
    }
    statuses = sorted({400, 401, 403, *([413] if operation.method != "GET" else []), *operation.errors})
    return {
        str(operation.status): success,
        **{
            str(status): {"description": told.get(status, "Refused."), "content": refused}
            for status in statuses
        },
    }
