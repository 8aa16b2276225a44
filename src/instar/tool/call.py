"""What goes into a tool's call and what comes out: checks arguments by the tool's JSON Schema, and cuts its output.

The library ``jsonschema`` checks, as `instar.tool.mistakes` has it. Importing that costs 60 ms, so a value that
obviously fits a plain schema, as nearly all tools have, passes without it. Values are never coerced, with one
exception: `null` for an optional property that does not accept null counts as absent, since models send it for "not
given".

An output is cut at 2,000 lines or 50 KiB, whichever comes first, as in opencode; the rest is kept in a file.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

from instar.wire import Plain, ids
from instar.wire.document import private_folder

MAX_ERRORS: Final = 8
"""How many mistakes one answer names."""
MAX_DEPTH: Final = 120
"""How many schemas deep nulls are looked for."""

MAX_LINES: Final = 2000
"""Lines of one output that the model is given."""
MAX_BYTES: Final = 50 * 1024
"""Bytes of UTF-8 of one output that the model is given."""

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
        known, others = schema.get("properties", {}), "additionalProperties" not in schema
        return all(name in value for name in schema.get("required", ())) and all(
            _fits(item, known[name]) if name in known else others for name, item in value.items()
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


def truncate(text: str, folder: Path, call_id: str) -> tuple[str, Plain]:
    """Return the part of `text` that the model gets, and metadata: `truncated`, and `outputPath` of the whole.

    A text beyond the limits is saved in `folder` (made if need be, for its owner alone) under a new name that
    ends with the call's id; the model is told where, and how to look into it. When it cannot be saved the
    text is cut all the same, and the model is told why the rest is lost.
    """
    head = cut(text)
    if len(head) == len(text):
        return text, {"truncated": False}
    what = f"The output was cut: {_amount(head)} of {_amount(text)} are shown."
    try:
        path = _save(text, folder, call_id)
    except OSError as error:
        reason = error.strerror or str(error)
        return f"{head}\n\n({what} The rest could not be saved: {reason}.)", {"truncated": True}
    hint = "Search it with grep, or read parts of it with offset and limit."
    return f"{head}\n\n({what} All of it is in {path}. {hint})", {"truncated": True, "outputPath": str(path)}


def cut(text: str) -> str:
    """Return the first whole lines of `text` that fit both limits, or part of a first line that does not."""
    lines = text.split("\n", MAX_LINES)
    head = text if len(lines) <= MAX_LINES else "\n".join(lines[:MAX_LINES])
    if len(head) * 4 <= MAX_BYTES:
        return head
    data = head.encode(errors="surrogatepass")
    if len(data) <= MAX_BYTES:
        return head
    data = data[:MAX_BYTES]
    end = data.rfind(b"\n")
    return (data[:end] if end > 0 else data).decode(errors="ignore")


def _amount(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines} line{'' if lines == 1 else 's'} ({len(text.encode(errors='surrogatepass'))} bytes)"


def _save(text: str, folder: Path, call_id: str) -> Path:
    private_folder(folder)
    # A call's id comes from the provider: only its plain characters may stand in a file's name.
    plain = re.sub(r"[^A-Za-z0-9_-]", "", call_id)[:40]
    path = folder / f"{ids.new('tool')}{'-' if plain else ''}{plain}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode(errors="surrogatepass"))
    return path
