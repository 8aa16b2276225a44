from typing import Any

import pytest

from instar.tool.keywords import is_type, same


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, "integer", True),
        (1.0, "integer", True),
        (1.5, "integer", False),
        (True, "integer", False),
        (False, "number", False),
        (1.5, "number", True),
        ("1", "number", False),
        (None, "null", True),
        ([], ["object", "array"], True),
        ({}, "array", False),
        ("", "strange", False),
    ],
)
def test_a_value_is_of_its_json_type(value: Any, kind: Any, expected: bool) -> None:
    assert is_type(value, kind) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ([1, [True]], [1, [1]], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_equal_means_equal_as_json(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected
