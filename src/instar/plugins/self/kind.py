"""Whether a value fits its declared kind, in the seed's words (seed 001 "Restricted parameters").

Nothing is coerced: a boolean is no number, a number no text, ``80.0`` no whole number.
"""

from collections.abc import Mapping
from typing import Any, Final

from instar.plugin import wire
from instar.plugins.self.refusal import Refusal

_NAMES: Final[Mapping[str, str]] = {
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "string": "str",
    "array": "list",
    "object": "dict",
    "null": "NoneType",
}
_OF: Final[Mapping[type, tuple[str, ...]]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


def check(name: str, value: Any, kind: wire.Plain) -> None:
    """Raise `Refusal`, with a sentence that names `name`, when plain data does not fit a kind."""
    _type(name, value, kind)
    choices = kind.get("enum")
    if choices is not None and not any(type(one) is type(value) and one == value for one in choices):
        raise Refusal(f"{name!r} must be one of {list(choices)}")
    if type(value) in (int, float):
        _range(name, value, kind)
    elif type(value) is str:
        _length(name, value, kind)
    elif type(value) is list:
        for index, item in enumerate(value):
            check(f"{name}[{index}]", item, kind.get("items", {}))
    elif type(value) is dict:
        _keys(name, value, kind)


def needed(kind: wire.Plain) -> list[str]:
    """Return the names that an object must hold."""
    return [str(name) for name in kind.get("required", ())]


def _type(name: str, value: Any, kind: wire.Plain) -> None:
    wanted = kind.get("type")
    if wanted is None:
        return
    allowed = wanted if isinstance(wanted, list) else [wanted]
    if not any(one in allowed for one in _OF.get(type(value), ())):
        said = " or ".join(_NAMES[one] for one in allowed)
        raise Refusal(f"{name!r} must be {said}, got {type(value).__name__}")


def _range(name: str, value: float, kind: wire.Plain) -> None:
    if "minimum" in kind and value < kind["minimum"]:
        raise Refusal(f"{name!r} must be >= {kind['minimum']}")
    if "maximum" in kind and value > kind["maximum"]:
        raise Refusal(f"{name!r} must be <= {kind['maximum']}")


def _length(name: str, value: str, kind: wire.Plain) -> None:
    # A blank text says nothing, however long it is.
    if "minLength" in kind and len(value.strip()) < kind["minLength"]:
        raise Refusal(f"{name!r} must be at least {kind['minLength']} characters")
    if "maxLength" in kind and len(value) > kind["maxLength"]:
        raise Refusal(f"{name!r} must be at most {kind['maxLength']} characters")


def _keys(name: str, value: wire.Plain, kind: wire.Plain) -> None:
    properties = kind.get("properties", {})
    for key in needed(kind):
        if key not in value:
            raise Refusal(f"{name!r} needs {key!r}")
    for key, item in value.items():
        if key in properties:
            check(f"{name}.{key}", item, properties[key])
        elif kind.get("additionalProperties", True) is False:
            takes = ", ".join(map(repr, properties)) or "nothing"
            raise Refusal(f"{name!r} has no {key[:80]!r}; it takes {takes}")
