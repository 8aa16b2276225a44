"""The base of every type that leaves the process, and a round trip that loses nothing.

Wire names are opencode's camelCase with ``ID`` in capitals. A type knows the fields of today; what
another program wrote beside them is the value's *leftover*: a dict under the attribute ``leftover`` of
the very value that it stood in, written back by `encode` and `to_plain`.

Laws: a leftover never overrides a field; it stays with its value when that value moves into another;
it is no part of equality; `replace`, `copy` and the ``copy`` module keep it, `msgspec.structs.replace`
drops that of the value it replaces (not those of the values inside). Only `decode` makes one.

The other files are formats and plain values: ids, secrets, JSON with comments, front matter. Imports no other room.
Begin with `Wire`.
"""

import json
from collections.abc import Iterable
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec

T = TypeVar("T")

Plain = dict[str, Any]
"""A JSON object as Python values."""

_any_leftover = False
"""True once `decode` has given a value a leftover. Until then nobody looks for one: a turn encodes some 80 values."""


def wire_name(name: str) -> str:
    """Return the wire name of a field: ``session_id`` is ``sessionID``, ``is_retryable`` ``isRetryable``."""
    head, *rest = name.split("_")
    return head + "".join("ID" if word == "id" else word.capitalize() for word in rest)


class WireMeta(msgspec.StructMeta):
    """Makes every wire type keyword-only: msgspec inherits all of its options but that one."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """Define a wire type."""
        options.setdefault("kw_only", True)
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Wire(msgspec.Struct, metaclass=WireMeta, rename=wire_name, omit_defaults=True, dict=True):
    """A value with a wire form. Fields whose value is their default (``None``) are left out.

    A required field of the wire that has a default here takes it from a `default_factory`, which
    msgspec always writes.
    """

    keeps_unknown: ClassVar[bool] = False
    """Whether `received` keeps what a client sent that the type does not know."""

    def __copy__(self) -> Self:
        """Return a shallow copy with the leftover."""
        return replace(self)

    def __deepcopy__(self, memo: object) -> Self:
        """Return a deep copy with the leftovers."""
        return copy(self)


def decode(data: bytes | str | Plain, kind: type[T]) -> T:
    """Decode JSON text, or an object already parsed, as `kind`, keeping what `kind` does not know.

    Numbers without a fraction (``1718000000000.0``) are taken where an integer is due. What stands in
    free-form fields of an object already parsed is shared with it, not copied. Raises
    `msgspec.ValidationError` when a known field is missing or has the wrong type, and
    `msgspec.DecodeError` when `data` is not JSON; both name the place as ``$.path`` where they can.
    """
    if isinstance(data, bytes | str):
        value = _exact(data, kind)
        if value is not None:
            return value
        data = parse(data)
    value = _convert(data, kind)
    _keep(data, msgspec.to_builtins(value), value)
    return value


def received(data: Plain, kind: type[T]) -> T:
    """Decode an object that a client sent, as `decode`, but without what `kind` does not know, unless it keeps that.

    Null in place of a field is that field left out. An answer that is made of the value would show such a null, and
    what is unknown: opencode's schemas allow neither, and a real opencode reads over both.
    """
    return known(decode(data, kind))


def known(value: T) -> T:
    """Return a value that was just decoded, without what its type does not know, unless that keeps it."""
    _forget(value)
    return value


def parse(data: bytes | str) -> Any:
    """Return JSON text as plain values; half a surrogate pair, which JavaScript writes, becomes U+FFFD.

    Raises `msgspec.DecodeError` when `data` is not JSON, not UTF-8, or nested too deeply to be read.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not isinstance(error, msgspec.DecodeError):
            raise msgspec.DecodeError(f"JSON is malformed: {error}") from error
        if (b"\\u" if isinstance(data, bytes) else "\\u") not in data:  # type: ignore[operator]
            raise
        return _parse_halves(data, error)


def to_plain(value: object) -> Any:
    """Return `value` as JSON-ready Python values, detached, its leftovers included."""
    plain = msgspec.to_builtins(value)
    return _put_back(plain, value) if _any_leftover and _has_leftover(value) else plain


def encode(value: object) -> bytes:
    """Return `value` as JSON bytes, its leftovers included; half a surrogate pair becomes U+FFFD."""
    if not (_any_leftover and _has_leftover(value)):
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            pass  # a file name that is not UTF-8, or a text cut by a program that counts in UTF-16
    return msgspec.json.encode(_whole_characters(to_plain(_parsed(value))))


def copy(value: T) -> T:
    """Return an independent deep copy of a wire value, its leftovers included."""
    if not (_any_leftover and _has_leftover(value)):
        # A hook is given a copy of the whole history at each step: looking for leftovers again costs half of it.
        return _convert(msgspec.to_builtins(value), type(value))
    return decode(to_plain(value), type(value))


