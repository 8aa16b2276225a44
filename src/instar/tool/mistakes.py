"""What is wrong with a value, found by the library ``jsonschema``, in words that a model can act on.

A schema may come from a stranger's server. So references are followed inside the document only, a check ends after
`MAX_STEPS` rules, and a regular expression that could take too long is not looked for: it counts as found (`re`
cannot be interrupted, and ``(a+)+$`` takes twice as long with each further character). The rules that do not count
their work, or follow references by names, are left out: ``uniqueItems``, ``unevaluated…``, ``$dynamicRef``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, Final

import attrs
import msgspec
from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]
from jsonschema.exceptions import UnknownType  # type: ignore[import-untyped]
from jsonschema.validators import create, validator_for  # type: ignore[import-untyped]
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable

from instar.wire import Plain
from instar.wire.pattern import late_pattern

MAX_SEARCH_STEPS: Final = 20_000_000
"""Steps that a search may take at worst: some tenths of a second."""

_REGEX_TOKEN: Final = late_pattern(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\((?:\?(?:[a-zA-Z-]*:|P<\w+>|<?[=!]|>|))?)|(?P<count>[*+]|\{\d*,?\d*\})|(?P<sign>[)|?])",
    re.DOTALL,
)
_REPEATABLE: Final = late_pattern(
    r"(?:\\(?P<escaped>[^\w\s])|(?P<sign>[^\w\s\\()\[\]|*+?{}.^$]))(?:\[(?P<set>[\w-]*)\]|\\[wd]|\w)(?:[*+]|\{\d*,?\d*\})?"
)
"""A group that begins with a sign and goes on without it: however often it is repeated, it fits in one way."""


_VERBOSE: Final = late_pattern(r"\(\?(?:#|[a-zA-Z]*x)")
"""A comment, or the flag that lets blanks and comments stand anywhere: what a repeat belongs to is hidden."""


def _is_found(pattern: str, text: str) -> bool:
    """True if a text holds a match, or looking for it could take too long. Raises `re.error`."""
    expression = _compiled(pattern)
    power = _power(pattern)
    if power is None or max(len(text), 1) ** power > MAX_SEARCH_STEPS:
        return True
    return expression.search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=256)
def _power(pattern: str) -> int | None:
    """The power of a text's length that a search takes at worst: its repeats, and where it may begin.

    None where it may be exponential: a repeated group with a repeat or a choice in it, as far as `_REPEATABLE` does
    not know better.
    """
    if _VERBOSE.search(pattern):
        return None
    power = 0 if pattern.startswith(("^", "\\A")) else 1
    varied, starts, closed = [False], [0], -1
    for token in _REGEX_TOKEN.finditer(pattern):
        if token["open"]:
            varied.append(False)
            starts.append(token.end())
        elif token["count"]:
            if token.start() == closed:
                return None
            varied[-1], power = True, power + 1
        elif token[0] == ")" and len(varied) > 1:
            inner, start = varied.pop(), starts.pop()
            varied[-1] = varied[-1] or inner
            closed = token.end() if inner and not _is_repeatable(pattern[start : token.start()]) else -1
        elif token["sign"]:
            varied[-1] = True
    return power


def _is_repeatable(group: str) -> bool:
    found = _REPEATABLE.fullmatch(group)
    if found is None:
        return False
    return (found["escaped"] or found["sign"]) not in re.sub(r"\w-\w", "", found["set"] or "")


MAX_SHOWN: Final = 80
"""How many characters of a wrong value are repeated."""
MAX_CHOICES: Final = 20
"""How many allowed values are listed."""


def _path(place: Sequence[str | int]) -> str:
    """Return a place in a value as a model writes it: ``todos[2].status``; ``input`` for the whole."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "input"


def _shown(value: Any) -> str:
    """Return a value with its type: ``string "ten"``, ``null``."""
    text = _literal(value)
    return text if value is None else f"{_type_name(value)} {text}"


