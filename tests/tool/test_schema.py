import socket
import time
import timeit
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.tool.call import MAX_ERRORS, problems, validate, without_nulls

READ = {
    "type": "object",
    "properties": {
        "filePath": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0},
        "mode": {"type": "string", "enum": ["alpha", "beta", "gamma"]},
    },
    "required": ["filePath"],
}
ANY: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "array", "items": {"$ref": "#/$defs/any"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}},
    ]
}
WITH_ANY = {
    "type": "object",
    "properties": {"value": {"$ref": "#/$defs/any"}},
    "required": ["value"],
    "$defs": {"any": ANY},
}

DRAFT_07 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "definitions": {
        "tree": {"properties": {"sub": {"type": "array", "items": {"$ref": "#/definitions/tree"}}}}
    },
    "properties": {
        "pair": {"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
        "tree": {"$ref": "#/definitions/tree"},
    },
}


def doubling(keyword: str) -> Any:
    """A schema of forty levels, each of which asks for the next one twice."""
    levels: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**levels, "d40": {"type": "string"}}}


MANY: dict[str, Any] = {f"name{number}": {"type": "string"} for number in range(5_000)}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_that_satisfy_the_schema_have_no_problem() -> None:
    assert validate({"filePath": "a", "offset": 3, "mode": "beta", "more": [1]}, READ) is None


def test_the_text_names_every_mistake_and_ends_with_what_to_do() -> None:
    assert validate({"file_path": "a", "offset": "3", "mode": "bet"}, READ) == (
        '\n- offset: expected integer, got string "3"'
        '\n- mode: expected one of "alpha", "beta", "gamma", got string "bet"'
        '\n- filePath: missing, expected string (is it what you gave as "file_path"?)'
        "\nPlease rewrite the input so it satisfies the expected schema."
    )
    assert validate({}, READ) == (
        "filePath: missing, expected string.\nPlease rewrite the input so it satisfies the expected schema."
    )


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "string"}, 1, "input: expected string, got integer 1"),
        ({"type": "integer"}, "1", 'input: expected integer, got string "1"'),
        ({"type": "integer"}, 1.5, "input: expected integer, got number 1.5"),
        ({"type": "number"}, True, "input: expected number, got boolean true"),
        (
            {"type": "array", "items": {"type": "string"}},
            {},
            "input: expected array of string, got object {}",
        ),
        ({"items": {"type": "string"}}, ["a", 2], "[1]: expected string, got integer 2"),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 2], "[1]: not allowed"),
        ({"minItems": 2}, [1], "input: expected at least 2 items, got array [1]"),
        ({"maxItems": 0}, [1], "input: expected at most 0 items, got array [1]"),
        ({"minLength": 1}, "", 'input: expected at least 1 characters, got string ""'),
        ({"maxLength": 1}, "ab", 'input: expected at most 1 characters, got string "ab"'),
        ({"pattern": "^a"}, "b", 'input: expected text that matches ^a, got string "b"'),
        ({"minimum": 1}, 0, "input: expected a number of at least 1, got integer 0"),
        ({"maximum": 1}, 2, "input: expected a number of at most 1, got integer 2"),
        ({"exclusiveMinimum": 0}, 0, "input: expected a number above 0, got integer 0"),
        ({"exclusiveMaximum": 1}, 1, "input: expected a number below 1, got integer 1"),
        ({"const": "a"}, "b", 'input: expected "a", got string "b"'),
        ({"enum": [1, 2]}, True, "input: expected one of 1, 2, got boolean true"),
        ({"not": {"type": "string"}}, "a", 'input: expected anything but string, got string "a"'),
        ({"minProperties": 1}, {}, "input: expected at least 1 properties, got object {}"),
        ({"maxProperties": 0}, {"a": 1}, 'input: expected at most 0 properties, got object {"a":1}'),
        ({"propertyNames": {"enum": ["a"]}}, {"b": 1}, 'b: expected one of "a", got string "b"'),
        (
            {"patternProperties": {"^n": {"type": "number"}}},
            {"n1": "x"},
            'n1: expected number, got string "x"',
        ),
        ({"additionalProperties": {"type": "number"}}, {"a": "x"}, 'a: expected number, got string "x"'),
        (
            {"properties": {"name": {}}, "additionalProperties": False},
            {"nmae": 1},
            'nmae: unknown property, expected one of "name"',
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            "input: expected string or null, got integer 1",
        ),
        (
            {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "string"}]},
            {},
            "a: missing, expected a value",
        ),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            "input: fits several of the forms that exclude each other",
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "array"}]},
            3,
            "input: expected string or array, got integer 3",
        ),
        (
            {"allOf": [{"minimum": 1}, {"maximum": 2}]},
            3,
            "input: expected a number of at most 2, got integer 3",
        ),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
            1,
            "input: expected string, got integer 1",
        ),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, 1, "input: expected string"),
        (
            {"$ref": "#/$defs/gone"},
            1,
            "input: the tool's own schema refers to '#/$defs/gone', which it does not hold",
        ),
        (
            {"$ref": "https://example.com/x"},
            1,
            "input: the tool's own schema refers to 'https://example.com/x'",
        ),
        (DRAFT_07, {"pair": ["a", "b"]}, 'pair[1]: expected integer, got string "b"'),
        (DRAFT_07, {"tree": {"sub": [{"sub": 1}]}}, "tree.sub[0].sub: expected array, got integer 1"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "b: missing, expected a value"),
        ({"multipleOf": 3}, 4, "input: expected a multiple of 3, got integer 4"),
        ({"contains": {"type": "null"}}, [1], 'input: expected contains {"type":"null"}, got array [1]'),
        ({"type": "wish"}, 1, "input: the tool's own schema names the type 'wish', which there is not"),
        ({"enum": [0, "1"]}, False, 'input: expected one of 0, "1", got boolean false'),
        ({"const": [1, [True]]}, [1, [1]], "input: expected [1,[true]], got array [1,[1]]"),
        (False, 1, "input: not allowed"),
        (WITH_ANY, {}, "value: missing"),
        (
            {"properties": {"todos": {"items": {"properties": {"status": {"type": "string"}}}}}},
            {"todos": [{}, {"status": 1}]},
            "todos[1].status: expected string, got integer 1",
        ),
        ({"type": "string"}, None, "input: expected string, got null"),
        ({"type": "string"}, 1.5, "input: expected string, got number 1.5"),
        ({"type": "integer"}, "é", 'input: expected integer, got string "é"'),
        ({"type": "integer"}, "x" * 200, 'input: expected integer, got string "' + "x" * 79 + "…"),
        ({"type": "string"}, {"a": [None]}, 'input: expected string, got object {"a":[null]}'),
        ({"type": "array", "items": {"type": "number"}}, 1, "input: expected array of number, got integer 1"),
        ({"enum": ["a", 1]}, "b", 'input: expected one of "a", 1, got string "b"'),
        ({"const": None}, 1, "input: expected null, got integer 1"),
        ({"not": {}}, 1, "input: expected anything but a value, got integer 1"),
        ({"not": True}, 1, "input: expected anything but a value, got integer 1"),
    ],
)
def test_a_mistake_is_named_by_place_expectation_and_value(schema: Any, value: Any, said: str) -> None:
    assert problems(value, schema)[0].startswith(said)


