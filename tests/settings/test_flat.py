"""Flat permission keys become maps of patterns, and the order written still decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.settings.config import ConfigError
from instar.settings.permission import evaluate, from_config
from instar.settings.rules import spread_block, spread_flat


def spread(**block: object) -> object:
    return spread_block(block, ("permission",), "f.json")


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ({"bash": "ask", 'bash "git *"': "allow"}, {"bash": {"*": "ask", "git *": "allow"}}),
        ({"bash 'git *'": "allow"}, {"bash": {"git *": "allow"}}),
        ({'bash "git *"': "allow", "bash": "deny"}, {"bash": {"git *": "allow", "*": "deny"}}),
        ({'bash "*"': "ask", "bash": {"ls": "allow", "*": "deny"}}, {"bash": {"ls": "allow", "*": "deny"}}),
        ({"edit": "deny", 'bash "x"': "ask"}, {"edit": "deny", "bash": {"x": "ask"}}),
        ({"bash": {"git *": "ask"}, "edit": "deny"}, {"bash": {"git *": "ask"}, "edit": "deny"}),
        ({'web_* "a b"': "ask"}, {"web_*": {"a b": "ask"}}),
    ],
)
def test_flat_keys_are_written_out(block: dict[str, object], found: object) -> None:
    assert spread(**block) == found


def test_agents_blocks_are_written_out_too_and_the_rest_stays() -> None:
    data = {"model": "a/b", "agent": {"x": {"permission": {'bash "l"': "ask"}, "mode": "all"}, "y": {}}}
    assert spread_flat(data, "f") == {
        "model": "a/b",
        "agent": {"x": {"permission": {"bash": {"l": "ask"}}, "mode": "all"}, "y": {}},
    }


def test_an_order_that_a_map_cannot_keep_is_an_error_at_its_key() -> None:
    with pytest.raises(ConfigError, match="expected this next to the other rules of bash") as caught:
        spread(**{"bash": "allow", "*": "ask", 'bash "rm *"': "deny"})
    assert caught.value.path == ("permission", 'bash "rm *"')


ACTIONS = st.sampled_from(["allow", "ask", "deny"])
NAMES = st.sampled_from(["bash", "edit", 'bash "a"', 'bash "b"', 'edit "a"'])


@given(st.dictionaries(NAMES, ACTIONS), st.sampled_from(["bash", "edit"]), st.sampled_from(["a", "b", "c"]))
def test_the_last_rule_that_matches_decides_as_it_was_written(
    block: dict[str, str], permission: str, pattern: str
) -> None:
    expected = "ask"
    for key, action in block.items():
        name, _, quoted = key.partition(" ")
        if name == permission and quoted.strip('"') in ("", pattern):
            expected = action
    assert evaluate(permission, pattern, from_config(spread(**block))).action == expected
