"""Parsing what scripts print, and merging."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve import protocol

LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
OBJECTS = st.dictionaries(
    st.text(min_size=1).filter(lambda key: key != "log"), LEAVES | st.lists(LEAVES), max_size=4
)


def test_lines_are_merged_and_log_lines_are_not():
    output = protocol.parse(b'{"system": ["a"]}\n\n{"log": "hi"}\r\n{"system": ["b"], "user": "u"}')
    assert output.answer == {"system": ["a", "b"], "user": "u"}
    assert output.logs == ["hi"]


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        (b'{"a": 1}\n{"b": ', "line 2 of its output is not JSON"),
        (b"[1, 2]", "should be a JSON object, not a list: [1, 2]"),
        (b"3", "not a number"),
        (b"null", "not null"),
        (b'"x"', "not a string"),
        (b'{"a": 1}\n{"b": "\xff"}', "line 2 of its output is not UTF-8"),
        (b'{"a": NaN}', "is not JSON"),
        (b"Traceback (most recent call last):", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_output_that_is_not_lines_of_objects_is_malformed_and_says_where(printed, says):
    with pytest.raises(protocol.Malformed) as error:
        protocol.parse(printed)
    assert says in str(error.value)
    assert len(str(error.value)) < 600


@given(st.lists(OBJECTS, max_size=4))
def test_whatever_json_a_script_prints_is_parsed_line_by_line(objects):
    printed = "\n".join(json.dumps(value, ensure_ascii=False) for value in objects)
    assert protocol.parse(printed.encode("utf-8", "replace")).answer is not None


def test_a_line_separator_inside_a_string_does_not_split_the_line():
    assert protocol.parse('{"user": "a\u2028b"}'.encode()).answer == {"user": "a\u2028b"}


@pytest.mark.parametrize(
    ("answers", "merged"),
    [
        ([{"system": ["a"]}, {}, {"system": ["b"]}], {"system": ["a", "b"]}),
        ([{"continue": "a"}, {"continue": "b"}], {"continue": "a\nb"}),
        ([{"result": "a"}, {"result": {"x": 1}}], {"result": 'a\n{"x":1}'}),
        ([{"modified": "one.md"}, {"modified": ["two.md"]}], {"modified": ["one.md", "two.md"]}),
        ([{"user": "a"}, {"user": None}], {"user": "a"}),
        ([{"name": "a"}, {"name": "b"}], {"name": "b"}),
        ([], {}),
    ],
)
def test_lists_are_concatenated_and_texts_joined_by_a_newline(answers, merged):
    assert protocol.merge(answers) == merged


@given(st.lists(OBJECTS, max_size=3), st.lists(OBJECTS, max_size=3))
def test_merging_in_two_goes_gives_what_merging_at_once_gives(first, second):
    known = [{key: value for key, value in one.items() if key in protocol.ARRAYS} for one in first + second]
    at_once = protocol.merge(known)
    assert (
        protocol.merge([protocol.merge(known[: len(first)]), protocol.merge(known[len(first) :])]) == at_once
    )


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"error": "unknown hook: idle"}, True),
        ({"error": "Unknown hook idle"}, True),
        ({"error": "unknown hook: discover"}, False),
        ({"error": "idle failed"}, False),
        ({}, False),
    ],
)
def test_only_a_script_that_names_the_hook_as_unknown_does_not_answer_it(said, known):
    assert protocol.unknown_hook(said, "idle") is known
