"""What is different between two states of an instance, in words: pure, and the same for the event and the log."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from instar.instruction import NAMES
from instar.plugin.door import Loaded
from instar.settings import Settings
from instar.skill import Skills

_WORDS: Final = {
    "agent": "agents",
    "command": "commands",
    "default_agent": "agents",
    "disabled_providers": "models",
    "enabled_providers": "models",
    "hooks": "",
    "instructions": "instructions",
    "limits": "limits",
    "max_iterations": "limits",
    "mcp": "",
    "mode": "agents",
    "model": "models",
    "permission": "permission",
    "plugin": "",
    "provider": "models",
    "small_model": "models",
    "tools": "permission",
}
"""What people call a key of the settings; empty: what comes of it is told by its own name. Others are ``settings``."""


def of_settings(old: Settings, new: Settings) -> list[str]:
    """Return what changed in the settings, but for what has a name of its own."""
    before, after = old.config.data, new.config.data
    keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    found = dict.fromkeys(_WORDS.get(key, "settings") for key in keys)
    found.pop("", None)
    return list(found)


def of_servers(old: Settings, new: Settings) -> list[str]:
    """Return the names of MCP servers that are another, new or gone, sorted."""
    before, after = old.config.mcp, new.config.mcp
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def of_skills(old: Skills, new: Skills) -> list[str]:
    """Return ``skills``, if one of them says something else."""
    return ["skills"] if old.by_name != new.by_name else []


def of_instructions(changed: Iterable[str]) -> list[str]:
    """Return ``instructions``, if one of the paths `changed` is a file of them."""
    return ["instructions"] if any(Path(path).name in NAMES for path in changed) else []


def of_plugins(old: Sequence[Loaded], new: Sequence[Loaded]) -> list[str]:
    """Return ``plugin:NAME`` for each one that was loaded anew, is new or gone, and ``tools``; in the new order."""
    before, after = {id(one) for one in old}, {id(one) for one in new}
    changed = [one for one in (*new, *old) if (id(one) in before) != (id(one) in after)]
    return list(dict.fromkeys("tools" if one.name == "tools" else f"plugin:{one.name}" for one in changed))
