"""The restricted parameters: types and ranges that hold whoever declares them (seed 001 "Restricted parameters")."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from instar.plugins.self import kind
from instar.plugins.self.refusal import Refusal

RESTRICTED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "max_iterations": MappingProxyType({"type": "integer", "minimum": 1, "maximum": 100}),
        "context_window_tokens": MappingProxyType({"type": "integer", "minimum": 4096, "maximum": 1_000_000}),
        "model": MappingProxyType({"type": "string", "minLength": 1, "maxLength": 512}),
    }
)
"""Each with its JSON Schema. Nothing that the tree holds leads here."""
SAFE: Final[Mapping[str, Any]] = MappingProxyType({"max_iterations": 40, "context_window_tokens": 65_536})
"""What holds where neither the value nor its default can."""


def check(name: str, value: Any) -> None:
    """Raise `Refusal` when a restricted parameter cannot have a value; others may have any."""
    if name in RESTRICTED:
        kind.check(name, value, dict(RESTRICTED[name]))


def is_sound(name: str, value: Any) -> bool:
    """Whether a parameter can have a value."""
    try:
        check(name, value)
    except Refusal:
        return False
    return True


def default(name: str, given: Any) -> Any:
    """Return what a reset sets: the default, the end of the range that is nearest to it, or a safe value.

    None: there is nothing that could be set.
    """
    if is_sound(name, given):
        return given
    if type(given) is int and "minimum" in RESTRICTED[name]:
        return max(RESTRICTED[name]["minimum"], min(RESTRICTED[name]["maximum"], given))
    return SAFE.get(name)
