"""Which keys there are: those that instar reads, those that only opencode reads, and near misses.

opencode's keys that instar does not use are taken without a word: its files are read as they stand. A key that neither
knows and that looks like one of them is most likely a typing error.
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

_READ: Final = sorted(
    {field.name for field in msgspec.structs.fields(Config)} - {"data", "foreign", "asked"} | set(OWN_KEYS)
)
_BLOCKS: Final[Mapping[Path, tuple[str, ...]]] = MappingProxyType(
    {
        ("agent", "*"): (*AgentConfig.__struct_fields__, "name", "maxSteps", "hooks"),
        ("command", "*"): CommandConfig.__struct_fields__,
        ("mcp", "*"): McpConfig.__struct_fields__,
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
