"""Which values may be set, kept and shown: the restricted parameters, JSON Schemas, bounds of plain data.

Ranges and wording are those of nanobot's tool ``self``: docs/reference/compatibility/nanobot-self.md. A boolean is not
a number, a number is not a text, ``80.0`` is not an integer; a number that comes as a text is taken where no text fits.
"""

import contextlib
import copy
import itertools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from instar.plugin import secret, wire
from instar.plugins.self.messages import UnfitValue

RESTRICTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "max_iterations": {"type": "integer", "minimum": 1, "maximum": 100},
    "context_window_tokens": {"type": "integer", "minimum": 4096, "maximum": 1_000_000},
    "model": {"type": "string", "minLength": 1, "maxLength": 512},
}
"""Each with its JSON Schema. Nothing that the tree holds leads here."""
SAFE: Final[Mapping[str, Any]] = {"max_iterations": 40, "context_window_tokens": 65_536}
"""What is set where neither the value nor its default is in range."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (float, int),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
"""The Python types of each JSON type; messages name the first."""
_LIMITS: Final[Mapping[str, tuple[tuple[type, ...], Callable[[Any, Any], bool], str]]] = {
    "minimum": ((int, float), operator.ge, ">= {}"),
    "maximum": ((int, float), operator.le, "<= {}"),
    # A text of blanks says nothing, however long it is.
    "minLength": ((str,), lambda text, least: len(text.strip()) >= least, "at least {} characters"),
    "maxLength": ((str,), lambda text, most: len(text) <= most, "at most {} characters"),
}
"""Each keyword with the types that it limits, what must hold, and how a message says it."""
ELEMENTS: Final = 1024
"""Elements of a value, over the whole of it."""
TEXT: Final = 32 << 10
"""Bytes of all texts of a value."""
LEVELS: Final = 10
"""Maps and lists inside each other."""
KEY: Final = 256
"""Characters of a key of a map."""
_INTEGER: Final = 2**63
"""Whole numbers are below it: what JSON's readers agree on."""
OUT: Final = 200_000
"""Elements of what a reader or a method returned, of which the answer shows the beginning."""
OUT_LEVELS: Final = 32
"""Maps and lists inside each other in what a reader or a method returned."""


