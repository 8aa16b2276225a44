"""A script's parameter types as JSON Schema that a model and a validator both understand.

``any``, and the values of a bare ``object`` or ``array``,
are a named union of JSON values: where a schema says nothing, models wrap scalars in objects.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from instar.plugin import wire

ANY: Final[wire.Plain] = {"$ref": "#/$defs/json"}
TYPES: Final = "string, number, boolean, object, array, any, array[T], object[K, V]"
"""The types that a parameter may name, for messages."""

_SIMPLE: Final[dict[str, wire.Plain]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object", "additionalProperties": ANY},
    "array": {"type": "array", "items": ANY},
    "any": ANY,
}
_JSON: Final[wire.Plain] = {
    "anyOf": [
        *({"type": kind} for kind in ("string", "number", "boolean", "null")),
        {"type": "array", "items": ANY},
        {"type": "object", "additionalProperties": ANY},
    ]
}
_KEYS: Final[dict[str, wire.Plain]] = {
    "string": {},
    "any": {},
    "number": {"propertyNames": {"pattern": r"^-?\d+(\.\d+)?$"}},
}
"""What the K of ``object[K, V]`` asks of the keys: in JSON every key is a string."""
_DEPTH = 16


class BadParameter(ValueError):
    """A parameter that cannot be offered; the text names it and says what is expected."""


def schema(tool: str, parameters: Any) -> wire.Plain:
    """Return the JSON Schema of a tool's arguments.

    `parameters` maps a name to a description (a required string), or to ``{"type", "description",
    "optional", "enum"}``. Raises `BadParameter`.
    """
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, Mapping):
        raise BadParameter("parameters: expected a map of names to descriptions or types")
    properties = {str(name): _property(tool, str(name), spec) for name, spec in parameters.items()}
    found: wire.Plain = {
        "type": "object",
        "properties": properties,
        "required": [str(name) for name, spec in parameters.items() if not _optional(spec)],
        "additionalProperties": False,
    }
    if _refers(properties):
        found["$defs"] = {"json": _JSON}
    return found


def json_type(text: str, depth: int = 0) -> wire.Plain:
    """Return the JSON Schema of one type name. Raises `BadParameter` for a name that is not known."""
    name = text.strip()
    if name in _SIMPLE:
        return dict(_SIMPLE[name])
    nested = re.fullmatch(r"(array|object)\s*\[(.*)\]", name, re.DOTALL)
    if nested is None or depth > _DEPTH:
        raise BadParameter(f"unknown type {name!r}; known: {TYPES}")
    if nested[1] == "array":
        return {"type": "array", "items": json_type(nested[2], depth + 1)}
    key, comma, value = nested[2].partition(",")
    if not comma or key.strip() not in _KEYS:
        raise BadParameter(f"unknown type {name!r}: an object's keys are string, number or any")
    values = json_type(value, depth + 1)
    return {"type": "object", **_KEYS[key.strip()], "additionalProperties": values}


def _property(tool: str, name: str, spec: Any) -> wire.Plain:
    if isinstance(spec, str):
        spec = {"description": spec}
    if not isinstance(spec, Mapping):
        raise BadParameter(f"parameter {name!r}: expected a description or a map with a type, found {spec!r}")
    kind = spec.get("type", "string")
    if not isinstance(kind, str):
        raise BadParameter(f"parameter {name!r}: expected the name of a type, found {kind!r}")
    try:
        found = json_type(kind)
        if spec.get("enum") is not None:
            found = _limited(found, spec["enum"])
    except BadParameter as error:
        raise BadParameter(f"parameter {name!r}: {error}") from None
    found["description"] = str(spec.get("description") or "") or f"{name} of {tool}"
    return found


def _limited(found: wire.Plain, values: Any) -> wire.Plain:
    if not isinstance(values, list) or not values:
        raise BadParameter(f"enum: expected a list of values, found {values!r}")
    if found.get("type") == "array":
        return {**found, "items": {**found["items"], "enum": values}}
    return {**found, "enum": values}


def _optional(spec: Any) -> bool:
    return isinstance(spec, Mapping) and spec.get("optional") is True


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return "$ref" in value or any(_refers(item) for item in value.values())
    return isinstance(value, list) and any(_refers(item) for item in value)
