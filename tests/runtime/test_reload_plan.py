"""What a reload says it took up: settings, skills and plugins of two states, compared."""

from pathlib import Path
from typing import Any

import pytest

from instar.definitions.skill import Skill
from instar.plugin.door import LoadedPlugin
from instar.runtime import reload
from instar.settings.config import Config
from instar.settings.load import Settings


def settings(data: dict[str, Any]) -> Settings:
    return Settings(Config.from_data(data), [], {}, [], [], [], [])


SERVER = {"type": "local", "command": ["a"]}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ({}, {}, []),
        ({"model": "a/b"}, {"model": "a/b"}, []),
        ({}, {"agent": {"a": {}}}, ["agents"]),
        ({"agent": {"a": {"mode": "all"}}}, {"agent": {"a": {"mode": "primary"}}}, ["agents"]),
        ({"default_agent": "plan"}, {}, ["agents"]),
        ({}, {"command": {"a": {"template": "b"}}}, ["commands"]),
        ({}, {"permission": "ask"}, ["permission"]),
        ({"tools": {"bash": True}}, {"tools": {"bash": False}}, ["permission"]),
        ({}, {"instructions": ["a.md"]}, ["instructions"]),
        ({}, {"limits": {"steps": 3}}, ["limits"]),
        ({}, {"max_iterations": 3}, ["limits"]),
        ({"model": "a/b"}, {"model": "a/c", "small_model": "a/d"}, ["models"]),
        ({}, {"provider": {"own": {}}, "disabled_providers": ["x"]}, ["models"]),
        ({}, {"plugin": ["a"], "hooks": {}}, []),
        ({}, {"username": "ada", "whatever": 1}, ["settings"]),
        ({}, {"username": "ada", "agent": {"a": {}}, "mcp": {"a": SERVER}}, ["agents", "settings"]),
    ],
)
def test_what_changed_in_the_settings(old: dict[str, Any], new: dict[str, Any], what: list[str]) -> None:
    assert reload.changed_settings(settings(old), settings(new)) == what


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ({}, {}, []),
        ({}, {"b": SERVER, "a": SERVER}, ["a", "b"]),
        ({"a": SERVER}, {"a": {**SERVER, "enabled": False}}, ["a"]),
        ({"a": SERVER, "b": SERVER}, {"b": SERVER}, ["a"]),
    ],
)
def test_which_servers_are_others(old: dict[str, Any], new: dict[str, Any], names: list[str]) -> None:
    assert reload.changed_servers(settings({"mcp": old}), settings({"mcp": new})) == names


A, B, TOOLS = LoadedPlugin("a", {}), LoadedPlugin("b", {}), LoadedPlugin("tools", {})


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ([], [], []),
        ([A, B], [A, B], []),
        ([A, B], [B, A], []),
        ([A], [A, B], ["plugin:b"]),
        ([A, B], [A], ["plugin:b"]),
        ([A, B], [LoadedPlugin("a", {}), B], ["plugin:a"]),
        ([A, TOOLS], [LoadedPlugin("tools", {}), LoadedPlugin("a", {})], ["tools", "plugin:a"]),
        ([A], [], ["plugin:a"]),
    ],
)
def test_which_plugins_are_others(old: list[LoadedPlugin], new: list[LoadedPlugin], what: list[str]) -> None:
    assert reload.changed_plugins(old, new) == what


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ([], []),
        (["/p/AGENTS.md"], ["instructions"]),
        (["/p/x", "/p/CLAUDE.md"], ["instructions"]),
        (["/p/x.md"], []),
    ],
)
def test_a_file_of_instructions_that_changed_is_told(changed: list[str], what: list[str]) -> None:
    assert reload.changed_instructions(changed) == what


def test_a_skill_that_says_something_else_is_told_and_the_same_one_is_not() -> None:
    def skills(text: str) -> dict[str, Skill]:
        return {"sing": Skill("sing", "Sings", Path("/p/SKILL.md"), text)}

    assert reload.changed_skills(skills("a"), skills("a")) == []
    assert reload.changed_skills(skills("a"), skills("b")) == ["skills"]
    assert reload.changed_skills(skills("a"), {}) == ["skills"]
