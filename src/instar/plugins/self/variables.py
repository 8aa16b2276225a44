"""Runtime variables: what the agent keeps for itself in a session, under names of its own (seed 001 `modify`)."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from instar.plugins.self import blocked, limits, path
from instar.plugins.self.refusal import Refusal

MOST: Final = 64
"""Variables of a session (seed 001)."""


class Variables:
    """The variables of one session: plain data, checked whenever it comes in, and given out in copies."""

    def __init__(self, held: Mapping[str, Any] | None = None) -> None:
        self._held: dict[str, Any] = checked(held or {})

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def get(self, name: str) -> Any:
        """Return a copy of a variable's value, None when there is none."""
        return copy.deepcopy(self._held.get(name))

    def all(self) -> dict[str, Any]:
        """Return a copy of all variables."""
        return copy.deepcopy(self._held)

    def set(self, name: str, value: Any) -> None:
        """Keep a copy of a value. Raises `Refusal` with the reason."""
        if not path.NAME.fullmatch(name) or blocked.is_blocked(name):
            raise Refusal(
                f"{name[:80]!r} is no name of a variable: letters, digits and underscores, 64 at most"
            )
        if name not in self._held and len(self._held) >= MOST:
            raise Refusal(f"_runtime_vars is full (max {MOST} keys). Reset unused keys first.")
        self._held[name] = limits.kept(value)

    def delete(self, name: str) -> Any:
        """Forget a variable and return its value."""
        return self._held.pop(name)

    def replace(self, held: Mapping[str, Any]) -> None:
        """Take other variables in place of all these. Raises `Refusal`, and then these stay."""
        self._held = checked(held)


def checked(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a detached copy of variables, each of which could be set. Raises `Refusal`."""
    made = Variables.__new__(Variables)
    made._held = {}
    for name, value in held.items():
        made.set(name, value)
    return made._held