@pytest.mark.parametrize(
    ("name", "given", "nearest"),
    [
        ("filePath", ["file_path", "offset"], "file_path"),
        ("oldString", ["old_str", "new_str"], "old_str"),
        ("offset", ["completely"], None),
        ("offset", [], None),
    ],
)
def test_the_nearest_name_that_was_given_is_pointed_out_whatever_its_case(
    name: str, given: list[str], nearest: str | None
) -> None:
    (problem,) = problems(dict.fromkeys(given, 1), {"properties": {name: {}}, "required": [name]})
    meant = f' (is it what you gave as "{nearest}"?)' if nearest else ""
    assert problem == f"{name}: missing, expected a value{meant}"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, 1),
        ({"const": 1}, 1.0),
        ({"enum": [{"a": [1, None]}]}, {"a": [1.0, None]}),
        ({"minLength": 5}, 1),
        ({"type": "string", "format": "date", "x-own": 1}, "no date"),
        (True, object),
        ({}, None),
        ({"type": ["string", "integer"]}, 1.0),
        (DRAFT_07, {"pair": ["a", 1], "tree": {"sub": [{"sub": []}]}}),
        (WITH_ANY, {"value": {"a": [1, None, {"b": [True, "x"]}]}}),
        (WITH_ANY, {"value": None}),
    ],
)
def test_what_the_standard_allows_is_allowed(schema: Any, value: Any) -> None:
    assert problems(value, schema) == []


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (READ, {"filePath": "a", "offset": None, "mode": None}, {"filePath": "a"}),
        (READ, {"filePath": None}, {"filePath": None}),
        (READ, {"filePath": "a", "other": None}, {"filePath": "a", "other": None}),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"items": READ}}}, {"a": [{"offset": None}]}, {"a": [{}]}),
        (
            {"properties": {"a": {"$ref": "#/$defs/r"}}, "$defs": {"r": READ}},
            {"a": {"mode": None}},
            {"a": {}},
        ),
        (WITH_ANY, {"value": None}, {"value": None}),
        ({"$ref": "#"}, {"a": None}, {"a": None}),
        (READ, [1], [1]),
    ],
)
def test_null_for_an_optional_property_counts_as_absent(schema: Any, value: Any, expected: Any) -> None:
    assert without_nulls(value, schema) == expected


