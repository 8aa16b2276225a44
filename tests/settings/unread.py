"""What the settings take and do not use: for the tests that compare this with the code, and the page that says it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "username": "opencode shows it; no door of instar does",
        "provider.*.id": "a provider is known by its key in `provider`",
        "provider.*.models.*.status": "a model that is named is called",
    }
)
"""Settings that are read, so that a file with them is no mistake, and change nothing; with the reason."""

PARTLY: Final[Mapping[str, str]] = MappingProxyType(
    {"experimental": "continue_loop_on_deny", "watcher": "ignore"}
)
"""opencode's blocks of which instar reads one key only."""
