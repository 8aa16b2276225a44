"""Which settings there are, and that each one is read by somebody or listed as one that changes nothing."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import instar
from instar.settings.builtin_plugins import FLAGSHIPS, sections
from instar.settings.config import (
    OWN_KEYS,
    AgentConfig,
    CommandConfig,
    CompactionConfig,
    Config,
    FormatterConfig,
    LspConfig,
    McpConfig,
    McpOAuthConfig,
    ModelConfig,
    ProviderConfig,
)
from instar.settings.known import OPENCODE_KEYS, WITHOUT_EFFECT, misspelt, unknown, without_effect

SOURCE = Path(instar.__file__).parent
DOCUMENT = Path(__file__).parents[1] / "data" / "opencode-document.json"
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
    "mcp.*.oauth.": (McpOAuthConfig, ("mcp",), ("settings",)),
    "formatter.*.": (FormatterConfig, ("plugins/files/formatter.py",), ()),
    "lsp.*.": (LspConfig, ("plugins/files/lsp.py",), ()),
    "provider.*.": (ProviderConfig, ("provider",), ("block",)),
    "provider.*.models.*.": (ModelConfig, ("provider", "variants.py"), ("asked", "own", "model", "found")),
}
NOT_IN_FILES = {"data", "foreign", "asked"}


def fields() -> Iterator[str]:
    for prefix, (block, _, _) in BLOCKS.items():
        yield from (prefix + one.encode_name for one in structs.fields(block) if one.name not in NOT_IN_FILES)


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
    block, rooms, receivers = BLOCKS[prefix]
    name = next(one.name for one in structs.fields(block) if one.encode_name == name)
    for path in SOURCE.rglob("*.py"):
        inner = path.relative_to(SOURCE)
        if (
            inner.parts[:2] == ("settings", "config")
            or (inner.parts[0] == "cli" and inner.name in ("config.py", "check.py"))
            or not any(str(inner).startswith(room) for room in rooms)
        ):
            continue
        taken, constants = reads(path)
        if any((receiver, name) in taken for receiver in receivers):
            return True
        # An agent's fields are copied by their names; plugins are given settings as plain maps.
        if (
            prefix in ("agent.*.", "formatter.*.", "lsp.*.") or inner.parts[0] == "plugins"
        ) and name in constants:
            return True
    return False


def called(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.mark.slow
@pytest.mark.parametrize("place", list(fields()))
def test_each_setting_has_an_effect_or_is_listed_as_one_without(place: str) -> None:
    assert is_read(place) is (place not in WITHOUT_EFFECT), "add it to WITHOUT_EFFECT, or take it from there"


def of_opencode() -> Iterator[str]:
    """Every place of opencode's settings, as its document has them."""
    schemas = json.loads(DOCUMENT.read_text("utf-8"))["components"]["schemas"]

    def inside(schema: Any, at: str) -> Iterator[str]:
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for arm in schema.get("anyOf", ()):
            yield from inside(arm, at)
        for key, value in schema.get("properties", {}).items():
            yield at + key
            yield from inside(value, f"{at}{key}.")
        if isinstance(more := schema.get("additionalProperties"), dict):
            yield from inside(more, f"{at}*.")

    return (place for place in dict.fromkeys(inside(schemas["Config"], "")) if not place.startswith(NAMED))


NAMED = (
    *(f"agent.{name}" for name in ("plan", "build", "general", "explore", "title", "summary", "compaction")),
    *("mode.", "permission.", "agent.*.permission."),
)
"""Blocks whose keys are names: of agents, and of tools."""
ROOMS: dict[str, str] = {
    # Where a place that no struct has is read, by how it begins.
    "": "runtime project",
    "agent.": "settings/config.py",
    "provider.": "provider limits settings/config.py",
    "mcp.": "mcp",
}


def test_each_setting_of_opencodes_is_read_or_listed_as_one_without_effect() -> None:
    switches = {shipped.switch for shipped in FLAGSHIPS.values()}
    known = {"$schema", *fields(), *switches}
    deep = [place for place in of_opencode() if place not in known and not is_listed(place)]
    begins = {place: max((one for one in ROOMS if place.startswith(one)), key=len) for place in deep}
    unread = [one for one in deep if not is_named(one.rpartition(".")[2], ROOMS[begins[one]].split())]
    assert unread == [], "nobody reads them: add them to WITHOUT_EFFECT"


@pytest.mark.parametrize("key", [one for one in WITHOUT_EFFECT if "." not in one])
def test_a_key_that_is_listed_as_one_without_effect_is_read_nowhere(key: str) -> None:
    reading = re.compile(rf"""(config|data|settings|merged)(\.get\("{key}"|\["{key}"\]|\.{key}\b(?!\())""")
    found = [
        f"{path.relative_to(SOURCE)}: {one[0]}"
        for path in SOURCE.rglob("*.py")
        for one in reading.finditer(path.read_text("utf-8"))
        if path.relative_to(SOURCE).parts[0] not in ("api", "cli", "client")
    ]
    assert found == []


def is_listed(place: str) -> bool:
    return any(f"{place}.".startswith(f"{one}.") for one in WITHOUT_EFFECT)


def is_named(key: str, rooms: list[str]) -> bool:
    """Whether a file of these rooms has the key as a text, an attribute or a field."""
    for room in rooms:
        for path in [SOURCE / room, *(SOURCE / room).rglob("*.py")]:
            if path.is_file():
                taken, constants = reads(path)
                if key in constants or any(name == key for _, name in taken):
                    return True
    return False


def test_every_setting_that_is_listed_as_one_without_effect_exists() -> None:
    assert set(WITHOUT_EFFECT) - {*fields(), *of_opencode()} == {"keybinds", "theme", "tui"}


def test_a_setting_without_effect_is_told_unless_it_says_what_is_done_anyway() -> None:
    data = {"share": "disabled", "autoshare": True, "provider": {"x": {"id": "y"}, "z": 1}, "mode": {"a": {}}}
    assert [path for path, _ in without_effect(data)] == [("autoshare",), ("mode",), ("provider", "x", "id")]


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
    used = {field.name for field in structs.fields(Config)} - NOT_IN_FILES
    assert used - OPENCODE_KEYS == set(OWN_KEYS) - {"hooks", *sections()}