def _literal(value: Any) -> str:
    """Return a value as JSON, cut at `MAX_SHOWN` characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _type_name(value: Any) -> str:
    """Return the JSON Schema type of a value."""
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "null"


def _form(schema: Any) -> str:
    """Return in a few words what a schema takes: ``string``, ``one of "a", "b"``, ``array of number``."""
    if not isinstance(schema, dict):
        return "a value"
    if "enum" in schema:
        return f"one of {_choices(schema['enum'])}"
    if "const" in schema:
        return _literal(schema["const"])
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), dict) and "type" in schema["items"]:
        return f"array of {_form(schema['items'])}"
    if kind is None:
        return "a value"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _choices(allowed: Sequence[Any], value: Any = None) -> str:
    """Return the allowed values as JSON, in the schema's order; of more than `MAX_CHOICES` those nearest to `value`."""
    if len(allowed) <= MAX_CHOICES:
        return ", ".join(map(_literal, allowed))
    if isinstance(value, str):
        allowed = sorted(allowed, key=lambda choice: -_likeness(choice, value))
    return f"{', '.join(map(_literal, allowed[:MAX_CHOICES]))} … ({len(allowed)} in all)"


def _nearest(name: str, names: Sequence[str]) -> str | None:
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
    first, second = (re.sub(r"[\W_]", "", text[:MAX_SHOWN]).lower() for text in (one, other))
    return SequenceMatcher(None, first, second).ratio()


MAX_STEPS: Final = 40_000
"""How many rules one check may apply: nested alternatives can be exponential. A long list counts for several."""

Rule = Callable[[Any, Any, Any, Plain], Iterable[ValidationError] | None]

