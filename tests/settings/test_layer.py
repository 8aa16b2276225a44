"""How layers of settings merge, and references to variables and files."""

import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.settings.layer import Layer, has_reference, merge, plugin_name, substitute

SCOPES = ("default", "global", "project", "environment", "flag")


def layer(scope: Any, data: dict[str, Any], origin: str = "") -> Layer:
    return Layer(origin or scope, scope, data)


def merged(*blocks: dict[str, Any]) -> dict[str, Any]:
    return merge([layer("project", block, str(n)) for n, block in enumerate(blocks)]).data


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(SCOPES)))
def test_a_higher_scope_wins_in_whatever_order_the_layers_come(lower: str, higher: str) -> None:
    low, high = layer(lower, {"model": "low"}), layer(higher, {"model": "high"})
    assert merge([low, high]).data == merge([high, low]).data == {"model": "high"}


def test_within_a_scope_the_later_layer_wins() -> None:
    assert merged({"model": "a"}, {"model": "b"}) == {"model": "b"}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"a": {"x": 1, "y": {"z": 1}}}, {"a": {"y": {"w": 2}}}, {"a": {"x": 1, "y": {"z": 1, "w": 2}}}),
        ({"list": [1, 2]}, {"list": [3]}, {"list": [3]}),
        ({"a": {"x": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
        (
            {"instructions": ["A.md", "B.md"]},
            {"instructions": ["C.md", "A.md"]},
            {"instructions": ["A.md", "B.md", "C.md"]},
        ),
        (
            {"agent": {"x": {"instructions": [1]}}},
            {"agent": {"x": {"instructions": [2]}}},
            {"agent": {"x": {"instructions": [2]}}},
        ),
        ({"plugin": ["a", "b"]}, {"plugin": ["c"]}, {"plugin": ["a", "b", "c"]}),
        ({"plugin": ["a", "b"]}, {"plugin": ["a"]}, {"plugin": ["b", "a"]}),
        (
            {"plugin": ["a@1.0", "@s/b@1"]},
            {"plugin": [["a@2.0", {"x": 1}], "@s/b"]},
            {"plugin": [["a@2.0", {"x": 1}], "@s/b"]},
        ),
        ({"plugin": ["/x/a@1.py"]}, {"plugin": ["/x/a@2.py"]}, {"plugin": ["/x/a@1.py", "/x/a@2.py"]}),
    ],
)
def test_maps_merge_lists_replace_plugins_and_instructions_concatenate(
    one: dict[str, Any], other: dict[str, Any], both: dict[str, Any]
) -> None:
    assert merged(one, other) == both


def test_a_permission_keeps_its_place_when_it_is_overridden() -> None:
    rules = merged(
        {"permission": {"*": "ask", "bash": "allow"}}, {"permission": {"*": "deny", "edit": "ask"}}
    )
    assert list(rules["permission"].items()) == [("*", "deny"), ("bash", "allow"), ("edit", "ask")]


def test_each_value_is_known_by_the_layer_it_came_from() -> None:
    found = merge(
        [
            layer(
                "global",
                {"model": "a", "agent": {"x": {"prompt": "p", "steps": 1}}, "plugin": ["one"]},
                "home.json",
            ),
            layer("project", {"agent": {"x": {"steps": 2}}, "plugin": ["two"]}, "project.json"),
            layer("flag", {"model": "b"}, "--model"),
        ]
    )
    assert found.origins == {
        "model": "--model",
        "agent.x.prompt": "home.json",
        "agent.x.steps": "project.json",
        "plugin.0": "home.json",
        "plugin.1": "project.json",
    }


def test_a_map_that_takes_a_values_place_takes_its_origin_away() -> None:
    found = merge(
        [layer("global", {"permission": "allow"}), layer("project", {"permission": {"bash": "ask"}})]
    )
    assert found.origins == {"permission.bash": "project"}
    back = merge(
        [layer("global", {"permission": {"bash": "ask"}}), layer("project", {"permission": "allow"})]
    )
    assert back.origins == {"permission": "project"}


DATA = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers() | st.lists(st.integers(), max_size=2),
        lambda x: st.dictionaries(st.sampled_from("abc"), x),
    ),
)


@pytest.mark.slow
@given(st.lists(DATA, max_size=4))
def test_merging_changes_no_layer_and_shares_nothing_with_it(blocks: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(blocks)
    result = merged(*blocks)

    def spoil(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                spoil(item)
            value["spoilt"] = 1
        elif isinstance(value, list):
            value.append("spoilt")

    spoil(result)
    assert blocks == before


@pytest.mark.slow
@given(DATA, DATA, DATA)
def test_merging_in_two_steps_is_merging_in_one(one: Any, two: Any, three: Any) -> None:
    assert merged(merged(one, two), three) == merged(one, two, three)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("a", "a"),
        ("a@1.2", "a"),
        ("@s/a@1", "@s/a"),
        (["a@1", {}], "a"),
        ("./a@1.py", "./a@1.py"),
        ("file:///a@1.py", "file:///a@1.py"),
    ],
)
def test_a_plugin_is_known_by_its_name_without_the_version(entry: Any, name: str) -> None:
    assert plugin_name(entry) == name


def test_references_are_replaced_in_every_string() -> None:
    files = {"./key": "  secret\n", "p": "prompt"}
    data = {
        "a": "{env:NAME}",
        "b": ["x{env:NAME}y{file:./key}", 3],
        "c": {"d": "{file:p}", "{env:NAME}": None},
    }
    assert substitute(data, {"NAME": "ada"}, files.__getitem__) == {
        "a": "ada",
        "b": ["xadaysecret", 3],
        "c": {"d": "prompt", "{env:NAME}": None},
    }


def test_a_variable_that_is_not_set_is_empty() -> None:
    assert substitute("<{env:NONE}>", {}, str) == "<>"


def test_what_was_put_in_is_not_looked_at_again() -> None:
    assert (
        substitute("{env:A}", {"A": "{env:B}{file:/etc/passwd}", "B": "x"}, str)
        == "{env:B}{file:/etc/passwd}"
    )


@pytest.mark.parametrize("text", ["{env}", "{ENV:X}", "{other:x}", "{", "{{}}", "${HOME}"])
def test_other_braces_stay(text: str) -> None:
    assert substitute(text, {"X": "x"}, str) == text
    assert not has_reference(text)


@pytest.mark.parametrize("value", ["a{env:X}", ["b", "{file:x}"], {"k": [{"z": "{env:X}"}]}])
def test_a_reference_is_found_wherever_it_stands(value: Any) -> None:
    assert has_reference(value)
