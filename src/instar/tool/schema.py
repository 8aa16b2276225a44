"""Checks a call's arguments against its tool's JSON Schema (draft 2020-12, as far as tools use it).

Our own because it runs before every tool call: the ``jsonschema`` package needs 0.09 s to import and
about a millisecond for a call, this one some 10 to 60 microseconds. ``format``, ``if``, ``contains``,
``uniqueItems``, ``multipleOf``, ``dependent…`` and ``unevaluated…`` are not checked. References are
followed inside the document only (``#…``).

Values are never coerced. One kindness: `null` for an optional property that does not accept null counts
as absent, since models send it for "not given".
"""

from typing import Any, Final

from instar.tool import wording
from instar.tool.keywords import ENOUGH, RULES, Mistake, Place, Spot, is_type
from instar.wire import Plain

MAX_ERRORS: Final = ENOUGH
"""How many mistakes one answer names."""
MAX_DEPTH: Final = 120
"""How many schemas deep a value is followed; deeper ones are refused."""
MAX_STEPS: Final = 50_000
"""How many schemas one check may try: nested alternatives can be exponential."""


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
    """Return what is wrong with `value`, one sentence each, none when it is valid; at most `MAX_ERRORS`."""
    found = _Check(schema).run(schema, value, (), 0)
    texts = list(dict.fromkeys(f"{wording.path(mistake.place)}: {mistake.text}" for mistake in found))
    if len(texts) > MAX_ERRORS:
        texts[MAX_ERRORS - 1 :] = [f"… and {len(texts) - MAX_ERRORS + 1} more mistakes"]
    return texts


def without_nulls(value: Any, schema: Any) -> Any:
    """Return `value` without the optional properties that are null where the schema takes no null."""
    return _Check(schema).drop_nulls(schema, value, 0)


class _Check:
    """One check: the root for references, and how much work it has done."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.steps = 0

    def run(self, schema: Any, value: Any, place: Place, depth: int) -> list[Mistake]:
        """Return what is wrong with a value that stands at `place`."""
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            return [Mistake(place, "nested too deeply to be checked")]
        if not isinstance(schema, dict):
            return [] if schema is True else [Mistake(place, "not allowed")]
        kind = schema.get("type")
        if kind is not None and not is_type(value, kind):
            return [Mistake(place, f"expected {wording.expected(schema)}, got {wording.shown(value)}", True)]
        spot = Spot(self.run, self.target, place, depth + 1)
        found: list[Mistake] = []
        for keyword, wanted in schema.items():
            if keyword in RULES:
                found += RULES[keyword](spot, schema, wanted, value)
        return found

    def target(self, reference: Any) -> Any:
        """Return the schema that a reference means, None when there is none."""
        return _target(self.root, reference)

    def drop_nulls(self, schema: Any, value: Any, depth: int) -> Any:
        """Return `value` without needless nulls."""
        schema = self._followed(schema)
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return value
        if isinstance(value, list) and "items" in schema:
            return [self.drop_nulls(schema["items"], item, depth + 1) for item in value]
        properties = schema.get("properties")
        if not isinstance(value, dict) or not isinstance(properties, dict):
            return value
        return {
            name: self.drop_nulls(properties.get(name), item, depth + 1)
            for name, item in value.items()
            if item is not None or not self._needless(schema, name)
        }

    def _needless(self, schema: Plain, name: str) -> bool:
        if name in schema.get("required", ()) or name not in schema["properties"]:
            return False
        return bool(self.run(schema["properties"][name], None, (), 0))

    def _followed(self, schema: Any) -> Any:
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            schema = self.target(schema["$ref"])
        return None


def _target(root: Any, reference: Any) -> Any:
    """The schema that ``#`` or ``#/a/b`` means in `root`; None when it means none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return None
    return found if reference == "#" or reference.startswith("#/") else None
