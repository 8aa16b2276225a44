"""Which plugins load, in which order, and what happens where one that guards does not."""

import sys

import pytest

from instar.plugin.locate import LoadError
from instar.runtime import plugin_order
from instar.testing import Machine

pytest_plugins = ["tests.turn"]

RULES = {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}


async def test_a_flagship_that_judges_the_others_is_loaded_after_them(house: Machine) -> None:
    mine = house.folder / "mine.py"
    house.settings(hooks=RULES, plugin=["hooks", str(mine)])
    mine.write_text("async def mine(input, options=None):\n    return {}\n")
    door = await house.open()
    names = door.runtime.instance.plugins.names
    assert names.index("mine") < names.index("hooks")


async def test_where_a_plugin_that_guards_does_not_load_nothing_opens_and_the_error_says_why(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings(hooks=RULES)
    for name in [name for name in sys.modules if name.startswith("instar.plugins.hooks")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "instar.plugins.hooks.server", None)
    with pytest.raises(LoadError, match=r"plugin hooks is skipped: .*, so nothing may run here"):
        await house.open()


EVOLVING = """
from instar.plugin import Tool

async def _edit(args, context):
    return "edited"

async def mine(input, options=None):
    return {"tool": {"evolve_hook_edit": Tool("Edits.", {"type": "object"}, _edit)}}
"""


@pytest.mark.parametrize("listed", [["mine"], ["evolve", "mine"]])
async def test_evolve_stands_aside_for_a_plugin_that_offers_its_tools_wherever_it_is_listed(
    house: Machine, listed: list[str]
) -> None:
    (house.folder / "ws").mkdir()
    mine = house.folder / "my-evolve.py"
    mine.write_text(EVOLVING)
    house.settings(plugin=[str(mine) if name == "mine" else name for name in listed])
    house.environment["INSTAR_WORKSPACE"] = str(house.folder / "ws")
    door = await house.open()
    assert door.runtime.instance.plugins.names == ["my-evolve"]
    said = "plugin evolve stands aside: the plugin my-evolve offers its tool evolve_hook_edit"
    assert said in door.runtime.notices


@pytest.mark.parametrize("listed", [["evolve", "mine"], ["mine", "evolve"]])
async def test_evolve_keeps_its_place_among_the_listed_plugins(house: Machine, listed: list[str]) -> None:
    (house.folder / "ws").mkdir()
    mine = house.folder / "mine.py"
    mine.write_text("async def mine(input, options=None):\n    return {}\n")
    house.settings(plugin=[str(mine) if name == "mine" else name for name in listed])
    house.environment["INSTAR_WORKSPACE"] = str(house.folder / "ws")
    door = await house.open()
    assert door.runtime.instance.plugins.names == listed


async def test_an_entry_of_the_settings_switches_evolve_off_by_name(house: Machine) -> None:
    (house.folder / "ws").mkdir()
    house.environment["INSTAR_WORKSPACE"] = str(house.folder / "ws")
    house.settings(plugin=[["evolve", {"enabled": False}]])
    door = await house.open()
    assert "evolve" not in door.runtime.instance.plugins.names
    assert not [name for name in await door.runtime.tools() if name.startswith("evolve_")]


def test_flags_of_flagships_are_no_settings() -> None:
    given = {"workspace": "ws", "safe": True, "model": "scripted/x"}
    assert plugin_order.settings_of(given) == {"model": "scripted/x"}
