"""How a mistake in a call's arguments is put to the model: what was expected, what came, what is near."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

SHOWN: Final = 80
"""How many characters of a wrong value are repeated."""
CHOICES: Final = 20
"""How many allowed values are listed."""


def path(place: Sequence[str | int]) -> str:
    """Return a place in a value as a model writes it: ``todos[2].status``; ``input`` for the whole."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "input"


def shown(value: Any) -> str:
    """Return a value with its type: ``string "ten"``, ``null``."""
    text = literal(value)
    return text if value is None else f"{type_name(value)} {text}"


def literal(value: Any) -> str:
    """Return a value as JSON, cut at `SHOWN` characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def type_name(value: Any) -> str:
    """Return the JSON Schema type of a value."""
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "null"


def expected(schema: Any) -> str:
    """Return in a few words what a schema takes: ``string``, ``one of "a", "b"``, ``array of number``."""
    if not isinstance(schema, dict):
        return "a value"
    if "enum" in schema:
        return f"one of {choices(schema['enum'])}"
    if "const" in schema:
        return literal(schema["const"])
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), dict) and "type" in schema["items"]:
        return f"array of {expected(schema['items'])}"
    if kind is None:
        return "a value"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def choices(allowed: Sequence[Any], value: Any = None) -> str:
    """Return the allowed values as JSON, those nearest to `value` first."""
    ordered = (
        sorted(allowed, key=lambda choice: -_likeness(choice, value)) if isinstance(value, str) else allowed
    )
    text = ", ".join(literal(choice) for choice in ordered[:CHOICES])
    return text + (f" … ({len(allowed)} in all)" if len(allowed) > CHOICES else "")


def near(name: str, names: Sequence[str]) -> str | None:
    """Return the one of `names` that most likely means `name`: ``file_path`` for ``filePath``."""
    best = max(names, key=lambda other: _likeness(name, other), default=None)
    return best if best is not None and _likeness(name, best) >= 0.6 else None


_TYPE_NAMES: Final = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)


def _likeness(one: Any, other: Any) -> float:
    if not isinstance(one, str) or not isinstance(other, str):
        return 0.0
    first, second = (re.sub(r"[\W_]", "", text[:SHOWN]).lower() for text in (one, other))
    return SequenceMatcher(None, first, second).ratio()
