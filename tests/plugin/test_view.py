"""What a room or a plugin may declare of itself, and what is refused at the door."""

from typing import Any

import pytest

from instar.plugin import Branch, Method, Registry, Value, View


def value(**fields: Any) -> Value:
    return Value(doc="A value.", read=lambda session: 1, **fields)


def method(**fields: Any) -> Method:
    return Method(doc="A method.", run=lambda session, args: 1, **fields)


def test_a_view_hangs_its_nodes_under_its_path() -> None:
    view = View("room", "A room.", {"a": value(), "b": Branch("More.", {"c": method()})}, path="x.y")
    assert [at for at, _ in view.leaves()] == [("x", "y", "a"), ("x", "y", "b", "c")]
    assert [at for at, _ in View("room", "", {"a": value()}).leaves()] == [("room", "a")]
    assert [at for at, _ in View("room", "", {"a": value()}, path="").leaves()] == [("a",)]


def test_a_bare_function_is_the_reader_of_a_value() -> None:
    node = View("room", "A room.", {"a": lambda: 7}).children["a"]
    assert isinstance(node, Value)
    assert (node.read("ses_1"), node.write, node.scope) == (7, None, "instance")


@pytest.mark.parametrize(
    "name", ["", "__class__", "__x", "a.b", "a b", "1a", "é", "а", "x" * 65, "a-b", None, 5], ids=repr
)
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is no name of the tree"):
        View("room", "A room.", {name: value()})
    with pytest.raises(ValueError, match="is no name of the tree"):
        Branch("More.", {name: value()})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": {"pattern": "x"}}, "'pattern' is not checked"),
        ({"kind": {"type": "int"}}, "'int' is no type of JSON"),
        ({"kind": {"items": {"format": "x"}}}, "'format' is not checked"),
        ({"kind": {"properties": {"a": {"oneOf": []}}}}, "'oneOf' is not checked"),
        ({"kind": ["string"]}, "a kind is a JSON Schema, not list"),
        ({"guard": "tighten"}, "come together"),
        ({"tighter": lambda old, new: True}, "come together"),
    ],
)
def test_a_value_says_only_what_is_checked(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value(**fields)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"parameters": {"type": "string"}}, "an object"),
        ({"parameters": {"properties": {"a": {"pattern": "x"}}}}, "not checked"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": 601}, "up to 600"),
        ({"writes": True}, "acts"),
    ],
)
def test_a_method_says_only_what_is_checked(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        method(**fields)


@pytest.mark.parametrize(
    ("other", "at"),
    [
        (View("one", "", {"b": value()}, path="x"), None),
        (View("room", "", {"b": value()}, path="x"), "registered twice"),
        (View("one", "", {"a": value()}, path="x"), "both hold 'x.a'"),
        (View("one", "", {"x": value()}, path=""), "both hold 'x'"),
        (View("one", "", {"b": value()}, path="x.a"), "both hold 'x.a.b'"),
    ],
)
def test_two_views_stand_side_by_side_but_not_in_each_other_s_place(other: View, at: str | None) -> None:
    registry = Registry()
    registry.add_view(View("room", "", {"a": value()}, path="x"))
    if at is None:
        registry.add_view(other)
        assert list(registry.views) == ["room", "one"]
    else:
        with pytest.raises(ValueError, match=at):
            registry.add_view(other)
