"""What the built-in agents may not do, whatever the configuration says of everybody.

Only the person's own ``agent.NAME.permission`` changes it; an untrusted folder's is judged against it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from instar.message import Rule

_NOTHING: Final = ("*",)

_DENIED: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("edit",),
    "general": ("todowrite", "todoread"),
    "explore": ("edit", "task", "todowrite", "todoread"),
    "title": _NOTHING,
    "summary": _NOTHING,
    "compaction": _NOTHING,
}

DENIALS: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        agent: tuple(Rule(permission=name, pattern="*", action="deny") for name in names)
        for agent, names in _DENIED.items()
    }
)
"""The denials of each built-in agent by its name."""
