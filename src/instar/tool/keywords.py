"""The keywords of JSON Schema that tools use: each a rule that says what of a value breaks it.

A rule gets its spot, the schema it stands in, the keyword's own value and the value to look at. It
says nothing about values of the types that its keyword does not speak of.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from instar.tool import wording
from instar.tool.expression import is_found
from instar.wire import Plain

Place = tuple[str | int, ...]
"""Where in a value: property names and list indexes from the root."""

ENOUGH: Final = 8
"""After how many mistakes a long array is not looked at further."""


class Mistake(NamedTuple):
    """One thing that is wrong; `mistyped` when the value is not even of the right type."""

    place: Place
    text: str
    mistyped: bool = False


class Spot(NamedTuple):
    """Where a rule stands: the place in the value, how deep, and the way to check what lies below."""

    check: Callable[[Any, Any, Place, int], list[Mistake]]
    target: Callable[[Any], Any]
    place: Place
    depth: int

    def run(self, schema: Any, value: Any, *step: str | int) -> list[Mistake]:
        """Check a value here, or one `step` below."""
        return self.check(schema, value, (*self.place, *step), self.depth)

    def mistake(self, text: str, *step: str | int) -> Mistake:
        """Return a mistake here, or one `step` below."""
        return Mistake((*self.place, *step), text)


Rule = Callable[[Spot, Plain, Any, Any], list[Mistake]]


def is_type(value: Any, kind: Any) -> bool:
    """Whether a value is of a JSON Schema type, or of one of several; 1.0 is an integer, True no number."""
    if isinstance(kind, list):
        return any(is_type(value, one) for one in kind)
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return bool(wording.type_name(value) == kind)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but not True."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _ref(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    target = spot.target(wanted)
    if target is None:
        return [spot.mistake(f"the tool's own schema refers to {wanted!r}, which it does not hold")]
    return spot.run(target, value)


def _properties(spot: Spot, schema: Plain, wanted: Plain, value: Any) -> list[Mistake]:
    if not isinstance(value, dict):
        return []
    found: list[Mistake] = []
    for name, sub in wanted.items():
        if name in value:
            found += spot.run(sub, value[name], name)
    return found


def _pattern_properties(spot: Spot, schema: Plain, wanted: Plain, value: Any) -> list[Mistake]:
    if not isinstance(value, dict):
        return []
    found: list[Mistake] = []
    for pattern, sub in wanted.items():
        for name in value:
            if is_found(pattern, name):
                found += spot.run(sub, value[name], name)
    return found


def _required(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if not isinstance(value, dict):
        return []
    properties = schema.get("properties") or {}
    stray = [name for name in value if name not in properties]
    found = []
    for name in wanted:
        if name not in value:
            near = wording.near(name, stray)
            meant = f' (is it what you gave as "{near}"?)' if near else ""
            found.append(
                spot.mistake(f"missing, expected {wording.expected(properties.get(name))}{meant}", name)
            )
    return found


def _additional(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if not isinstance(value, dict):
        return []
    known = schema.get("properties") or {}
    patterns = list(schema.get("patternProperties") or ())
    found: list[Mistake] = []
    for name in value:
        if name in known or any(is_found(pattern, name) for pattern in patterns):
            continue
        if wanted is False:
            found.append(
                spot.mistake(f"unknown property, expected one of {wording.choices(list(known), name)}", name)
            )
        else:
            found += spot.run(wanted, value[name], name)
    return found


def _property_names(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if not isinstance(value, dict):
        return []
    found: list[Mistake] = []
    for name in value:
        found += spot.run(wanted, name, name)
    return found


def _items(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if not isinstance(value, list):
        return []
    first = len(schema.get("prefixItems") or ())
    found: list[Mistake] = []
    for index in range(first, len(value)):
        found += spot.run(wanted, value[index], index)
        if len(found) > ENOUGH:
            break
    return found


def _prefix_items(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if not isinstance(value, list):
        return []
    found: list[Mistake] = []
    for index, (sub, item) in enumerate(zip(wanted, value, strict=False)):
        found += spot.run(sub, item, index)
    return found


def _all_of(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    found: list[Mistake] = []
    for sub in wanted:
        found += spot.run(sub, value)
    return found


def _any_of(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    tried = []
    for sub in wanted:
        mistakes = spot.run(sub, value)
        if not mistakes:
            return []
        tried.append(mistakes)
    return _closest(spot, wanted, tried, value)


def _one_of(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    tried = [spot.run(sub, value) for sub in wanted]
    good = sum(not mistakes for mistakes in tried)
    if good > 1:
        return [spot.mistake(f"fits {good} of the forms that exclude each other: {_forms(wanted)}")]
    return [] if good else _closest(spot, wanted, tried, value)


def _not(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if spot.run(wanted, value):
        return []
    return [spot.mistake(f"expected anything but {wording.expected(wanted)}, got {wording.shown(value)}")]


def _closest(spot: Spot, forms: Any, tried: list[list[Mistake]], value: Any) -> list[Mistake]:
    """What to say when no form fits: the mistakes of the one of the right type, else all the forms."""
    typed = [
        mistakes
        for mistakes in tried
        if not any(one.mistyped and one.place == spot.place for one in mistakes)
    ]
    if len(typed) == 1:
        return typed[0]
    return [spot.mistake(f"expected {_forms(forms)}, got {wording.shown(value)}")]


def _forms(schemas: Sequence[Any]) -> str:
    return " or ".join(dict.fromkeys(map(wording.expected, schemas)))


def _enum(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if any(same(value, allowed) for allowed in wanted):
        return []
    return [spot.mistake(f"expected one of {wording.choices(wanted, value)}, got {wording.shown(value)}")]


def _const(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
    if same(value, wanted):
        return []
    return [spot.mistake(f"expected {wording.literal(wanted)}, got {wording.shown(value)}")]


def _pattern(spot: Spot, schema: Plain, wanted: str, value: Any) -> list[Mistake]:
    if not isinstance(value, str) or is_found(wanted, value):
        return []
    return [spot.mistake(f"expected text that matches {wanted}, got {wording.shown(value)}")]


def _bound(kinds: Any, measure: Callable[[Any], Any], holds: Callable[[Any, Any], bool], text: str) -> Rule:
    """A rule of the form: `measure` of a value of `kinds` stands so to the keyword's number."""

    def rule(spot: Spot, schema: Plain, wanted: Any, value: Any) -> list[Mistake]:
        if not isinstance(value, kinds) or isinstance(value, bool) or holds(measure(value), wanted):
            return []
        return [spot.mistake(f"expected {text.format(wanted)}, got {wording.shown(value)}")]

    return rule


def _at_least(size: Any, bound: Any) -> bool:
    return bool(size >= bound)


def _at_most(size: Any, bound: Any) -> bool:
    return bool(size <= bound)


_NUMBER = (int, float)

RULES: Final[Mapping[str, Rule]] = {
    "$ref": _ref,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "items": _items,
    "prefixItems": _prefix_items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minimum": _bound(_NUMBER, lambda value: value, _at_least, "a number of at least {}"),
    "maximum": _bound(_NUMBER, lambda value: value, _at_most, "a number of at most {}"),
    "exclusiveMinimum": _bound(
        _NUMBER, lambda value: value, lambda size, bound: size > bound, "a number above {}"
    ),
    "exclusiveMaximum": _bound(
        _NUMBER, lambda value: value, lambda size, bound: size < bound, "a number below {}"
    ),
    "minLength": _bound(str, len, _at_least, "at least {} characters"),
    "maxLength": _bound(str, len, _at_most, "at most {} characters"),
    "minItems": _bound(list, len, _at_least, "at least {} items"),
    "maxItems": _bound(list, len, _at_most, "at most {} items"),
    "minProperties": _bound(dict, len, _at_least, "at least {} properties"),
    "maxProperties": _bound(dict, len, _at_most, "at most {} properties"),
}
