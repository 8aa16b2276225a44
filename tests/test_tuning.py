"""What was set in a session, and what holds of it: pure."""

import pytest

from instar.tuning import Tuning, tighter
from instar.usage import Ceiling, Limits


def test_where_nothing_is_set_everything_is_as_it_was() -> None:
    tuning, limits = Tuning(), Limits(session=Ceiling(5, 1.0))
    assert tuning.limits(limits) is limits
    assert tuning.model_for("a/b") == "a/b"
    assert not tuning.is_off("bash")


def test_limits_are_those_of_the_settings_with_what_was_set() -> None:
    tuning = Tuning()
    tuning.set_iterations(80)
    tuning.set_ceiling(Ceiling(tokens=7))
    found = tuning.limits(Limits(session=Ceiling(5, 1.0), day=Ceiling(9)))
    assert found == Limits(steps=80, session=Ceiling(5, 1.0), day=Ceiling(9), own=Ceiling(tokens=7))


@pytest.mark.parametrize(
    ("one", "other", "held"),
    [
        (Ceiling(), Ceiling(), Ceiling()),
        (Ceiling(5), Ceiling(), Ceiling(5)),
        (Ceiling(), Ceiling(cost=0.5), Ceiling(cost=0.5)),
        (Ceiling(5, 0.5), Ceiling(4, 0.6), Ceiling(4, 0.5)),
    ],
)
def test_of_two_ceilings_the_lower_one_holds(one: Ceiling, other: Ceiling, held: Ceiling) -> None:
    assert tighter(one, other) == tighter(other, one) == held


def test_a_model_holds_for_what_asks_as_the_messages_before_did() -> None:
    tuning = Tuning()
    tuning.set_model("local/n", None)
    assert [tuning.model_for(one) for one in ("a/b", "a/b", "a/c", "a/b")] == [
        "local/n",
        "local/n",
        "a/c",
        "a/b",
    ]


def test_what_is_switched_off_stays_off() -> None:
    tuning = Tuning()
    tuning.switch_off(["webfetch"])
    tuning.switch_off(["bash"])
    assert tuning.is_off("webfetch")
    assert tuning.is_off("bash")
