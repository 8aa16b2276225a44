"""What the blocks that guard may hold."""

import re
from typing import Any

import msgspec
import pytest

from instar.plugins.evolve.config import EvolveConfig, read
from instar.settings.config import SECTIONS, Config, ConfigError, ShieldConfig, check_section, kind_of


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"shield": 3}, "shield: expected a map, found an integer"),
        ({"shield": None}, "shield: expected a map, found null"),
        (
            {"shield": {"level": "off"}},
            "shield.level: expected one of auto, bubblewrap, landlock, none, found 'off'",
        ),
        ({"shield": {"levl": "none"}}, "shield.levl: there is no such setting; did you mean level?"),
        ({"shield": {"paths": []}}, "shield.paths: there is no such setting; known are env, level"),
        ({"shield": {"env": ["A", 1]}}, "shield.env.1: expected a string, found an integer"),
        ({"evolve": []}, "evolve: expected a map, found a list"),
        ({"evolve": None}, "evolve: expected a map, found null"),
        ({"evolve": {"frozzen": True}}, "evolve.frozzen: there is no such setting; did you mean frozen?"),
        ({"evolve": {"unsafe": 1}}, "evolve.unsafe: expected true or false, found an integer"),
        ({"evolve": {"unsafe": None}}, "evolve.unsafe: expected true or false, found null"),
        ({"evolve": {"sandbox": "no"}}, "evolve.sandbox: expected one of auto, require, found 'no'"),
        ({"evolve": {"replay_seconds": 0}}, "evolve.replay_seconds: expected an integer >= 1, found 0"),
        ({"evolve": {"probation_calls": -1}}, "evolve.probation_calls: expected an integer >= 0, found -1"),
        ({"evolve": {"pins": "hooks/a.py"}}, "evolve.pins: expected a list, found a string"),
        ({"evolve": {"pins": ["\ud800"]}}, "evolve: expected text that UTF-8 can hold"),
        ({"evolv": {}}, "evolv: there is no such setting; did you mean evolve?"),
        ({"sheild": {}}, "sheild: there is no such setting; did you mean shield?"),
    ],
)
def test_a_mistake_in_what_guards_is_named_with_its_place(data: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^instar.json: {re.escape(said)}"):
        Config.from_data(data, "instar.json")


def test_only_a_block_that_guards_is_checked_as_one() -> None:
    with pytest.raises(ConfigError, match="expected one of shield, storage, mcp_server, evolve"):
        check_section("model", {}, "instar.json")


def test_the_shield_is_as_strong_as_the_machine_allows_where_nothing_is_said() -> None:
    shield = Config.from_data({}).shield
    assert (shield, shield.at_most) == (ShieldConfig("auto", []), "bubblewrap")
    assert Config.from_data({"shield": {"level": "landlock"}}).shield.at_most == "landlock"


def test_evolve_guards_where_nothing_is_said_and_reads_what_is() -> None:
    assert read({}) == EvolveConfig()
    assert read({"evolve": {"frozen": True, "pins": ["a"]}}) == EvolveConfig(frozen=True, pins=["a"])
    assert (EvolveConfig().unsafe, EvolveConfig().create) == (False, "deny")


@pytest.mark.parametrize("name", SECTIONS)
def test_each_field_of_a_block_has_a_default_and_a_description(name: str) -> None:
    kind = kind_of(name)
    assert msgspec.convert({}, kind) == kind()
    (schema,) = [part for key, part in msgspec.json.schema(kind)["$defs"].items() if key == kind.__name__]
    assert all(field["description"] for field in schema["properties"].values())
