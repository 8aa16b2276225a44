"""The watchdog: what is out of range is reset, however it got there, with one warning."""

from typing import Any

import pytest
from tests.plugins.self.room import House

from instar.plugins.self.server import watch


@pytest.mark.parametrize(
    ("name", "value", "default", "new", "warning"),
    [
        ("max_iterations", 0, 40, 40, "'max_iterations' must be >= 1; it was reset to its default 40"),
        ("max_iterations", 101, 40, 40, "'max_iterations' must be <= 100; it was reset to its default 40"),
        (
            "max_iterations",
            "80",
            40,
            40,
            "'max_iterations' must be int, got str; it was reset to its default 40",
        ),
        (
            "max_iterations",
            2.5,
            40,
            40,
            "'max_iterations' must be int, got float; it was reset to its default 40",
        ),
        (
            "max_iterations",
            True,
            40,
            40,
            "'max_iterations' must be int, got bool; it was reset to its default 40",
        ),
        (
            "max_iterations",
            None,
            40,
            40,
            "'max_iterations' must be int, got NoneType; it was reset to its default 40",
        ),
        (
            *("max_iterations", 200, 200, 100),
            "'max_iterations' must be <= 100, and its default is out of range too; it was reset to 100",
        ),
        (
            *("max_iterations", 0, "x", 40),
            "'max_iterations' must be >= 1, and its default is out of range too; it was reset to 40",
        ),
        (
            *("context_window_tokens", 1, 1, 4096),
            "'context_window_tokens' must be >= 4096, and its default is out of range too; it was reset to 4096",
        ),
        (
            "model",
            " ",
            "a/b",
            "a/b",
            "'model' must be at least 1 characters; it was reset to its default a/b",
        ),
        ("model", 5, "a/b", "a/b", "'model' must be str, got int; it was reset to its default a/b"),
        (
            "model",
            "",
            "",
            None,
            "'model' must be at least 1 characters; there is no value that it could be reset to",
        ),
    ],
)
async def test_a_parameter_out_of_range_is_repaired(
    name: str, value: Any, default: Any, new: Any, warning: str
) -> None:
    house = House()
    house.room.put("s", name, value)
    house.room.defaults[name] = default
    assert await watch(house.access, "s") == [warning]
    assert house.room.value("s", name) == (value if new is None else new)
    assert [(one.path, one.old, one.new) for one in house.told] == (
        [] if new is None else [(name, value, new)]
    )


async def test_what_is_in_range_is_left_alone() -> None:
    house = House()
    house.room.set["s"] = {"max_iterations": 1, "context_window_tokens": 1_000_000, "model": "x"}
    assert await watch(house.access, "s") == []
    assert house.room.set["s"] == {"max_iterations": 1, "context_window_tokens": 1_000_000, "model": "x"}
    assert house.told == []


async def test_each_session_is_repaired_and_warned_once() -> None:
    house = House()
    house.room.put("s", "max_iterations", "80")
    house.room.put("s", "model", object())
    first = await watch(house.access, "s")
    assert len(first) == 2
    assert house.room.set["s"] == {"max_iterations": 40, "model": "anthropic/claude-sonnet-4-20250514"}
    assert [(one.path, one.new) for one in house.told] == [
        ("max_iterations", 40),
        ("model", "anthropic/claude-sonnet-4-20250514"),
    ]
    assert house.told[0].call_id == ""
    assert await watch(house.access, "s") == []
    house.room.put("s", "max_iterations", "80")
    assert await watch(house.access, "s") == []
    assert house.room.value("s", "max_iterations") == 40


async def test_a_default_out_of_range_is_said_once_and_can_be_reset_to() -> None:
    house = House()
    house.room.defaults["max_iterations"] = 200
    assert len(await watch(house.access, "s")) == 1
    assert house.room.value("s", "max_iterations") == 100
    assert await watch(house.access, "s") == []
    await house.says(action="modify", key="max_iterations", value=10)
    assert await house.says(action="reset", key="max_iterations") == "Reset max_iterations = 100 (was 10)"


async def test_the_watchdog_never_raises() -> None:
    house = House()
    house.room.defaults["max_iterations"] = object()
    house.room.refused = "max_iterations"
    (warning,) = await watch(house.access, "s")
    assert "which failed" in warning
    house.access.tree = None  # type: ignore[assignment,method-assign]
    assert await watch(house.access, "s") == []
