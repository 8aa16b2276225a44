"""Which settings there are, and that each one is read by somebody or listed as one that changes nothing."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.settings.unread import NO_EFFECT, PARTLY

import instar
from instar.settings.builtin_plugins import sections
from instar.settings.config import (
    OWN_KEYS,
    AgentConfig,
    CommandConfig,
    CompactionConfig,
    Config,
    McpConfig,
    ModelConfig,
    ProviderConfig,
)
from instar.settings.known import OPENCODE_KEYS, misspelt, unknown

SOURCE = Path(instar.__file__).parent
BLOCKS: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    # The prefix of a field's place: its struct, the rooms that read it, what it is called there.
    "": (Config, ("",), ("config", "_config")),
    "agent.*.": (AgentConfig, ("definitions/agent.py",), ("block",)),
    "command.*.": (CommandConfig, ("definitions/command.py",), ("block",)),
    "compaction.": (
        CompactionConfig,
        ("",),
        ("compaction", "config", "_config", "block", "settings", "wanted"),
    ),
    "mcp.*.": (McpConfig, ("mcp",), ("config", "_config")),
    "provider.*.": (ProviderConfig, ("provider",), ("block",)),
    "provider.*.models.*.": (ModelConfig, ("provider", "variants.py"), ("asked", "own", "model", "found")),
}
NOT_IN_FILES = {"data", "foreign", "asked"}


def fields() -> Iterator[str]:
    for prefix, (block, _, _) in BLOCKS.items():
        yield from (prefix + name for name in block.__struct_fields__ if name not in NOT_IN_FILES)


@cache
def reads(path: Path) -> tuple[set[tuple[str, str]], set[object]]:
    """What a file takes from what: each attribute with what its value is called; and the file's constants."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    taken = {(called(node.value), node.attr) for node in nodes if isinstance(node, ast.Attribute)}
    return taken, {node.value for node in nodes if isinstance(node, ast.Constant)}


def is_read(place: str) -> bool:
    """Whether the source takes the field from a value that is called as the block is, or names it as a text."""
    prefix = place[: place.rindex(".") + 1] if "." in place else ""
    name = place.removeprefix(prefix)
    _, rooms, receivers = BLOCKS[prefix]
    for path in SOURCE.rglob("*.py"):
        inner = path.relative_to(SOURCE)
        if (
            inner.parts[:2] == ("settings", "config")
            # The command line shows settings; its door for other agents goes by them.
            or (inner.parts[0] == "cli" and inner.name != "mcp_server.py")
            or not any(str(inner).startswith(room) for room in rooms)
        ):
            continue
        taken, constants = reads(path)
        if any((receiver, name) in taken for receiver in receivers):
            return True
        # An agent's fields are copied by their names.
        if prefix == "agent.*." and name in constants:
            return True
    return False


def called(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.mark.slow
@pytest.mark.parametrize("place", list(fields()))
def test_each_setting_has_an_effect_or_is_listed_as_one_without(place: str) -> None:
    assert is_read(place) is (place not in NO_EFFECT), (
        "add it to NO_EFFECT in tests/settings/unread.py, or take it from there"
    )


def test_every_setting_that_is_listed_as_one_without_effect_exists() -> None:
    assert set(NO_EFFECT) <= {*fields(), *OWN_KEYS}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"model": 1, "share": 1, "theme": 1, "$schema": 1, "hooks": 1}, []),
        ({"modle": 1}, [("modle", "model")]),
        ({"agents": 1}, [("agents", "agent")]),
        ({"shrae": 1}, [("shrae", "share")]),
        ({"mine": 1}, [("mine", None)]),
        ({"modle" * 40: 1}, [("modle" * 40, None)]),
        ({f"x{number}x": 1 for number in range(100)}, [(f"x{number}x", None) for number in range(20)]),
    ],
)
def test_a_key_that_nobody_reads_is_told_with_the_nearest_one(
    data: dict[str, Any], found: list[tuple[str, str | None]]
) -> None:
    assert list(unknown(data)) == found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"agent": {"build": {"temperatur": 1, "topK": 1, "top_k": 1, "maxSteps": 1}}}, ["temperature"]),
        ({"command": {"x": {"template": "t", "agnet": "plan"}}}, ["agent"]),
        ({"mcp": {"x": {"enviroment": {}, "oauth": {}}, "y": {"header": {}}}}, ["environment", "headers"]),
        (
            {"provider": {"x": {"modles": {}, "options": {"apikey": "k", "baseUrl": "u"}}}},
            ["models", "apiKey", "baseURL"],
        ),
        ({"provider": {"x": {"models": {"m": {"option": {}, "release_date": ""}}}}}, ["options"]),
        ({"agent": {"x": {f"temperatur{number}": 1 for number in range(100)}}}, ["temperature"] * 20),
        ({"agent": 1, "command": {"x": 1}, "mcp": [], "provider": {"x": {"options": 1}}}, []),
    ],
)
def test_a_key_inside_a_block_that_looks_like_a_known_one_is_told(
    data: dict[str, Any], found: list[str]
) -> None:
    assert [near for _, near in misspelt(data)] == found


def test_opencodes_keys_are_those_of_its_document() -> None:
    assert {"$schema", "model", "tool_output", "watcher", "subagent_depth"} <= OPENCODE_KEYS
    used = {field.name for field in msgspec.structs.fields(Config)} - NOT_IN_FILES
    assert used - OPENCODE_KEYS == set(OWN_KEYS) - {"hooks", *sections()}


@pytest.mark.parametrize(("block", "key"), PARTLY.items())
def test_the_one_key_that_is_read_of_a_block_of_opencodes_is(block: str, key: str) -> None:
    assert block in OPENCODE_KEYS
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py") if "config" not in path.parts]
    assert any(f'.get("{block}")' in text and f'.get("{key}"' in text for text in texts)
