"""opencode's schemas as a validator, and as a source of values that they allow."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-schemas.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="session")
def problems() -> Callable[[str, Any], list[str]]:
    """What is wrong with a value by the schema of a name."""

    @cache
    def validator(name: str) -> Draft202012Validator:
        return Draft202012Validator(
            {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
        )

    def check(name: str, value: Any) -> list[str]:
        return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(value)]

    return check


@pytest.fixture(scope="session")
def valid() -> Callable[..., st.SearchStrategy[Any]]:
    """A strategy for the values that the schema of a name allows; `extra` adds unknown fields anywhere."""
    return named


@cache
def named(name: str, extra: bool = False) -> st.SearchStrategy[Any]:
    return values(SCHEMAS[name], extra)


def values(schema: dict[str, Any], extra: bool, key: str = "") -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return named(schema["$ref"].rsplit("/", 1)[1], extra)
    if "anyOf" in schema:
        return st.one_of([values(one, extra, key) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return objects(schema, extra)
        case "array":
            return st.lists(values(schema["items"], extra), max_size=2)
        case "string":
            prefix = schema.get("pattern", "^")[1:]
            return TEXT.map(lambda text: prefix + "_" + text) if prefix else TEXT
        case "boolean":
            return st.booleans()
        case "number" if key == "cost":
            return st.floats(0, 1e9) | st.integers(0, 9)
        case "number" | "integer":
            return st.integers(0, 2**53)
    return JSON.filter(lambda value: value is not None)


def objects(schema: dict[str, Any], extra: bool) -> st.SearchStrategy[dict[str, Any]]:
    items = schema.get("additionalProperties")
    if isinstance(items, dict):
        return st.dictionaries(TEXT, values(items, extra), max_size=2)
    properties = schema.get("properties", {})
    if items is not False:
        return st.dictionaries(TEXT, JSON, max_size=3)
    required = set(schema.get("required", ()))
    known = {name: values(sub, extra, name) for name, sub in properties.items()}
    made = st.fixed_dictionaries(
        {name: sub for name, sub in known.items() if name in required},
        optional={name: sub for name, sub in known.items() if name not in required},
    )
    if not extra:
        return made
    more = st.dictionaries(TEXT.map("x-".__add__), JSON, max_size=2)
    # opencode may leave a session's cost and tokens out, and no program writes null for them.
    nullable = sorted(set(known) - required - {"cost", "tokens"})
    null = st.sets(st.sampled_from(nullable)) if nullable else st.just(set())
    return st.builds(lambda a, b, c: {**dict.fromkeys(c), **a, **b}, made, more, null)
