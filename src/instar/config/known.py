"""Which top-level keys there are: those that instar reads, those that only opencode reads, and near misses.

opencode's keys that instar does not use are taken without a word: its files are read as they stand (issue 3,
item 3). A key that neither knows and that looks like one of them is most likely a typing error.
"""

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.config.view import OWN_KEYS, Config

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

NO_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "username": "opencode shows it; no door of instar does",
        "provider_retry_mode": "every call is tried as `standard` says",
        "provider.*.id": "a provider is known by its key in `provider`",
        "provider.*.name": "a provider is shown by its key in `provider`",
        "provider.*.models.*.status": "a model that is named is called",
        "hooks": "a plugin of a later version reads it",
    }
)
"""Settings that are read, so that a file with them is no mistake, and change nothing; with the reason."""

PARTLY: Final[Mapping[str, str]] = MappingProxyType(
    {"experimental": "continue_loop_on_deny", "watcher": "ignore"}
)
"""opencode's blocks of which instar reads one key only."""

_READ: Final = sorted(
    {field.name for field in msgspec.structs.fields(Config)} - {"data", "foreign", "asked"} | set(OWN_KEYS)
)
_NEAR: Final = 0.75
_LONGEST: Final = 40
"""Characters of a key up to which it is compared: a stranger's file must not slow us down."""
_MOST: Final = 20
"""Unknown keys of one document that are told."""


class Unknown(msgspec.Struct, frozen=True):
    """A top-level key that nobody reads: `where` it was written, and the known key that was most likely meant."""

    where: str
    key: str
    near: str | None

    def __str__(self) -> str:
        meant = f"there is no such setting; did you mean {self.near}?" if self.near else "nothing reads this"
        return f"{self.where}: {self.key[:_LONGEST]}: {meant}"


def unknown(data: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the top-level keys that neither instar nor opencode reads, each with the nearest known one."""
    strange = [key for key in data if key not in _READ and key not in OPENCODE_KEYS]
    for key in strange[:_MOST]:
        yield key, _near(key, _READ) or _near(key, sorted(OPENCODE_KEYS))


def _near(key: str, names: list[str]) -> str | None:
    if len(key) > _LONGEST:
        return None
    return next(iter(difflib.get_close_matches(key, names, n=1, cutoff=_NEAR)), None)
