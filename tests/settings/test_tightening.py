"""Comparing lists of rules by strictness."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.settings.permission import matches
from instar.settings.untrusted import Placed, deny, only_tightens, patterns_meet


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        ({}, {}, True),
        ({}, {("a", "*"): "deny"}, True),
        ({}, {("a", "*"): "ask"}, True),
        ({}, {("a", "*"): "allow"}, False),
        ({("a", "*"): "ask"}, {("a", "*"): "deny"}, True),
        ({("a", "*"): "ask"}, {("a", "*"): "allow"}, False),
        ({("a", "*"): "ask"}, {}, False),
        ({("a", "x"): "allow", ("a", "y"): "deny"}, {("a", "y"): "deny", ("a", "x"): "allow"}, False),
        ({("a", "x"): "deny"}, {("a", "*"): "ask", ("a", "x"): "deny"}, True),
        ({("a", "x"): "deny"}, {("a", "x"): "deny", ("a", "*"): "ask"}, False),
        ({("a", "x"): "deny"}, {("a", "x"): "deny", ("a", "y"): "ask"}, True),
        ({("a", "x"): "deny"}, {("a", "x"): "deny", ("b", "*"): "ask"}, True),
        ({("write", "*"): "deny"}, {("write", "*"): "deny", ("edit", "*"): "ask"}, False),
        ({("evolve_w", "*"): "deny"}, {("evolve_w", "*"): "deny", ("me_w", "*"): "ask"}, False),
    ],
)
def test_rules_are_compared_by_what_could_become_milder(before: Placed, after: Placed, answer: bool) -> None:
    assert only_tightens(before, after, []) is answer


def test_a_denial_elsewhere_counts_as_standing_earlier() -> None:
    assert not only_tightens({}, {("bash", "*"): "ask"}, [deny(("bash", "rm *"))])
    assert only_tightens({}, {("bash", "*"): "ask"}, [deny(("edit", "*"))])


PATTERNS = st.text(alphabet="ab*? /", max_size=6)


@given(PATTERNS, PATTERNS, st.text(alphabet="ab /", max_size=6))
def test_patterns_that_both_fit_a_text_meet(one: str, other: str, text: str) -> None:
    if matches(text, one) and matches(text, other):
        assert patterns_meet(one, other)


@given(st.text(alphabet="ab?", max_size=5), st.text(alphabet="ab?", max_size=5))
def test_patterns_without_stars_meet_only_where_a_text_fits_both(one: str, other: str) -> None:
    same = len(one) == len(other) and all(a == b or "?" in (a, b) for a, b in zip(one, other, strict=True))
    assert patterns_meet(one, other) is same


def test_patterns_too_long_to_compare_are_taken_to_meet() -> None:
    assert patterns_meet("a" * 200, "b" * 200)
