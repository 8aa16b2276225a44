"""Which keys there are: those that instar reads, those that only opencode reads, and near misses.

opencode's keys that instar does not use are taken without a word when something runs: its files are read as they
stand. `WITHOUT_EFFECT` has each of them, for `instar config check`. A key that neither knows and that looks like one of
them is most likely a typing error.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.settings.config import (
    OWN_KEYS,
    AgentConfig,
    CommandConfig,
    Config,
    FormatterConfig,
    LspConfig,
    McpConfig,
    McpOAuthConfig,
    ModelConfig,
    Path,
    ProviderConfig,
)

OPENCODE_KEYS: Final = frozenset(
    (
        # `Config` of the OpenAPI document of opencode 1.18.33.
        *("$schema", "agent", "attachment", "autoshare", "autoupdate", "command"),
        *("compaction", "default_agent", "disabled_providers", "enabled_providers"),
        *("enterprise", "experimental", "formatter", "instructions", "layout", "logLevel"),
        *("lsp", "mcp", "mode", "model", "permission", "plugin", "provider", "reference"),
        *("references", "server", "share", "shell", "skills", "small_model", "snapshot"),
        *("subagent_depth", "tool_output", "tools", "username", "watcher"),
        # Older files have these; opencode keeps them in a file of its own now.
        *("keybinds", "theme", "tui"),
    )
)
"""The top-level keys that opencode reads."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attachment": "images are sent as they are",
        "autoshare": "instar shares no session",
        "autoupdate": "the package manager that installed instar updates it",
        "enterprise": "instar shares no session",
        "experimental.batch_tool": "a model calls several tools in one answer",
        "experimental.disable_paste_summary": "it is for opencode's own interface",
        "experimental.mcp_timeout": "say `timeout` for each server in `mcp`",
        "experimental.policies": "say it in `permission`",
        "experimental.primary_tools": "say it in the `permission` of agents",
        "keybinds": "it is for opencode's own interface",
        "layout": "it is for opencode's own interface",
        "logLevel": "say it with --log-level",
        "mode": "say it in `agent`",
        "provider.*.id": "a provider is known by its key in `provider`",
        "provider.*.models.*.cost.context_over_200k": "a model has one price",
        "provider.*.models.*.experimental": "a model that is named is called",
        "provider.*.models.*.family": "nothing depends on it",
        "provider.*.models.*.release_date": "nothing depends on it",
        "provider.*.models.*.status": "a model that is named is called",
        "provider.*.options.enterpriseUrl": "say `baseURL`",
        "reference": "name other folders in the prompt; `permission.external_directory` says which are read",
        "references": "name other folders in the prompt; `permission.external_directory` says which are read",
        "server": "say it with the options of instar serve",
        "share": "instar shares no session",
        "shell": "commands run in bash, or in sh where there is none",
        "skills": "skills are found in their folders",
        "subagent_depth": "a sub-agent may start others as its `permission.task` says",
        "theme": "it is for opencode's own interface; in a chat say /theme",
        "tool_output": "an output is cut at 2000 lines or 50 KB",
        "tui": "it is for opencode's own interface",
        "username": "no door of instar shows it",
    }
)
"""Settings that are read, so that a file with them is no mistake, and change nothing; with the reason, or what to do.

All that stands below one of them changes nothing either.
"""
_SAME_ANYWAY: Final = MappingProxyType({"share": "disabled", "autoshare": False, "autoupdate": False})
"""Values with which such a setting says what instar does anyway."""

_READ: Final = sorted({*Config.__struct_fields__} - {"data", "foreign", "asked"} | set(OWN_KEYS))
_BLOCKS: Final[Mapping[Path, tuple[str, ...]]] = MappingProxyType(
    {
        ("agent", "*"): (*AgentConfig.__struct_fields__, "name", "maxSteps", "hooks"),
        ("command", "*"): CommandConfig.__struct_fields__,
        ("mcp", "*"): McpConfig.__struct_fields__,
        ("formatter", "*"): FormatterConfig.__struct_fields__,
        ("lsp", "*"): LspConfig.__struct_fields__,
        ("mcp", "*", "oauth"): McpOAuthConfig.__struct_encode_fields__,
        ("provider", "*"): ProviderConfig.__struct_fields__,
        ("provider", "*", "options"): ("apiKey", "baseURL", "headers", "timeout"),
        ("provider", "*", "models", "*"): ModelConfig.__struct_fields__,
    }
)
"""Blocks that take other keys too, as model options or as opencode's: only what looks like a known one is told."""
_NEAR: Final = 0.75
_NEARLY: Final = 0.84
"""How alike a key of an agent is to the one that was meant, as in its file: the option ``top_k`` is not ``top_p``."""
_LONGEST: Final = 40
"""Characters of a key up to which it is compared: a stranger's file must not slow us down."""
_MOST: Final = 20
"""Unknown keys of one document that are told."""


class Unknown(msgspec.Struct, frozen=True):
    """A key that nobody reads: `where` it was written, and the known key that was most likely meant."""

    where: str
    key: str
    near: str | None

    def __str__(self) -> str:
        meant = f"there is no such setting; did you mean {self.near}?" if self.near else "nothing reads this"
        return f"{self.where}: {self.key}: {meant}"


def unknown(data: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the top-level keys that neither instar nor opencode reads, each with the nearest known one."""
    strange = [key for key in data if key not in _READ and key not in OPENCODE_KEYS]
    for key in strange[:_MOST]:
        yield key, _near(key, _READ) or _near(key, sorted(OPENCODE_KEYS))


def misspelt(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the places of keys inside the blocks of `data` that look like a known one, each with that one."""
    found = (
        ((*path, key), near)
        for pattern, names in _BLOCKS.items()
        for path, block in _blocks(data, pattern)
        for key in block
        if key not in names
        and (near := _case(key, names) or _near(key, list(names), _NEARLY if path[0] == "agent" else _NEAR))
    )
    yield from islice(found, _MOST)


def without_effect(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the places in `data` of settings that change nothing, each with the reason."""
    for place, why in WITHOUT_EFFECT.items():
        *pattern, key = place.split(".")
        for at, block in _blocks(data, tuple(pattern)):
            if key in block and block[key] != _SAME_ANYWAY.get(place, ...):
                yield (*at, key), why


def shortened(path: Path) -> str:
    """Return a place in dots, each of its keys cut to a length that can be read."""
    return ".".join(str(key)[:_LONGEST] for key in path)


def _blocks(data: Any, pattern: Path, at: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The maps of `data` that stand where `pattern` says, ``*`` being any key."""
    if not isinstance(data, Mapping):
        return
    if not pattern:
        yield at, data
        return
    for key in data if pattern[0] == "*" else [pattern[0]]:
        yield from _blocks(data.get(key), pattern[1:], (*at, key))


def _case(key: str, names: Iterable[str]) -> str | None:
    return next((name for name in names if name.casefold() == key.casefold()), None)


def _near(key: str, names: list[str], cutoff: float = _NEAR) -> str | None:
    if len(key) > _LONGEST:
        return None
    return next(iter(difflib.get_close_matches(key, names, n=1, cutoff=cutoff)), None)
