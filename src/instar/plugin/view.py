"""The declared tree: what a room or a plugin shows of itself, and what of it may be set or called
(`docs/reference/plugin-api.md`).

A *view* hangs nodes under a dotted path: a `Value` is read and perhaps written, a `Method` is called, a `Branch`
holds others. Nothing else of a room can be reached through it: readers return plain data (JSON's types, and `Secret`
where a value must not be seen), never an object of the room's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from instar.wire import Plain
from instar.wire.pattern import late_pattern

NAME: Final = late_pattern(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
"""A name in the tree; what begins with two underscores is Python's own and never part of it."""
KEYWORDS: Final = frozenset(
    (
        *("type", "enum", "description", "default", "minimum", "maximum", "minLength", "maxLength"),
        *("items", "properties", "required", "additionalProperties"),
    )
)
"""What a kind may say: those keywords of JSON Schema that are checked, and two that only tell."""
TYPES: Final = frozenset(("boolean", "integer", "number", "string", "array", "object", "null"))


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value by its reader, which is given the id of the session that asks.

    `read` returns plain data, or an awaitable of it. `kind` is a JSON Schema of `KEYWORDS`: types, ranges and
    choices. `write` takes the session's id and a value that fits `kind`; None: it is read only. It raises `ValueError`
    with a sentence for a value that cannot be used. `default` gives what a reset sets (None: it is not reset).
    `scope` says whom a change reaches. With `guard` a value may only be set to what `tighter(old, new)` holds for, and
    it is never reset. `when` says when a change takes effect. `counted`, for a map or a list, is the word under which
    its branch is shown by number and names, as in ``subagents: 2 running``.
    """

    doc: str
    read: Callable[[str], Any]
    kind: Plain = {}
    write: Callable[[str, Any], None] | None = None
    default: Callable[[str], Any] | None = None
    scope: Literal["session", "instance"] = "session"
    guard: Literal["tighten"] | None = None
    tighter: Callable[[Any, Any], bool] | None = None
    when: str = ""
    counted: str = ""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a kind that would not be checked, and for a guard without a rule."""
        check_kind(self.kind)
        if (self.guard is None) != (self.tighter is None):
            raise ValueError("a guard and `tighter` come together")


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be called, with the session's id and arguments that fit `parameters`.

    `parameters` is a JSON Schema of an object, of `KEYWORDS`. `run` is sync (and then quick) or async, and returns
    plain data; it raises `ValueError` with a sentence for what it cannot do. `blocking` says that a sync `run` takes
    its time: it gets a thread of its own. `acts` says that it changes something, `writes` that it changes files: such a
    method goes through evolve's gate. A call may take `timeout` seconds.
    """

    doc: str
    run: Callable[[str, Plain], Any]
    parameters: Plain = {}
    acts: bool = False
    writes: bool = False
    blocking: bool = False
    timeout: float = 10.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for parameters that would not be checked, and for a time that is none."""
        check_kind(self.parameters)
        if self.parameters.get("type", "object") != "object":
            raise ValueError("the parameters of a method are an object")
        if not 0 < self.timeout <= 600:
            raise ValueError("a call may take above 0 and up to 600 seconds")
        if self.writes and not self.acts:
            raise ValueError("a method that writes acts")


class Branch(msgspec.Struct, frozen=True):
    """A place in the tree that holds others. Raises `ValueError` for a name that is none."""

    doc: str
    children: "Mapping[str, Node]"

    def __post_init__(self) -> None:
        """Check the names."""
        check_names(self.children)


Node = Value | Method | Branch


class View(msgspec.Struct, frozen=True):
    """A typed look into a room: nodes by name, under the dotted `path` (its `name` unless given; "" is the top).

    A bare function among `values` is the reader of a value without a kind. Raises `ValueError` for a name that is none.
    """

    name: str
    doc: str
    values: "Mapping[str, Node | Callable[[], Any]]"
    path: str | None = None

    def __post_init__(self) -> None:
        """Check the names."""
        check_names(self.at)
        check_names(self.values)

    @property
    def at(self) -> tuple[str, ...]:
        """The names that lead to it, from the top."""
        path = self.name if self.path is None else self.path
        return tuple(path.split(".")) if path else ()

    @property
    def children(self) -> Mapping[str, Node]:
        """Its nodes by name."""
        return {name: _node(name, value) for name, value in self.values.items()}

    def leaves(self) -> Iterator[tuple[tuple[str, ...], Value | Method]]:
        """Yield its values and methods, each with the names that lead there."""
        yield from _leaves(self.at, self.children)


def clash(view: View, other: View) -> str | None:
    """Return the path at which two views conflict, or None."""
    if any(one != another for one, another in zip(view.at, other.at, strict=False)):
        return None  # start-up time, here and below: most views part at their first name
    for one, another in ((view, other), (other, view)):
        if not one.at and another.at and another.at[0] not in one.values:
            return None
    taken = [at for at, _ in other.leaves()]
    for at, _ in view.leaves():
        if any(at[: len(one)] == one or one[: len(at)] == at for one in taken):
            return ".".join(at)
    return None


def check_names(names: Any) -> None:
    """Raise `ValueError` for a name that cannot stand in the tree."""
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of the tree: letters, digits and underscores, not two at its start"
            )


def check_kind(kind: Any) -> None:
    """Raise `ValueError` for a JSON Schema with a keyword that is not checked."""
    if not isinstance(kind, dict):
        raise ValueError(f"a kind is a JSON Schema, not {type(kind).__name__}")
    odd = [key for key in kind if key not in KEYWORDS]
    if odd:
        raise ValueError(f"{odd[0]!r} is not checked: a kind may say {', '.join(sorted(KEYWORDS))}")
    types = kind.get("type", [])
    for one in types if isinstance(types, list) else [types]:
        if one not in TYPES:
            raise ValueError(f"{one!r} is no type of JSON")
    items = [kind["items"]] if "items" in kind else []
    for inner in (*items, *kind.get("properties", {}).values()):
        check_kind(inner)


def _node(name: str, value: Any) -> Node:
    if isinstance(value, Value | Method | Branch):
        return value
    return Value(doc=f"{name}.", read=lambda session_id: value(), scope="instance")


def _leaves(
    at: tuple[str, ...], children: Mapping[str, Node]
) -> Iterator[tuple[tuple[str, ...], Value | Method]]:
    for name, node in children.items():
        if isinstance(node, Branch):
            yield from _leaves((*at, name), node.children)
        else:
            yield (*at, name), node
