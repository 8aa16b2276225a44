"""What a trusted project's files may say on limits: lower than the person's own settings, never higher."""

from typing import Any

import pytest

from instar.settings.guarding import lowered
from instar.settings.layer import Layer

MINE = {"limits": {"steps": 10, "day": {"cost": 5.0}, "session": {"tokens": 1000}}}


def heard(mine: dict[str, Any], project: dict[str, Any], **more: Any) -> tuple[Any, list[str]]:
    layers = [
        Layer("mine", "global", mine),
        Layer("theirs", "project", project, **more),
    ]
    (_, kept), dropped = lowered(layers)
    return kept.data, [text.removeprefix("theirs: ").partition(" was left out")[0] for text in dropped]


@pytest.mark.parametrize(
    ("said", "kept", "dropped"),
    [
        ({"steps": 5}, {"steps": 5}, []),
        ({"steps": 10}, {"steps": 10}, []),
        ({"steps": 11}, {}, ["limits.steps"]),
        ({"day": {"cost": 6, "tokens": 9}}, {"day": {"tokens": 9}}, ["limits.day.cost"]),
        ({"day": {"cost": None}}, {"day": {}}, ["limits.day.cost"]),
        ({"day": None, "calls": 9}, {"calls": 9}, ["limits.day"]),
        ({"cause": {"title": {"tokens": 9}}}, {"cause": {"title": {"tokens": 9}}}, []),
        (None, None, ["limits"]),
    ],
)
def test_a_value_is_heard_where_it_is_lower_or_where_nothing_holds(
    said: Any, kept: Any, dropped: list[str]
) -> None:
    expected = {} if kept is None else {"limits": kept}
    assert heard(MINE, {"model": "m", "limits": said}) == ({"model": "m", **expected}, dropped)


def test_the_other_name_of_the_steps_holds_too() -> None:
    assert heard({"max_iterations": 9}, {"limits": {"steps": 10}}) == ({"limits": {}}, ["limits.steps"])
    assert heard({"max_iterations": 9}, {"max_iterations": 10}) == ({}, ["max_iterations"])
    assert heard({}, {"max_iterations": 99, "limits": {"steps": 50}})[1] == []


@pytest.mark.parametrize("more", [{"own": True}, {"trusted": False}])
def test_where_everything_is_trusted_or_nothing_is_others_decide(more: dict[str, Any]) -> None:
    data = {"limits": {"steps": 99}}
    assert heard(MINE, data, **more) == (data, [])
