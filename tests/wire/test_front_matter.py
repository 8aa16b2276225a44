"""Front matter: YAML without its traps, and errors with their place."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.wire.document import DocumentError
from instar.wire.front_matter import front_matter


def data(head: str) -> object:
    return front_matter(f"---\n{head}\n---\nbody", "f.md").data


def test_a_text_without_front_matter_is_all_body() -> None:
    found = front_matter("# Title\n---\nx: 1\n", "f.md")
    assert (found.data, found.body, found.first) == ({}, "# Title\n---\nx: 1\n", 1)


def test_fields_the_body_and_the_line_where_it_begins_are_told() -> None:
    found = front_matter("\ufeff---\r\nname: a\r\nn: 2\r\n---\r\nHello\r\n---\r\n", "f.md")
    assert (found.data, found.body, found.first) == ({"name": "a", "n": 2}, "Hello\n---\n", 5)
    assert found.line(("n",)) == 3


def test_an_empty_front_matter_has_no_fields() -> None:
    assert front_matter("---\n---\nx", "f.md").data == {}
    assert data("# only a comment") == {}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("no", "no"), ("yes", "yes"), ("On", "On"), ("off", "off"), ("n", "n")),
        *(("true", True), ("False", False), ("null", None), ("~", None)),
        *(("2024-01-01", "2024-01-01"), ("12:30:45", "12:30:45"), ("0o17", "0o17"), ("1_000", "1_000")),
        *(("7", 7), ("-0.5", -0.5), ("1e3", 1000.0), ("1e999", "1e999"), ("'7'", "7"), ('"true"', "true")),
    ],
)
def test_a_word_means_what_it_means_to_people(word: str, value: object) -> None:
    assert data(f"a: {word}") == {"a": value}


def test_what_was_written_is_kept_beside_what_it_was_taken_for() -> None:
    assert front_matter("---\na: 007\n---\n", "f.md").written[("a",)] == "007"


def test_a_key_with_quotes_inside_is_a_key() -> None:
    assert data('bash "git *": ask\nbash: deny') == {'bash "git *"': "ask", "bash": "deny"}


def test_a_value_with_a_colon_needs_no_quotes() -> None:
    assert data("description: Use it: when it's asked\nn: 1") == {
        "description": "Use it: when it's asked",
        "n": 1,
    }


def test_maps_lists_and_folded_texts_are_read() -> None:
    assert data("m:\n  a: [x, 1]\n  b: {c: d}\nt: >\n  one\n  two") == {
        "m": {"a": ["x", 1], "b": {"c": "d"}},
        "t": "one two\n",
    }


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("*: deny", r"f\.md:2:2: expected YAML: .* \(write \* in quotes"),
        ("p:\n  *: deny", r"f\.md:3:4: expected YAML: .* \(write \* in quotes"),
        ("a: @b", r"f\.md:2:4: .* \(write @ in quotes"),
        ("a:\n\t- b", r"f\.md:3:1: .* \(indent with spaces"),
        ("a: &x 1\nb: *x", r"f\.md:3:4: expected a value, found \*x \(write it in quotes"),
        ("a: 1\na: 2", r"f\.md:3:1: 'a' stands twice \(first on line 2\)"),
        ("- a", r"f\.md:2:1: expected fields"),
        ("just words", r"f\.md:2:1: expected fields"),
        ("a: [1", r"f\.md:3:1: expected YAML"),
        ("[a, b]: 1", r"f\.md:2:1: expected a name in quotes"),
        ("a: " + "[" * 20, r"f\.md:2:\d+: expected at most 16 levels"),
        # PyYAML from 6.0.4 on has a bound of its own, and reads ahead.
        ("a: " + "[" * 50_000, r"f\.md:2:\d+: expected (at most 16 levels|YAML: exceeded maximum nesting)"),
        ("a: " + "x" * 70_000, r"f\.md:1:1: expected a front matter of at most 65536 characters"),
        ("a: \x01", r"f\.md:2:1: expected YAML: unacceptable character"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_to_do(head: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        data(head)


def test_a_front_matter_that_does_not_end_is_an_error() -> None:
    with pytest.raises(DocumentError, match=r"f\.md:1:1: expected a --- line that ends the front matter"):
        front_matter("---\na: 1\n", "f.md")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    found: dict[str, object] | str
    try:
        found = front_matter(f"---\n{text}\n---\n", "f.md").data
    except DocumentError as error:
        found = str(error)
    assert isinstance(found, dict) or found.startswith("f.md:")


@pytest.mark.slow
def test_yaml_is_not_imported_before_a_definition_is_read() -> None:
    import subprocess

    code = (
        "import sys, instar.definitions.markdown, instar.definitions.skill; sys.exit('yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