def check_parameter(name: str, value: Any, schema: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Raise `UnfitValue` when a parameter cannot have a value, for its range or for the `schema` that it declares."""
    check(name, value, RESTRICTED.get(name, {}))
    check(name, value, schema)


def number(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the number that a text is where the schema takes a number and no text; anything else as it is."""
    kinds = str(schema.get("type"))
    if type(value) is str and "string" not in kinds and ("integer" in kinds or "number" in kinds):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def default(name: str, given: Any) -> Any:
    """Return what a reset sets: the default, else the nearest end of the range, else a safe value, else None."""
    try:
        check_parameter(name, given)
    except UnfitValue:
        if type(given) is int and "minimum" in RESTRICTED[name]:
            return max(RESTRICTED[name]["minimum"], min(RESTRICTED[name]["maximum"], given))
        return SAFE.get(name)
    return given


def check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Raise `UnfitValue`, with a sentence that names `name`, when plain data does not fit a JSON Schema."""
    allowed = schema.get("type", [])
    allowed = allowed if isinstance(allowed, list) else [allowed]
    if allowed and not any(type(value) in _TYPES[one] for one in allowed):
        expected = " or ".join(_TYPES[one][0].__name__ for one in allowed)
        raise UnfitValue(f"{name!r} must be {expected}, got {type(value).__name__}")
    choices = schema.get("enum")
    if choices is not None and not any(type(one) is type(value) and one == value for one in choices):
        raise UnfitValue(f"{name!r} must be one of {list(choices)}")
    for keyword, (types, holds, wording) in _LIMITS.items():
        if keyword in schema and type(value) in types and not holds(value, schema[keyword]):
            raise UnfitValue(f"{name!r} must be {wording.format(schema[keyword])}")
    if type(value) is list:
        for index, item in enumerate(value):
            check(f"{name}[{index}]", item, schema.get("items", {}))
    elif type(value) is dict:
        _check_keys(name, value, schema)


def _check_keys(name: str, value: wire.Plain, schema: Mapping[str, Any]) -> None:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            raise UnfitValue(f"{name!r} needs {key!r}")
    for key, item in value.items():
        if key in properties:
            check(f"{name}.{key}", item, properties[key])
        elif schema.get("additionalProperties", True) is False:
            takes = ", ".join(map(repr, properties)) or "nothing"
            raise UnfitValue(f"{name!r} has no {key[:80]!r}; it takes {takes}")


# -- what is kept -----------------------------------------------------------------------------------


def kept(value: Any) -> Any:
    """Return a detached copy of a value that may be kept. Raises `UnfitValue` with the reason."""
    _count(value, 0, 0, "")
    if _text(value) > TEXT:
        raise UnfitValue(f"value too large (max {TEXT} bytes of text)")
    return copy.deepcopy(value)


def _text(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(_text, value.values() if isinstance(value, dict) else value))
    return len(value.encode()) if isinstance(value, str) else 0


def _count(value: Any, levels: int, elements: int, where: str) -> int:
    """Return `elements` and those of a value, which stands inside `levels` maps and lists, in all.

    A cyclic value ends at the limit of levels. Raises `UnfitValue`; `where` begins the reason, unless the whole value
    is at fault.
    """
    kind = type(value)
    if kind in (dict, list) and levels >= LEVELS:
        raise UnfitValue(f"value nesting too deep (max {LEVELS} levels)")
    elements += not value if kind in (dict, list) else 1
    if elements > ELEMENTS:
        raise UnfitValue(f"value too large (max {ELEMENTS} total elements)")
    if fault := _fault(value):
        raise UnfitValue(where + fault)
    for name, item in value.items() if kind is dict else enumerate(value) if kind is list else ():
        if kind is dict and (fault := _key_fault(name)):
            raise UnfitValue(where + fault)
        place = f"dict key {name!r}" if kind is dict else f"list[{name}]"
        elements = _count(item, levels + 1, elements, f"{where}{place} contains ")
    return elements


def _key_fault(name: Any) -> str | None:
    """Return why a map cannot be kept with a key."""
    if type(name) is not str:
        return f"dict key must be str, got {type(name).__name__}"
    if len(name) > KEY:
        return f"dict key too long (max {KEY} characters)"
    return "dict key is not text (half a surrogate pair)" if _is_half(name) else None


def _fault(value: Any) -> str | None:
    """Return why a value, without what it holds, cannot be kept."""
    kind = type(value)
    if kind in (bool, dict, list) or value is None:
        return None
    if kind is int:
        return None if abs(value) < _INTEGER else "unsupported int (more than 64 bits)"
    if kind is float:
        return None if math.isfinite(value) else f"unsupported float {value} (not JSON)"
    if kind is str:
        return "unsupported str (half a surrogate pair)" if _is_half(value) else None
    # After the exact types: `callable` looks at the class, and runs no code of the value.
    return "cannot store callable values" if callable(value) else f"unsupported type {kind.__name__}"


def _is_half(text: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in text)


# -- what goes out -----------------------------------------------------------------------------------


def detached(value: Any) -> Any:
    """Return a copy of plain data as it is. Raises `UnfitValue` for anything else, and for a `Secret` in it."""
    return _copied(value, 0, itertools.count(1), None)


def shown(value: Any, secrets: Iterable[secret.Secret] = (), name: str = "") -> Any:
    """Return a detached copy of what a reader returned, with secrets masked.

    Masked are every `Secret`, values whose key (or `name`, the key of the whole value) names a secret, and each of
    `secrets` inside of a text. Raises `UnfitValue` for anything but plain data, naming its type only.
    """
    return secret.masked({name: _copied(value, 0, itertools.count(1), list(secrets))})[name]


def _copied(value: Any, levels: int, elements: Iterator[int], secrets: Sequence[secret.Secret] | None) -> Any:
    """Return a copy of a value that stands inside `levels` maps and lists; `elements` counts all of them.

    `secrets` and every `Secret` are masked; None masks nothing and refuses a `Secret`. Raises `UnfitValue`.
    """
    if levels > OUT_LEVELS:
        raise UnfitValue(f"it is nested too deep (max {OUT_LEVELS} levels)")
    if next(elements) > OUT:
        raise UnfitValue(f"it is too large (max {OUT:,} elements)")
    kind = type(value)
    if kind is dict:
        return {
            _copied_key(key, secrets): _copied(item, levels + 1, elements, secrets)
            for key, item in value.items()
        }
    if kind in (list, tuple):
        return [_copied(item, levels + 1, elements, secrets) for item in value]
    return _copied_leaf(value, secrets)


def _copied_key(key: Any, secrets: Sequence[secret.Secret] | None) -> str:
    if type(key) not in (str, int):
        raise UnfitValue(f"it has a key of type {type(key).__name__}, which is not plain data")
    return secret.redact(str(key), secrets or ())


def _copied_leaf(value: Any, secrets: Sequence[secret.Secret] | None) -> Any:
    kind = type(value)
    if kind is str:
        return secret.redact(value, secrets or ())
    if kind is secret.Secret and secrets is not None:
        return secret.MASK
    if kind is float and not math.isfinite(value):
        return str(value)
    if kind is int and abs(value) >= _INTEGER:
        return "an int of more than 64 bits"
    if kind in (int, float, bool) or value is None:
        return value
    raise UnfitValue(f"it holds a {kind.__name__}, which is not plain data")
