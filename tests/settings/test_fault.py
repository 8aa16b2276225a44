"""Mistakes in settings of our own blocks, in words."""

from typing import Any

import pytest

from instar.settings.config import ConfigError, check_keys, describe, dotted


def test_a_misspelt_key_of_our_own_block_names_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"c\.json: limits\.tokenss: there is no such setting; did you mean tokens\?"
    ):
        check_keys({"cost": 1, "tokenss": 2}, ("tokens", "cost"), ("limits",), "c.json")


def test_a_key_unlike_any_names_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="known are cost, tokens"):
        check_keys({"zzz": 2}, ("tokens", "cost"), ("limits",))


def test_known_keys_pass() -> None:
    check_keys({"cost": 1}, ("tokens", "cost"), ("limits",))


def test_a_key_of_a_block_of_opencodes_is_a_mistake_only_where_it_looks_like_a_known_one() -> None:
    check_keys({"model": 1}, ("auto", "prune"), ("compaction",), others=True)
    with pytest.raises(ConfigError, match="did you mean auto"):
        check_keys({"atuo": 1}, ("auto", "prune"), ("compaction",), others=True)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "a string"),
        (1, "an integer"),
        (1.0, "a number"),
        (True, "true or false"),
        (None, "null"),
        ([], "a list"),
        ({}, "a map"),
    ],
)
def test_a_value_is_described_by_its_type(value: Any, words: str) -> None:
    assert describe(value) == words


def test_a_place_is_written_with_dots() -> None:
    assert dotted(("agent", "a", "tools", 0)) == "agent.a.tools.0"
