"""Pins: which files the agent may no longer touch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history.pins import BadPin, Pins, normal


@pytest.fixture
def pins(tmp_path):
    return Pins(Database(tmp_path / "data"))


def test_a_pin_is_kept_with_who_and_when_until_it_is_taken_away(pins, tmp_path):
    assert pins.all() == []
    pin = pins.add("hooks/a.py", "ada")
    assert (pin.file, pin.by) == ("hooks/a.py", "ada")
    assert pin.time > 1_600_000_000_000
    assert pins.add("./hooks//a.py", "bob") == pin
    again = Pins(Database(tmp_path / "data"))
    assert again.all() == [pin]
    assert again.find("hooks/a.py") is not None
    assert again.find("hooks/a.pyc") is None
    assert again.find("hooks") is None
    assert again.remove("hooks/A.py") == pin
    assert again.remove("hooks/a.py") is None
    assert pins.find("hooks/a.py") is None


@pytest.mark.parametrize(
    ("pinned", "asked"),
    [
        ("hooks/a.py", "hooks/./a.py"),
        ("hooks/a.py", "Hooks/A.PY"),
        ("hooks/é.py", "hooks/e\u0301.py"),
        ("prompts", "prompts/deep/in/it.md"),
        ("prompts/", "prompts"),
        ("straße", "STRASSE/a"),
    ],
)
def test_another_spelling_does_not_get_round_a_pin(pins, pinned, asked):
    pins.add(pinned)
    assert pins.find(asked) is not None
    assert pins.find(f"x{asked}") is None


def test_pins_of_the_settings_hold_and_are_not_written(pins, tmp_path):
    both = Pins(Database(tmp_path / "data"), also=["config"])
    both.add("hooks/a.py")
    assert [(pin.file, pin.by) for pin in both.all()] == [("hooks/a.py", "person"), ("config", "settings")]
    assert both.find("config/evolve.jsonc") is not None
    assert pins.find("config/evolve.jsonc") is None


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "../x", "hooks/../../x", "a\0b", "a\nb", "a\ud800"])
def test_a_name_that_no_file_of_the_workspace_has_is_refused(pins, name):
    for act in (pins.add, pins.remove, pins.find):
        with pytest.raises(BadPin, match="no path in the workspace"):
            act(name)


def test_pins_that_cannot_be_read_pin_everything_and_say_where_they_stand(tmp_path):
    (tmp_path / "data").write_text("in the way")
    pins = Pins(Database(tmp_path / "data"))
    with pytest.raises(BadPin, match=r"every file counts as pinned: .*data"):
        pins.find("hooks/b.py")
    for act in (pins.add, pins.remove):
        with pytest.raises(OSError, match="data"):
            act("hooks/b.py")


@given(st.text(max_size=40))
def test_a_normal_name_is_relative_and_stays_as_it_is(name):
    try:
        found = normal(name)
    except BadPin:
        return
    assert normal(found) == found
    assert not found.startswith("/")
    assert not {"", ".", ".."} & set(found.split("/"))
