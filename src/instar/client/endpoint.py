"""Operations as methods of a client, each declared once for both clients by what it takes and answers.

``session.messages`` is declared so::

    @endpoint("GET", "/session/{sessionID}/message")
    def messages(self, session_id: str, *, limit: int | None = None) -> list[WithParts]: ...

Each argument is the part of the path of its wire name (``session_id`` is ``{sessionID}``), or the ``body``, or, if it
can only be given by name, a field of the query. A method named as a builtin (``list``) stands last in its class:
annotations after it would mean the method.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cached_property
from inspect import Parameter, Signature, get_annotations, signature
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

import msgspec

from instar.api import operation
from instar.client.connection import AsyncConnection, Connection
from instar.client.request import Request
from instar.event import Event
from instar.wire import wire_name
from instar.wire.pattern import late_pattern

P = ParamSpec("P")
T = TypeVar("T")
Awaited = TypeVar("Awaited")
Waited = TypeVar("Waited")
C = TypeVar("C", bound=AsyncConnection | Connection)
"""How a client asks: what it returns is awaited, or was waited for."""

_PART: Final = late_pattern(r"\{(\w+)[^}]*\}")


class Calls(Generic[C]):
    """A family of operations, asked through one connection; the families in it are those that its class annotates."""

    def __init__(self, connection: C, name: str = "") -> None:
        self.connection = connection
        self._name = name
        for kind in type(self).__mro__:
            for field, family in get_annotations(kind).items():
                setattr(self, field, family.__origin__(connection, field))


class Endpoint(Generic[P, Awaited, Waited]):
    """One operation: a method of `Calls` that asks for it. `declared` gives its arguments and what it answers.

    `streams`: it answers with events, and does not end by itself.
    """

    def __init__(
        self,
        method: str,
        path: str,
        declared: Callable[[], Signature],
        doc: str | None,
        *,
        streams: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.streams = streams
        self.__doc__ = doc
        self._declared = declared

    @cached_property
    def taken(self) -> Signature:
        """The arguments and the answer; read with the first call, since most operations are never asked for."""
        return self._declared()

    @overload
    def __get__(self, calls: None, owner: type) -> Self: ...
    @overload
    def __get__(self, calls: Calls[AsyncConnection], owner: type) -> Callable[P, Awaited]: ...
    @overload
    def __get__(self, calls: Calls[Connection], owner: type) -> Callable[P, Waited]: ...
    def __get__(self, calls: Calls[Any] | None, owner: type) -> Any:
        return self if calls is None else self.over(calls.connection)

    def over(self, connection: AsyncConnection | Connection) -> Callable[P, Any]:
        """Return the method that asks through a connection."""

        def ask(*args: P.args, **named: P.kwargs) -> Any:
            request = self._request(*args, **named)
            if self.streams:
                return connection.events(request)
            return connection.ask(request, self.taken.return_annotation)

        # What `help` and editors show.
        ask.__doc__ = self.__doc__
        ask.__signature__ = self.taken  # type: ignore[attr-defined]
        return ask

    def _request(self, *args: Any, **named: Any) -> Request:
        given = self.taken.bind(*args, **named)
        given.apply_defaults()
        by_wire = {wire_name(name): value for name, value in given.arguments.items()}
        parts = tuple(by_wire.pop(name) for name in _PART.findall(self.path))
        body = by_wire.pop("body", None)
        return Request(self.method, _PART.sub("{}", self.path), parts, query=by_wire, body=body)


def endpoint(
    method: operation.Method, path: str
) -> Callable[[Callable[Concatenate[Any, P], T]], Endpoint[P, Coroutine[Any, Any, T], T]]:
    """Declare the decorated method as one that asks for an operation; its body is its docstring."""
    return lambda declared: Endpoint(method, path, lambda: _taken(declared), declared.__doc__)


def stream(
    path: str,
) -> Callable[[Callable[Concatenate[Any, P], Event]], Endpoint[P, AsyncIterator[Event], Iterator[Event]]]:
    """Declare the decorated method as one that yields events, from now on until the stream ends."""
    return lambda declared: Endpoint("GET", path, lambda: _taken(declared), declared.__doc__, streams=True)


def _taken(declared: Callable[..., Any]) -> Signature:
    found = signature(declared)
    return found.replace(parameters=list(found.parameters.values())[1:])


def carried_out_by(bound: operation.Bound) -> Endpoint[..., Any, Any]:
    """Return what asks for an operation that is declared where it is carried out."""
    declared = bound.operation
    streams = declared.media == "text/event-stream"
    return Endpoint(declared.method, declared.path, lambda: _carried(bound), bound.summary, streams=streams)


def _carried(bound: operation.Bound) -> Signature:
    declared, carrier = bound.operation, operation.signature(bound.handler)
    taken = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for name, kind in carrier.path.items()
    ]
    if carrier.body is not None:
        default, kind = (None, carrier.body | None) if carrier.optional else (Parameter.empty, carrier.body)
        taken.append(Parameter("body", Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
    for field in msgspec.structs.fields(carrier.query) if carrier.query is not None else ():
        default = Parameter.empty if field.required else field.default
        taken.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field.type))
    by_media = {"application/json": carrier.answer, "text/event-stream": Event}
    answer = None if declared.status == 204 else by_media.get(declared.media, str)
    return Signature(taken, return_annotation=answer)