def test_a_null_that_counts_as_absent_is_no_mistake() -> None:
    assert validate({"filePath": "a", "offset": None}, READ) is None
    assert validate({"filePath": None}, READ) is not None


def test_nothing_is_coerced() -> None:
    value = {"filePath": "a", "offset": 1.0}
    assert without_nulls(value, READ) == value
    assert validate({"filePath": 5}, READ) is not None


def test_at_most_eight_mistakes_are_named() -> None:
    found = problems(list(range(100)), {"items": {"type": "string"}})
    assert len(found) == MAX_ERRORS
    assert "more mistakes" in found[-1]


def test_a_long_enum_is_shortened_with_the_nearest_first() -> None:
    (problem,) = problems("name_77x", {"enum": [f"name_{number}" for number in range(100)]})
    assert problem.startswith('input: expected one of "name_77"')
    assert "… (100 in all)" in problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
        (doubling("anyOf"), 1),
        (doubling("oneOf"), 1),
        (doubling("allOf"), "a"),
        ({"items": {"enum": [f"n{number}" for number in range(10_000)]}}, ["n9999"] * 2_000),
        ({"items": {"not": {"properties": MANY, "additionalProperties": False}}}, [{"x": 1}] * 2_000),
        ({"anyOf": [{"items": {"$ref": "#"}, "type": "array"}] * 3}, nested(60)),
    ],
)
def test_a_schema_that_never_ends_is_refused_in_time(schema: Any, value: Any) -> None:
    begun = time.process_time()
    (problem,) = problems(value, schema)
    assert "nested too deeply" in problem
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"$dynamicRef": "#x", "$dynamicAnchor": "x"},
        {"allOf": [{"$recursiveRef": "#"}], "$schema": "https://json-schema.org/draft/2019-09/schema"},
        {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}, "allOf": [{"uniqueItems": True}]},
        {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#", "uniqueItems": True}]},
        {"$id": "http://[", "$anchor": 5, "$schema": "http://127.0.0.1:9/none", "items": {"$id": "::"}},
    ],
)
def test_what_could_take_for_ever_or_names_other_places_is_not_looked_at(schema: Any) -> None:
    assert problems([{"a": number % 3} for number in range(5_000)], schema) == []


def test_a_reference_to_another_place_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        there = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for schema in (
            {"$ref": there},
            {"$id": there, "$ref": "more.json"},
            {"$schema": there, "$ref": there},
        ):
            assert "refers to" in problems(1, schema)[0]
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_value_nested_beyond_the_limit_is_refused() -> None:
    value = nested(900)
    assert problems({"value": value}, WITH_ANY) == ["input: nested too deeply to be checked"]
    assert without_nulls(value, {"$ref": "#/$defs/any", "$defs": {"any": ANY}}) == value


def test_checking_a_call_takes_less_than_a_tenth_of_a_millisecond() -> None:
    args = {"filePath": "src/a.py", "offset": 3, "mode": None}
    assert min(timeit.repeat(lambda: validate(args, READ), number=20, repeat=20)) / 20 < 100e-6


_TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from(["", "a", "ab"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)
_SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(_TYPES)
            | st.lists(st.sampled_from(_TYPES), min_size=1, max_size=2, unique=True),
            "enum": st.lists(_VALUES, min_size=1, max_size=3),
            "const": _VALUES,
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "pattern": st.sampled_from(["a", "^b", "a$"]),
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(_TYPES),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "propertyNames": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=5,
)


_PLAIN = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(_TYPES)},
        optional={
            "enum": st.lists(_VALUES, min_size=1, max_size=3),
            "minimum": st.integers(-2, 2),
            "maximum": st.integers(-2, 2),
            "exclusiveMinimum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "description": st.just("what"),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array"])},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
        },
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(_SCHEMAS | _PLAIN, _VALUES)
def test_the_verdict_is_that_of_the_reference_library(schema: Any, value: Any) -> None:
    assert (problems(value, schema) == []) == jsonschema.Draft202012Validator(schema).is_valid(value)
