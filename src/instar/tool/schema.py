"""Checks a call's arguments against its tool's JSON Schema.

The library ``jsonschema`` does it, as `instar.tool.mistakes` has it. Importing that costs 60 ms, so a value that
obviously fits a plain schema, as nearly all tools have, passes without it.

Values are never coerced, with one exception: `null` for an optional property that does not accept null counts
as absent, since models send it for "not given".
"""

from typing import Any, Final

from instar.wire import Plain

MAX_ERRORS: Final = 8
"""How many mistakes one answer names."""
MAX_DEPTH: Final = 120
"""How many schemas deep nulls are looked for."""

_PLAIN: Final = frozenset(
    (
        *("type", "title", "description", "default", "enum"),
        *("properties", "required", "additionalProperties", "items"),
        *("minimum", "maximum", "exclusiveMinimum", "minLength"),
    )
)
_TYPES: Final[dict[Any, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def validate(value: Any, schema: Plain) -> str | None:
    """Return what the model should read when `value` does not satisfy `schema`; None when it does.

    The text names each mistake (`MAX_ERRORS` at most): where, what was expected, what came. A null that
    `without_nulls` takes away is no mistake.
    """
    found = problems(without_nulls(value, schema), schema)
    if not found:
        return None
    text = f"{found[0]}." if len(found) == 1 else "".join(f"\n- {problem}" for problem in found)
    return f"{text}\nPlease rewrite the input so it satisfies the expected schema."


def problems(value: Any, schema: Any) -> list[str]:
    """Return what is wrong with `value`, one sentence each, none when it is valid; at most `MAX_ERRORS`.

    Raises whatever the library does for a schema that is none.
    """
    if _fits(value, schema):
        return []
    # Start-up time: 60 ms that only a mistake or an uncommon schema pays for.
    from instar.tool.mistakes import mistakes

    texts: dict[str, None] = {}
    for text in mistakes(value, schema, schema):
        if len(texts) == MAX_ERRORS and text not in texts:
            return [*list(texts)[: MAX_ERRORS - 1], "… and more mistakes"]
        texts[text] = None
    return list(texts)


def without_nulls(value: Any, schema: Any) -> Any:
    """Return `value` without the optional properties that are null where the schema takes no null."""
    return _dropped(value, schema, schema, 0)


def _is_plain(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema.keys() <= _PLAIN
        and isinstance(schema.get("type"), str)
        and schema["type"] in _TYPES
        and isinstance(schema.get("properties", {}), dict)
    )


def _fits(value: Any, schema: Any) -> bool:
    """True if a value obviously fits a plain schema; False: the library has to look."""
    if not _is_plain(schema) or type(value) not in _TYPES[schema["type"]]:
        return False
    if "enum" in schema and (not isinstance(value, str) or value not in schema["enum"]):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return all(name in value for name in schema.get("required", ())) and all(
            name in known and _fits(item, known[name]) for name, item in value.items()
        )
    if isinstance(value, list):
        return all(_fits(item, schema.get("items")) for item in value)
    if isinstance(value, str):
        return len(value) >= int(schema.get("minLength", 0))
    if isinstance(value, bool):
        return True
    above = value > schema.get("exclusiveMinimum", value - 1)
    return bool(above and schema.get("minimum", value) <= value <= schema.get("maximum", value))


def _dropped(value: Any, schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    if "$ref" in schema:
        # Start-up time, as above.
        from instar.tool.mistakes import meant

        return _dropped(value, meant(schema["$ref"], root), root, depth + 1)
    if isinstance(value, list) and "items" in schema:
        return [_dropped(item, schema["items"], root, depth + 1) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    optional = properties.keys() - set(schema.get("required", ()))
    return {
        name: _dropped(item, properties.get(name), root, depth + 1)
        for name, item in value.items()
        if item is not None or name not in optional or _takes_null(properties[name], root)
    }


def _takes_null(schema: Any, root: Any) -> bool:
    if _is_plain(schema):
        return False
    # Start-up time, as above.
    from instar.tool.mistakes import mistakes

    return next(mistakes(None, schema, root), None) is None
