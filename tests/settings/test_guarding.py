"""Nothing that the files of a project say that is not trusted loosens a guard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.config import EvolveConfig
from instar.settings.config import Config
from instar.settings.guarding import guarded, tightened
from instar.settings.layer import Layer, merge

Block = dict[str, Any]


def layer(data: Block, *, trusted: bool = False) -> Layer:
    return Layer("/p/instar.json", "project", data, trusted)


def home(data: Block) -> Layer:
    return Layer("home", "global", data)


def holds(*layers: Layer) -> tuple[Block, list[str]]:
    found, sentences = guarded(layers)
    return merge(found).data, sentences


UNSAFE = {"evolve": {"unsafe": True}}


def test_what_the_person_says_or_accepted_holds() -> None:
    assert holds(home(UNSAFE)) == (UNSAFE, [])
    assert holds(layer(UNSAFE, trusted=True)) == (UNSAFE, [])


def test_what_guards_more_is_heard_of_a_stranger_without_a_word() -> None:
    said = {"evolve": {"sandbox": "require", "pins": ["x"]}, "shield": {"env": []}}
    mine = home({"evolve": {"pins": ["mine"]}, "shield": {"env": ["A"]}})
    wanted = {"evolve": {"sandbox": "require", "pins": ["mine", "x"]}, "shield": {"env": []}}
    assert holds(mine, layer(said)) == (wanted, [])


def test_a_stranger_is_told_of_each_thing_that_was_left_out() -> None:
    data, sentences = holds(layer({"evolve": {"unsafe": True, "frozen": True}}))
    assert data == {"evolve": {"frozen": True}}
    assert sentences == [
        "/p/instar.json: evolve.unsafe was left out: an untrusted project may only guard more than holds without it"
    ]


def test_one_file_that_is_left_out_excuses_no_other() -> None:
    assert holds(layer(UNSAFE), layer(UNSAFE))[0] == {}
    assert holds(home({"evolve": {"frozen": True}}), layer({"evolve": {"frozen": False}}))[0] == {
        "evolve": {"frozen": True}
    }


@pytest.mark.parametrize(
    ("held", "said", "kept"),
    [
        ({}, {"sandbox": "require"}, True),
        ({"sandbox": "require"}, {"sandbox": "auto"}, False),
        ({"unsafe": True}, {"unsafe": False}, True),
        ({}, {"env": ["A"]}, False),
        ({"env": ["A", "B"]}, {"env": ["B"]}, True),
        ({"env": ["A"]}, {"env": ["B"]}, False),
        ({}, {"replay": "strict"}, True),
        ({}, {"replay_seconds": 600}, False),
        ({}, {"replay_records": 0}, False),
        ({}, {"probation_failures": 2}, True),
        ({}, {"probation_failures": 4}, False),
        ({}, {"probation_calls": 51}, True),
        ({}, {"probation_calls": 49}, False),
        ({"create": "allow"}, {"create": "deny"}, True),
        ({}, {"create": "allow"}, False),
        ({}, {"frozen": True}, True),
        ({"frozen": True}, {"frozen": False}, False),
    ],
)
def test_which_way_each_setting_of_evolve_guards_more(held: Block, said: Block, kept: bool) -> None:
    assert tightened("evolve", held, said) == (said if kept else {})


@pytest.mark.parametrize(
    ("held", "said", "kept"),
    [
        ("auto", "none", False),
        ("none", "landlock", True),
        ("landlock", "bubblewrap", True),
        ("landlock", "none", False),
    ],
)
def test_which_way_the_level_of_the_shield_guards_more(held: str, said: str, kept: bool) -> None:
    assert tightened("shield", {"level": held}, {"level": said}) == ({"level": said} if kept else {})


# -- the law -----------------------------------------------------------------------------------------

NAMES = st.lists(st.sampled_from("abc"), unique=True, max_size=3)
EVOLVE = st.fixed_dictionaries(
    {},
    optional={
        "sandbox": st.sampled_from(["auto", "require"]),
        "unsafe": st.booleans(),
        "env": NAMES,
        "replay": st.sampled_from(["report", "strict"]),
        "replay_seconds": st.integers(1, 600),
        "replay_records": st.integers(0, 100),
        "probation_failures": st.integers(0, 9),
        "probation_calls": st.integers(0, 99),
        "create": st.sampled_from(["deny", "allow"]),
        "frozen": st.booleans(),
        "pins": NAMES,
    },
)
DATA = st.fixed_dictionaries({}, optional={"evolve": EVOLVE})
OWN = DATA.map(home) | DATA.map(lambda data: Layer("$X", "environment", data))
PROJECTS = st.builds(layer, DATA, trusted=st.booleans())
LAYERS = st.lists(OWN | PROJECTS, max_size=5)


def view(layers: list[Layer]) -> EvolveConfig:
    return EvolveConfig(**merge(layers).data.get("evolve", {}))


@given(LAYERS)
def test_no_stranger_loosens_what_holds_without_it(layers: list[Layer]) -> None:
    before = view([one for one in layers if one.trusted])
    found, _ = guarded(layers)
    after = view(found)
    assert after.sandbox == "require" or before.sandbox == "auto"
    assert after.unsafe <= before.unsafe
    assert set(after.env) <= set(before.env)
    assert after.replay == "strict" or before.replay == "report"
    assert (after.replay_seconds, after.replay_records) == (before.replay_seconds, before.replay_records)
    assert after.probation_failures <= before.probation_failures
    assert after.probation_calls >= before.probation_calls
    assert after.create == "deny" or before.create == "allow"
    assert after.frozen >= before.frozen
    assert set(after.pins) >= set(before.pins)
    Config.from_data(merge(found).data)


@pytest.mark.slow
@given(LAYERS)
def test_what_was_judged_once_comes_back_the_same(layers: list[Layer]) -> None:
    found, _ = guarded(layers)
    assert guarded(found) == (found, [])