_UNSAFE: Final = ("uniqueItems", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef")
_BOUNDS: Final[Mapping[str, str]] = {
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number above {}",
    "exclusiveMaximum": "a number below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "pattern": "text that matches {}",
}
_steps: ContextVar[list[int]] = ContextVar("steps")
"""How many steps are left."""


class _TooMuchError(Exception):
    """A check took more than `MAX_STEPS`."""


def mistakes(value: Any, schema: Any, root: Any) -> Iterator[str]:
    """Find what is wrong with a value, a sentence each. References mean what stands in `root`."""
    _steps.set([MAX_STEPS])
    checker = _checker(validator_for(root, default=Draft202012Validator))
    try:
        for error in checker(root, registry=Registry()).evolve(schema=schema).iter_errors(value):
            for place, text in _said(error):
                yield f"{_path(place)}: {text}"
    except (_TooMuchError, RecursionError):
        yield "input: nested too deeply to be checked"
    except UnknownType as error:
        yield f"input: the tool's own schema names the type {error.type!r}, which there is not"


def meant(reference: Any, root: Any) -> Any:
    """Return the schema that a reference points to; None if `root` does not hold it."""
    resource = Specification.OPAQUE.create_resource(root)
    try:
        return Registry().resolver_with_root(resource).lookup(reference).contents
    except Unresolvable:
        return None


@cache
def _checker(draft: Any) -> Any:
    """A draft's rules with our own in their place; each counts as a step."""
    rules = {**draft.VALIDATORS, **_OWN, "$ref": _inside(draft.VALIDATORS["$ref"])}
    safe = {keyword: _counted(rule) for keyword, rule in rules.items() if keyword not in _UNSAFE}
    checker = create(meta_schema={}, validators=safe, type_checker=draft.TYPE_CHECKER)
    # The library's own goes over to its unguarded rules wherever a schema in the document names a draft.
    checker.evolve = attrs.evolve
    return checker


def _counted(rule: Rule) -> Rule:
    def counted(validator: Any, wanted: Any, value: Any, schema: Plain) -> Iterable[ValidationError] | None:
        left = _steps.get()
        left[0] -= 1 + (len(wanted) // 50 if isinstance(wanted, list | dict) else 0)
        if left[0] < 0:
            raise _TooMuchError
        return rule(validator, wanted, value, schema)

    return counted


def _inside(rule: Rule) -> Rule:
    def ref(validator: Any, wanted: Any, value: Any, schema: Plain) -> Iterator[ValidationError]:
        try:
            yield from rule(validator, wanted, value, schema) or ()
        except Unresolvable:
            yield ValidationError(f"the tool's own schema refers to {wanted!r}, which it does not hold")

    return ref


def _pattern(validator: Any, wanted: str, value: Any, schema: Plain) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _is_found(wanted, value):
        yield ValidationError("")


def _pattern_properties(
    validator: Any, wanted: Plain, value: Any, schema: Plain
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, sub in wanted.items():
            for name in value:
                if _is_found(pattern, name):
                    yield from validator.descend(value[name], sub, path=name)


def _additional(validator: Any, wanted: Any, value: Any, schema: Plain) -> Iterator[ValidationError]:
    known = schema.get("properties", {})
    for name in value if isinstance(value, dict) else ():
        if name in known or any(_is_found(pattern, name) for pattern in schema.get("patternProperties", ())):
            continue
        if wanted is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(value[name], wanted, path=name)


def _property_names(validator: Any, wanted: Any, value: Any, schema: Plain) -> Iterator[ValidationError]:
    for name in value if isinstance(value, dict) else ():
        yield from validator.descend(name, wanted, path=name)


def _required(validator: Any, wanted: Any, value: Any, schema: Plain) -> Iterator[ValidationError]:
    for name in wanted if isinstance(value, dict) else ():
        if name not in value:
            yield ValidationError("", path=[name])


_OWN: Final[Mapping[str, Rule]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "required": _required,
}


def _said(error: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The mistakes that one of the library's errors stands for, each with its place."""
    place, wanted, value = tuple(error.absolute_path), error.validator_value, error.instance
    closest = _closest(error) if error.context else None
    if closest is not None:
        for one in closest:
            yield from _said(one)
        return
    match error.validator:
        case None:
            yield place, "not allowed"
        case "$ref":
            yield place, error.message
        case "items":
            for index in range(len(error.schema.get("prefixItems", ())), len(value)):
                yield (*place, index), "not allowed"
        case "required":
            yield place, _missing(error, str(place[-1]))
        case "additionalProperties":
            known = list(error.schema.get("properties", ()))
            yield place, f"unknown property, expected one of {_choices(known, place[-1])}"
        case "oneOf" if not error.context:
            yield place, f"fits several of the forms that exclude each other: {_forms(wanted)}"
        case keyword:
            yield place, f"expected {_expected(keyword, wanted, error)}, got {_shown(value)}"


def _missing(error: Any, name: str) -> str:
    properties = error.schema.get("properties", {})
    near = _nearest(name, [one for one in error.instance if one not in properties])
    meant = f' (is it what you gave as "{near}"?)' if near else ""
    return f"missing, expected {_form(properties.get(name))}{meant}"


def _expected(keyword: str, wanted: Any, error: Any) -> str:
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(wanted)
    match keyword:
        case "type":
            return _form(error.schema)
        case "enum":
            return f"one of {_choices(wanted, error.instance)}"
        case "const":
            return _literal(wanted)
        case "not":
            return f"anything but {_form(wanted)}"
        case "anyOf" | "oneOf":
            return _forms(wanted)
    return f"{keyword} {_literal(wanted)}"


def _closest(error: Any) -> list[Any] | None:
    """The mistakes of the one form that is of the right type, where no form fits."""
    # A form that is `False` leaves no path.
    tried = (one for one in error.context if one.relative_schema_path)
    forms = [list(found) for _, found in groupby(tried, key=lambda one: one.relative_schema_path[0])]
    typed = [
        found
        for found in forms
        if not any(one.validator == "type" and not one.relative_path for one in found)
    ]
    return typed[0] if len(typed) == 1 else None


def _forms(schemas: Iterable[Any]) -> str:
    return " or ".join(dict.fromkeys(map(_form, schemas)))
