from typing import Any

import pytest

from instar.tool import wording


@pytest.mark.parametrize(
    ("place", "expected"), [((), "input"), (("a",), "a"), (("a", 2, "b"), "a[2].b"), ((0,), "[0]")]
)
def test_a_place_reads_like_code(place: tuple[str | int, ...], expected: str) -> None:
    assert wording.path(place) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "boolean true"),
        (1, "integer 1"),
        (1.5, "number 1.5"),
        ("é", 'string "é"'),
        ("x" * 200, 'string "' + "x" * 79 + "…"),
        ({"a": [None]}, 'object {"a":[null]}'),
    ],
)
def test_a_value_is_shown_with_its_type(value: Any, expected: str) -> None:
    assert wording.shown(value) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "array", "items": {"type": "number"}}, "array of number"),
        ({"enum": ["a", 1]}, 'one of "a", 1'),
        ({"const": None}, "null"),
        ({}, "a value"),
        (True, "a value"),
    ],
)
def test_a_schema_is_said_in_a_few_words(schema: Any, expected: str) -> None:
    assert wording.expected(schema) == expected


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("filePath", ["file_path", "offset"], "file_path"),
        ("oldString", ["old_str", "new_str"], "old_str"),
        ("offset", ["completely"], None),
        ("offset", [], None),
    ],
)
def test_the_nearest_name_is_found_whatever_its_case(
    name: str, names: list[str], expected: str | None
) -> None:
    assert wording.near(name, names) == expected
