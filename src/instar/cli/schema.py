"""The JSON Schema of a configuration file, for editors, made of `instar.config.Config`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.config import SECTIONS, Config, kind_of
from instar.flagship import section_names, sections
from instar.wire import Plain

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model": "The model that answers, as provider/model.",
        "small_model": "The model for titles; without it a cheap one of the same provider.",
        "default_agent": "The agent that answers when none is named; without it build.",
        "username": "The person's name, as opencode keeps it.",
        "agent": "Agents by name, beside those of Markdown files.",
        "command": "Commands by name, beside those of Markdown files.",
        "provider": "Providers of models by name: address, key, models.",
        "disabled_providers": "Providers that are not used.",
        "enabled_providers": "If given, the only providers that are used.",
        "permission": "What tools may do: allow, ask or deny, for a tool or for patterns of its input.",
        "mcp": "MCP servers by name.",
        "plugin": "Plugins: names, paths from the file that names them, or [name, options].",
        "instructions": "Files with instructions for the model; patterns from the project's folder.",
        "tools": "Tools by name, true or false; permission says the same more finely.",
        "snapshot": "false: no snapshots of the folder's files are taken, so that none can be put back.",
        "compaction": "How a conversation that fills the window is summarised: auto, prune, reserved, tail_turns, …",
        "limits": "Ceilings: steps and minutes of a turn; calls in a row; tokens or cost of a session, day, cause …",
        "shield": "How children that run for the model are held back: level, env.",
        "context_window_tokens": "The window, in tokens, of a model that does not say its own.",
        "max_iterations": "Model calls of one turn at most.",
        "provider_retry_mode": "How long a provider that fails is tried again.",
        "reload": "false: what changes in files is taken up at the next start, not in a running instance.",
        **{name: section.help for name, section in sections().items()},
    }
)
"""What each top-level key means; a test holds it to the fields of `Config` and the blocks of flagships."""

_NOT_IN_FILES: Final = ("data", "foreign", "asked")
_ACTION: Final = {"enum": ["allow", "ask", "deny"]}
_PERMISSION: Final = {
    "anyOf": [
        _ACTION,
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [_ACTION, {"type": "object", "additionalProperties": _ACTION}],
            },
        },
        {"type": "null"},
    ]
}


def schema() -> Plain:
    """Return the schema; keys that instar does not use are allowed, as they are in files."""
    kinds: list[type[msgspec.Struct]] = [Config, *map(kind_of, SECTIONS)]
    (_, *blocks), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for kind in kinds[1:]:
        # A typing error in what guards is a mistake.
        parts[kind.__name__]["additionalProperties"] = False
    top: dict[str, Any] = parts.pop("Config")
    for name in _NOT_IN_FILES:
        del top["properties"][name]
    top["properties"] |= {
        name: block for name, block in zip(SECTIONS, blocks, strict=True) if name in section_names()
    }
    for name, text in KEYS.items():
        top["properties"][name] = {"description": text, **top["properties"][name]}
    top["properties"]["permission"] |= _PERMISSION
    top["properties"]["$schema"] = {"type": "string"}
    agent = parts["AgentConfig"]["properties"]
    agent["permission"] |= _PERMISSION
    agent["maxSteps"] = agent["steps"]
    return {**top, "$schema": DIALECT, "title": "instar", "description": _TEXT, "$defs": parts}


_TEXT: Final = (
    "Settings of instar: instar.json, instar.jsonc, and opencode's opencode.json and opencode.jsonc."
)


def kinds() -> dict[str, tuple[str, str]]:
    """Return of each top-level key what it holds and what it is without a setting, as the docs write them."""
    found = {}
    for name, field in schema()["properties"].items():
        if name in KEYS:
            default = field.get("default")
            shown = (
                ""
                if default is None or isinstance(default, list | dict)
                else msgspec.json.encode(default).decode()
            )
            found[name] = (_ACTIONS if name == "permission" else _kind(field), shown)
    return found


_ACTIONS: Final = "`allow`, `ask`, `deny`, or a map of them"


def fields(block: str) -> dict[str, tuple[str, str]]:
    """Return of each field of a block (``AgentConfig``) what it holds and what it means, as the docs write them."""
    properties = schema()["$defs"][block]["properties"]
    return {
        name: (_ACTIONS if name == "permission" else _kind(field), field["description"])
        for name, field in properties.items()
        if name != "maxSteps"
    }


def _kind(field: Plain) -> str:
    if "$ref" in field:
        return "map"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_kind(arm) for arm in field["anyOf"] if arm.get("type") != "null")
    if field["type"] == "array":
        return f"list: {_kind(field['items'])}" if field.get("items") else "[name, options]"
    if field["type"] == "object":
        inner = field.get("additionalProperties")
        return f"map: {_kind(inner)}" if isinstance(inner, dict) and inner and "$ref" not in inner else "map"
    words = {"boolean": "true or false"}
    return words.get(field["type"], str(field["type"]))
