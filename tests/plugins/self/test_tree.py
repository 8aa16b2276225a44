"""The tree: views of several rooms as one, and what is left out of it whoever declares it."""

import pytest
from tests.plugins.self.room import House

from instar.plugin import Branch, Method, Value, View
from instar.plugins.self import bounds
from instar.plugins.self.messages import Refusal
from instar.plugins.self.tree import SelfTree


def value() -> Value:
    return Value(doc="A value.", read=lambda session: 1)


def paths(*views: View) -> list[str]:
    return [found.path for found in SelfTree(views).walk()]


def test_views_of_several_rooms_share_a_branch() -> None:
    one = View("one", "One.", {"a": value(), "in": Branch("In.", {"x": value()})}, path="web")
    two = View("two", "Two.", {"b": value(), "in": Branch("In.", {"y": value()})}, path="web")
    assert paths(one, two) == ["web", "web.a", "web.in", "web.in.x", "web.in.y", "web.b"]


@pytest.mark.parametrize("name", ["bus", "provider", "_running", "_runtime_vars", "Bus", "func_globals"])
def test_a_blocked_name_is_left_out_whoever_declares_it(name: str) -> None:
    assert paths(View("one", "", {"a": value()}, path=name), View("two", "", {name: value()}, path="")) == []


def test_a_plugin_adds_a_branch_and_does_not_replace_a_room_s() -> None:
    room = View("room", "", {"model": value()}, path="")
    mine = View("mine", "", {"model": Method(doc="Mine.", run=lambda session, args: 2)}, path="")
    assert isinstance(SelfTree([room, mine]).top["model"], Value)
    assert paths(room, View("mine", "", {"a": value()}))[-1] == "mine.a"


async def test_a_view_that_comes_later_is_there_at_once() -> None:
    house = House()
    assert (await house.says(action="inspect", key="late.a")).startswith("Error")
    house.views.append(View("late", "", {"a": value()}))
    assert await house.says(action="inspect", key="late.a") == "late.a: 1"


async def test_a_reader_may_be_async_and_takes_its_time_at_most() -> None:
    async def slow(session: str) -> str:
        return session

    house = House()
    house.views.append(View("late", "", {"a": Value(doc="", read=slow)}))
    assert await house.says(action="inspect", key="late.a") == "late.a: 's'"


@pytest.mark.parametrize(
    ("value", "wanted", "why"),
    [
        (1, {"type": "number"}, None),
        (1.5, {"type": "number"}, None),
        (True, {"type": "number"}, "'v' must be float, got bool"),
        (None, {"type": ["string", "null"]}, None),
        (1, {"type": ["string", "null"]}, "'v' must be str or NoneType, got int"),
        (True, {"enum": [1, "a"]}, "'v' must be one of [1, 'a']"),
        ("abc", {"maxLength": 2}, "'v' must be at most 2 characters"),
        ([1, "a"], {"items": {"type": "integer"}}, "'v[1]' must be int, got str"),
        ({"a": "x"}, {"properties": {"a": {"type": "integer"}}}, "'v.a' must be int, got str"),
        ({}, {"required": ["a"]}, "'v' needs 'a'"),
        (
            {"b": 1},
            {"properties": {"a": {}}, "additionalProperties": False},
            "'v' has no 'b'; it takes 'a'",
        ),
    ],
)
def test_a_kind_is_checked_and_nothing_is_coerced(
    value: object, wanted: dict[str, object], why: str | None
) -> None:
    if why is None:
        bounds.check("v", value, wanted)
    else:
        with pytest.raises(Refusal) as refused:
            bounds.check("v", value, wanted)
        assert str(refused.value) == why
