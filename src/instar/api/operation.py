"""Operations of the HTTP interface, each declared beside the method that carries it out.

The declaration and the method's types are all there is: the server's routes and the document at ``/doc`` are made of
them, and tests hold the methods of `instar.client` against them. Of a method's arguments, ``query`` and ``body`` are
what they say, ``runtime`` is that of the directory that the request is about, or in which the session of its path
lives, ``instance`` is that runtime's, ``call`` is the request itself (`instar.server.call.Call`; a plugin's routes
belong to one instance and need none), and each other one is the part of the path of its wire name (``session_id`` is
``{sessionID}``). The first paragraph of its docstring is the summary, the rest the description.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from instar.settings.builtin_plugins import FLAGSHIPS
from instar.wire import Wire, wire_name

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler = Callable[..., Any]

F = TypeVar("F", bound=Handler)


class Operation(msgspec.Struct, frozen=True):
    """What can be asked of the server: a method and a path, under an id (opencode's ``operationId``).

    `status` is that of a success (204 has no body), `errors` those that may come beside 400 and 401. `scoped`: it is
    about a directory, which ``?directory=`` or ``x-opencode-directory`` names. `media` is the answer's type; that of
    an answer which is no JSON needs no schema, except for `events`, the type of one event of a stream. `order`: only a
    person may ask for it, so it is refused (403) where the server lets in whoever reaches it. `forms`: types of
    errors that are neither named with a message nor tagged.
    """

    method: Method
    path: str
    id: str
    status: int = 200
    errors: tuple[int, ...] = ()
    scoped: bool = True
    media: str = "application/json"
    events: Any = None
    order: bool = False
    forms: tuple[Any, ...] = ()


class Signature(NamedTuple):
    """What an operation's method takes and returns, as types.

    `path` by argument name; `optional`: the body may be left out; `given`: which of `GIVEN` the method takes.
    """

    path: dict[str, Any]
    query: type[Wire] | None
    body: Any
    optional: bool
    given: frozenset[str]
    answer: Any


class Bound(NamedTuple):
    """An operation and the method that carries it out."""

    operation: Operation
    handler: Handler

    @property
    def summary(self) -> str:
        """The first paragraph of the method's docstring."""
        return inspect.cleandoc(self.handler.__doc__ or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        """The rest of the method's docstring."""
        return inspect.cleandoc(self.handler.__doc__ or "").partition("\n\n")[2].replace("\n", " ")


_ATTRIBUTE: Final = "__operation__"
GIVEN: Final = frozenset({"call", "runtime", "instance"})
"""Arguments that the server fills in."""
_NAMED: Final = ("self", "query", "body", "return", *GIVEN)


def operation(method: Method, path: str, id: str, **more: Any) -> Callable[[F], F]:  # noqa: A002 - the protocol's name
    """Declare the decorated method as the carrier of an operation; `more` as in `Operation`."""

    def mark(handler: F) -> F:
        setattr(handler, _ATTRIBUTE, Operation(method, path, id, **more))
        return handler

    return mark


def operations(routes: object) -> Iterator[Bound]:
    """Yield what the methods of an object, or a class, carry out, in the order in which they stand there."""
    kind = routes if isinstance(routes, type) else type(routes)
    for name, value in vars(kind).items():
        declared = getattr(value, _ATTRIBUTE, None)
        if declared is not None:
            yield Bound(declared, getattr(routes, name))


@cache
def flagship_operations() -> Mapping[str, Sequence[Bound]]:
    """Return the flagships' operations by their names; the methods are those of classes, which nobody can call."""
    found = {}
    for name, flagship in FLAGSHIPS.items():
        if flagship.routes:
            module, _, attribute = flagship.routes.partition(":")
            found[name] = tuple(operations(getattr(import_module(module), attribute)))
    return found


def signature(handler: Handler) -> Signature:
    """Return what a method takes and returns. Raises `TypeError` for one whose types are not said."""
    hints = get_type_hints(handler, include_extras=True)
    if "return" not in hints:
        raise TypeError(f"{handler.__qualname__} does not say what it returns")
    parameters = inspect.signature(handler).parameters
    body = parameters.get("body")
    optional = body is not None and body.default is not inspect.Parameter.empty
    kind = hints.get("body")
    if optional and type(None) in get_args(kind):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return Signature(
        path={name: hint for name, hint in hints.items() if name not in _NAMED},
        query=hints.get("query"),
        body=kind,
        optional=optional,
        given=GIVEN & parameters.keys(),
        answer=hints["return"],
    )


def names_of(path: str) -> Sequence[str]:
    """Return the wire names of a path's variable parts, in order: ``/a/{bID}/c`` gives ``bID``."""
    return [part[1:-1].partition(":")[0] for part in path.split("/") if part.startswith("{")]


def check(bound: Bound) -> None:
    """See that a method's arguments are the path's parts. Raises `TypeError`."""
    taken = [wire_name(name) for name in signature(bound.handler).path]
    if sorted(taken) != sorted(names_of(bound.operation.path)):
        raise TypeError(f"{bound.operation.id}: {bound.operation.path} and its method's {taken} do not agree")
