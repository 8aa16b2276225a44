"""What a handler leaves in its output: checked against the hook point's type, and detached from the handler.

A handler works on a copy. What it made of it is taken over only if it is sound, and as a copy again, so that
what it keeps and changes later changes nothing.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, TypeVar, get_args

import msgspec

from instar import wire
from instar.message import Assistant, UnknownPart, User, WithParts, decode_message, decode_with_parts

O = TypeVar("O")  # noqa: E741 - as in `hookpoint`

_UNSOUND: Final = (
    msgspec.MsgspecError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    OverflowError,
)


class UnusableOutput(Exception):
    """An output that cannot be used; the text names the field and says what is wrong with it."""


def detached(output: O) -> O:
    """Return an independent copy of an output. Raises `UnusableOutput` for wrong types and what is not JSON.

    Message parts in a list of anything stay objects; a part that was given as a dict stays one.
    """
    strange = [name for name in getattr(output, "__dict__", ()) if name != "leftover"]
    if strange:
        raise UnusableOutput(f"it set `{strange[0]}`, and {type(output).__name__} has no such field")
    values = {}
    kind: Any = type(output)
    for name, take in _fields(kind):
        try:
            values[name] = take(getattr(output, name))
        except _UNSOUND as error:
            raise UnusableOutput(f"what it left in `{name}` cannot be used: {error}") from error
    made: O = kind(**values)
    _keep_rest(output, made)
    return made


def taken(output: O, changes: Mapping[str, Any]) -> O:
    """Return `output` with `changes`, by wire names; None takes a field away. Raises `UnusableOutput` as `detached`.

    For a handler that was given no copy, since its output crossed over to another process. What it did not change,
    single messages of a list too, stays the same object; what no field is called is left out, as opencode does.
    """
    kind: Any = type(output)
    values = {name: getattr(output, name) for name, _ in _fields(kind)}
    for (name, take), key in zip(_fields(kind), kind.__struct_encode_fields__, strict=True):
        if key not in changes:
            continue
        try:
            values[name] = _kept(values[name], changes[key]) if take is _messages else take(changes[key])
        except _UNSOUND as error:
            raise UnusableOutput(f"what it left in `{key}` cannot be used: {error}") from error
    made: O = kind(**values)
    _keep_rest(output, made)
    return made


def fill(output: O, found: O) -> None:
    """Put the fields of `found` into `output`, which its caller holds."""
    kind: Any = type(output)
    for name, _ in _fields(kind):
        setattr(output, name, getattr(found, name))
    _keep_rest(found, output)


def json_copy(value: Any) -> Any:
    """Return a detached copy of JSON-ready values. Raises `UnusableOutput` when they are none."""
    try:
        return wire.parse(wire.encode(value))
    except _UNSOUND as error:
        raise UnusableOutput(f"what it left is not JSON: {error}") from error


def _keep_rest(source: object, target: object) -> None:
    left = getattr(source, "leftover", None)
    if left:
        target.__dict__["leftover"] = json_copy(left)


@cache
def _fields(kind: type) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(field.name, _taker(field.type)) for field in msgspec.structs.fields(kind)]


def _taker(kind: Any) -> Callable[[Any], Any]:
    """How a field of this type is copied and checked."""
    if kind == list[WithParts]:
        return _messages
    if kind in (User, Assistant, User | Assistant):
        return lambda value: _message(value, kind)
    if kind == list[Any] or (isinstance(kind, UnionType) and list[Any] in get_args(kind)):
        return _things
    return lambda value: wire.decode(wire.encode(value), kind)


def _messages(value: Any) -> list[WithParts]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list of messages, found {_name(value)}")
    return [one.copy() if isinstance(one, WithParts) else decode_with_parts(_object(one)) for one in value]


def _kept(known: list[WithParts], value: Any) -> list[WithParts]:
    """Return the messages of `value`; those of `known` are not copied."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list of messages, found {_name(value)}")
    own = {id(one) for one in known}
    return [one if id(one) in own else decode_with_parts(_object(one)) for one in value]


def _message(value: Any, kind: Any) -> Any:
    found = decode_message(wire.to_plain(value)) if not isinstance(value, dict) else decode_message(value)
    if not isinstance(found, kind):
        raise TypeError(f"expected a message of the same role, found {_name(found)}")
    return found


def _things(value: Any) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {_name(value)}")
    return [_thing(one) for one in value]


def _thing(value: Any) -> Any:
    if isinstance(value, UnknownPart):
        return UnknownPart(fields=json_copy(value.fields))
    return wire.copy(value) if isinstance(value, msgspec.Struct) else json_copy(_object(value))


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {_name(value)}")
    return value


def _name(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
