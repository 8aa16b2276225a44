"""Parameter types as JSON Schema."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve import parameters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def check(spec: Any, value: Any) -> bool:
    schema = parameters.schema("t", {"x": spec})
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid({"x": value})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["a", ""], [1, None, []]),
        ("number", [1, 2.5], ["1", True]),
        ("boolean", [True], [1, "true"]),
        ("object", [{}, {"a": None, "b": [1]}], [[], "x"]),
        ("array", [[], [1, "a", {}]], [{}, "x"]),
        ("any", [1, "a", None, [], {"a": {}}], []),
        ("array[string]", [["a"]], [[1], "a"]),
        ("array[array[number]]", [[[1]]], [[1], [["a"]]]),
        ("object[string, number]", [{"a": 1}], [{"a": "b"}]),
        ("object[number, boolean]", [{"1": True, "-2.5": False}, {}], [{"a": True}, {"1": 1}]),
        ("object[any, string]", [{"x": "y"}], [{"x": 1}]),
        ("object[string, array[any]]", [{"a": [1, None]}], [{"a": 1}]),
        ("object[string,object[string, boolean]]", [{"a": {"b": True}}], [{"a": {"b": 1}}]),
    ],
)
def test_a_type_takes_its_values_and_no_others(kind, good, bad):
    spec = {"type": kind, "description": "d"}
    assert [value for value in good if not check(spec, value)] == []
    assert [value for value in bad if check(spec, value)] == []


@pytest.mark.slow
@given(JSON)
def test_any_takes_every_json_value(value):
    assert check({"type": "any"}, value)


def test_a_string_is_a_required_string_parameter_with_that_description():
    assert parameters.schema("t", {"arg": "description"}) == {
        "type": "object",
        "properties": {"arg": {"type": "string", "description": "description"}},
        "required": ["arg"],
        "additionalProperties": False,
    }


def test_an_optional_parameter_is_not_required_and_an_unknown_one_is_refused():
    schema = parameters.schema("t", {"a": {"type": "number", "optional": True}})
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({})
    assert not validator.is_valid({"b": 1})


def test_every_property_has_a_description_also_when_the_script_gives_none():
    schema = parameters.schema("hello_t", {"a": {"type": "any"}, "b": ""})
    assert [schema["properties"][name]["description"] for name in "ab"] == ["a of hello_t", "b of hello_t"]


def test_a_value_outside_an_enum_is_refused():
    spec = {"type": "string", "enum": ["low", "high"]}
    assert check(spec, "low")
    assert not check(spec, "middle")
    assert check({"type": "array[string]", "enum": ["a", "b"]}, ["a", "b"])
    assert not check({"type": "array[string]", "enum": ["a", "b"]}, ["c"])


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"x": {"type": "strnig"}}, "parameter 'x': unknown type 'strnig'; known: string, number"),
        ({"x": {"type": "array[strnig]"}}, "unknown type 'strnig'"),
        ({"x": {"type": "object[array, string]"}}, "an object's keys are string, number or any"),
        ({"x": {"type": "array["}}, "unknown type 'array['"),
        ({"x": {"type": 3}}, "expected the name of a type"),
        ({"x": 3}, "expected a description or a map"),
        ({"x": {"enum": []}}, "enum: expected a list"),
        (["x"], "expected a map of names"),
        ({"x": {"type": "array[" * 50 + "any" + "]" * 50}}, "unknown type"),
    ],
)
def test_a_parameter_that_cannot_be_offered_says_which_and_what_is_expected(given_, says):
    with pytest.raises(parameters.BadParameter) as error:
        parameters.schema("t", given_)
    assert says in str(error.value)


def test_the_union_is_defined_only_where_it_is_referred_to():
    assert "$defs" not in parameters.schema("t", {"x": "d"})
    assert "json" in parameters.schema("t", {"x": {"type": "array[object]"}})["$defs"]
