"""The shape of an answer: its keys and their JSON types, so that two servers' answers can be compared."""

import re
from collections.abc import Iterator
from typing import Any

ID = re.compile(r"(ses|msg|prt|per|que|evt|pty)_[0-9A-Za-z]+")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
WORDS = ("name", "_tag", "kind")
"""Of an error these hold the same words in both."""


def shape(value: Any) -> Any:
    """Reduce a value: an object to its keys' shapes, a list to the shapes of its kinds of item, the rest to a word.

    Ids are told apart by their prefix; a key that is an id stands for all such keys.
    """
    if isinstance(value, dict):
        return {ID.sub(r"<\1>", key): shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return listed(value)
    if isinstance(value, str):
        found = ID.fullmatch(value)
        return f"<{found[1]}>" if found else "string"
    return {bool: "boolean", type(None): "null"}.get(type(value), "number")


def listed(items: list[Any]) -> dict[str, Any]:
    """The shapes of a list's items by kind; items of one kind are put together."""
    found: dict[str, Any] = {}
    for item in items:
        name = f"({kind(item)})"
        found[name] = together(found[name], shape(item)) if name in found else shape(item)
    return found


def kind(item: Any) -> str:
    """What tells one kind of item from another: an event's type, a message's role, a tool's name and state."""
    if not isinstance(item, dict):
        return ""
    inner = item.get("info")
    words = [item.get("type"), item.get("role"), item.get("tool")]
    if isinstance(inner, dict):
        words.append(inner.get("role"))
    for key in ("state", "syncEvent"):
        within = item.get(key)
        if isinstance(within, dict):
            words += [within.get("status"), within.get("type")]
    if isinstance(item.get("payload"), dict):
        return kind(item["payload"])
    return " ".join(word for word in words if isinstance(word, str))


def together(one: Any, other: Any) -> Any:
    """The shape of two values of one kind: what either has."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return {
            key: together(one[key], other[key])
            if key in one and key in other
            else one.get(key, other.get(key))
            for key in keys
        }
    if one == other:
        return one
    return " or ".join(sorted({*str(one).split(" or "), *str(other).split(" or ")}))


def differences(path: str, theirs: Any, ours: Any) -> Iterator[str]:
    """One line for each place at which two shapes differ: ``path: opencode's, instar: ours``."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            below = f"{path}{key}" if key.startswith("(") else f"{path}.{key}"
            yield from differences(below, theirs.get(key), ours.get(key))
    elif theirs != ours:
        yield f"{path}: {_brief(theirs)}, instar: {_brief(ours)}"


def _brief(found: Any) -> str:
    return f"({', '.join(found)})" if isinstance(found, dict) else str(found or "nothing")
