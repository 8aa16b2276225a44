"""The three restricted parameters with their ranges, and the check of a value against a JSON Schema.

Ranges and wording are those of nanobot's tool ``self``; docs/compatibility.md lists them. A value is never converted: a
boolean is not a number, a number is not a text, ``80.0`` is not an integer.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from instar.plugin import wire
from instar.plugins.self.messages import Refusal

RESTRICTED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "max_iterations": MappingProxyType({"type": "integer", "minimum": 1, "maximum": 100}),
        "context_window_tokens": MappingProxyType({"type": "integer", "minimum": 4096, "maximum": 1_000_000}),
        "model": MappingProxyType({"type": "string", "minLength": 1, "maxLength": 512}),
    }
)
"""Each with its JSON Schema. Nothing that the tree holds leads here."""
SAFE: Final[Mapping[str, Any]] = MappingProxyType({"max_iterations": 40, "context_window_tokens": 65_536})
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


def check_parameter(name: str, value: Any) -> None:
    """Raise `Refusal` when a restricted parameter cannot have a value. Other names may have any."""
    if name in RESTRICTED:
        check(name, value, dict(RESTRICTED[name]))


def is_sound(name: str, value: Any) -> bool:
    """Return whether a parameter can have a value."""
    try:
        check_parameter(name, value)
    except Refusal:
        return False
    return True


def default(name: str, given: Any) -> Any:
    """Return what a reset sets: the default, else the nearest end of the range, else a safe value, else None."""
    if is_sound(name, given):
        return given
    if type(given) is int and "minimum" in RESTRICTED[name]:
        return max(RESTRICTED[name]["minimum"], min(RESTRICTED[name]["maximum"], given))
    return SAFE.get(name)


def check(name: str, value: Any, schema: wire.Plain) -> None:
    """Raise `Refusal`, with a sentence that names `name`, when plain data does not fit a JSON Schema."""
    _check_type(name, value, schema)
    choices = schema.get("enum")
    if choices is not None and not any(type(one) is type(value) and one == value for one in choices):
        raise Refusal(f"{name!r} must be one of {list(choices)}")
    if type(value) in (int, float):
        if "minimum" in schema and value < schema["minimum"]:
            raise Refusal(f"{name!r} must be >= {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            raise Refusal(f"{name!r} must be <= {schema['maximum']}")
    elif type(value) is str:
        _check_length(name, value, schema)
    elif type(value) is list:
        for index, item in enumerate(value):
            check(f"{name}[{index}]", item, schema.get("items", {}))
    elif type(value) is dict:
        _check_keys(name, value, schema)


def _check_type(name: str, value: Any, schema: wire.Plain) -> None:
    wanted = schema.get("type")
    if wanted is None:
        return
    allowed = wanted if isinstance(wanted, list) else [wanted]
    if not any(type(value) in _TYPES[one] for one in allowed):
        expected = " or ".join(_TYPES[one][0].__name__ for one in allowed)
        raise Refusal(f"{name!r} must be {expected}, got {type(value).__name__}")


def _check_length(name: str, value: str, schema: wire.Plain) -> None:
    # A text of blanks says nothing, however long it is.
    if "minLength" in schema and len(value.strip()) < schema["minLength"]:
        raise Refusal(f"{name!r} must be at least {schema['minLength']} characters")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        raise Refusal(f"{name!r} must be at most {schema['maxLength']} characters")


def _check_keys(name: str, value: wire.Plain, schema: wire.Plain) -> None:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            raise Refusal(f"{name!r} needs {key!r}")
    for key, item in value.items():
        if key in properties:
            check(f"{name}.{key}", item, properties[key])
        elif schema.get("additionalProperties", True) is False:
            takes = ", ".join(map(repr, properties)) or "nothing"
            raise Refusal(f"{name!r} has no {key[:80]!r}; it takes {takes}")
