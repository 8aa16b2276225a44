"""The configuration: layers, how they merge, what an untrusted one may say, and a typed view of the result.

No input or output here: `instar.settings` finds and reads the files.
"""

from instar.config.assembly import viewed
from instar.config.ceiling import PRICES, lowered, prices_in
from instar.config.choice import foreign, without_choice
from instar.config.fault import ConfigError, Path, check_keys, describe, dotted
from instar.config.flat import spread_block, spread_flat
from instar.config.guarding import guarded
from instar.config.known import NO_EFFECT, OPENCODE_KEYS, PARTLY, Unknown, misspelt, shortened, unknown
from instar.config.layer import Layer, Merged, Scope, Vouched, has_reference, merge, plugin_name, substitute
from instar.config.restriction import restrict
from instar.config.section import SECTIONS, ShieldConfig, check_section, kind_of
from instar.config.view import (
    OWN_KEYS,
    AgentConfig,
    CommandConfig,
    CompactionConfig,
    Config,
    McpConfig,
    ModelConfig,
    ProviderConfig,
)

__all__ = [
    "NO_EFFECT",
    "OPENCODE_KEYS",
    "OWN_KEYS",
    "PARTLY",
    "PRICES",
    "SECTIONS",
    "AgentConfig",
    "CommandConfig",
    "CompactionConfig",
    "Config",
    "ConfigError",
    "Layer",
    "McpConfig",
    "Merged",
    "ModelConfig",
    "Path",
    "ProviderConfig",
    "Scope",
    "ShieldConfig",
    "Unknown",
    "Vouched",
    "check_keys",
    "check_section",
    "describe",
    "dotted",
    "foreign",
    "guarded",
    "has_reference",
    "kind_of",
    "lowered",
    "merge",
    "misspelt",
    "plugin_name",
    "prices_in",
    "restrict",
    "shortened",
    "spread_block",
    "spread_flat",
    "substitute",
    "unknown",
    "viewed",
    "without_choice",
]