def as_stored(value: T) -> T:
    """Return a copy of a wire value as a store would give it back: half a surrogate pair becomes U+FFFD.

    For what the outside world named: with a file name that is not UTF-8 in it, no request could be encoded.
    """
    return decode(encode(value), type(value))


def replace(value: T, **changes: Any) -> T:
    """Return a shallow copy of a wire value with some fields changed, its leftover included."""
    made: T = msgspec.structs.replace(value, **changes)  # type: ignore[type-var]
    left = getattr(value, "leftover", None)
    if left:
        made.__dict__["leftover"] = dict(left)
    return made


def _exact(data: bytes | str, kind: type[T]) -> T | None:
    """`data` as `kind` when nothing was left over: what was written by us, which is nearly always."""
    try:
        value = msgspec.json.decode(data, type=kind)
        raw = data.encode() if isinstance(data, str) else data
        return value if msgspec.json.encode(value) == raw else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _convert(data: Any, kind: type[T]) -> T:
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            return msgspec.convert(_whole_numbers(data), kind)
    except RecursionError as error:
        raise msgspec.ValidationError("Nested too deeply") from error


def _keep(raw: Any, known: Any, value: object) -> None:
    """Give `value`, and every wire value inside, what `raw` holds for it and `known` (its form) lacks."""
    global _any_leftover
    if isinstance(value, msgspec.Struct):
        left = {key: item for key, item in raw.items() if key not in known}
        if left and isinstance(value, Wire):
            value.__dict__["leftover"] = left
            _any_leftover = True
        for name, key in _fields(value):
            if key in raw and key in known:
                _keep(raw[key], known[key], getattr(value, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _keep(raw[index], known[index], item)


def _forget(value: object, kept: bool = False) -> None:
    """Empty the leftovers of `value`, and of every wire value inside, of all but unknown keys that are `kept`."""
    if isinstance(value, msgspec.Struct):
        kept = kept or getattr(value, "keeps_unknown", False)
        left = getattr(value, "leftover", None)
        if left:
            names = value.__struct_encode_fields__
            value.__dict__["leftover"] = {key: left[key] for key in left if kept and key not in names}
        for name in value.__struct_fields__:
            _forget(getattr(value, name), kept)
    elif isinstance(value, list):
        for item in value:
            _forget(item, kept)


def _has_leftover(value: object) -> bool:
    if isinstance(value, list):
        return any(type(item) not in _LEAVES and _has_leftover(item) for item in value)
    if not isinstance(value, msgspec.Struct):
        return False
    if getattr(value, "leftover", None):
        return True
    for name in _holders(type(value)):
        item = getattr(value, name)
        if type(item) not in _LEAVES and _has_leftover(item):
            return True
    return False


@cache
def _holders(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a type in which another wire value may stand.

    A history is looked at whole at each step, and most of its fields are texts and numbers.
    """
    kinds: dict[str, Any] = {}
    # As written: to resolve them, as msgspec does, would add a millisecond to each start.
    for one in reversed(kind.__mro__):
        kinds |= getattr(one, "__annotations__", {})
    return tuple(name for name in kind.__struct_fields__ if not _is_leaf(kinds.get(name)))


def _is_leaf(kind: Any) -> bool:
    """Whether a value of this type, as it is annotated, holds no wire value; what is not known may hold one."""
    origin = get_origin(kind)
    if origin in (Union, UnionType, list):
        return bool(get_args(kind)) and all(map(_is_leaf, get_args(kind)))
    if origin is Annotated:
        return _is_leaf(get_args(kind)[0])
    return origin in (dict, Literal) or (kind is not None and kind in _LEAVES)


def _put_back(plain: Any, value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        for name, key in _fields(value):
            if key in plain:
                _put_back(plain[key], getattr(value, name))
        for key, item in (getattr(value, "leftover", None) or {}).items():
            if key not in plain:
                plain[key] = msgspec.to_builtins(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _put_back(plain[index], item)
    return plain


_LEAVES = frozenset({str, int, float, bool, dict, type(None)})
"""Types that hold no wire value: free-form dicts keep everything by themselves."""


def _fields(value: msgspec.Struct) -> Iterable[tuple[str, str]]:
    return zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)


def _parse_halves(data: bytes | str, error: Exception) -> Any:
    try:
        return _whole_characters(json.loads(data, parse_constant=_refuse))
    except (ValueError, RecursionError):
        raise error from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parsed(value: Any) -> Any:
    """`value` with JSON that stands in it ready-made (`msgspec.Raw`) as plain values."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, dict):
        return {key: _parsed(item) for key, item in value.items()}
    return [_parsed(item) for item in value] if isinstance(value, list) else value


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return [_whole_characters(item) for item in value] if isinstance(value, list) else value


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value
