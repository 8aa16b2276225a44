"""Snapshots: the restricted parameters and the runtime variables under a name, in memory (seed 001 `snapshot`)."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from instar.plugins.self import blocked, restricted, variables, words
from instar.plugins.self.refusal import Refusal

MOST: Final = 32
"""Snapshots of a session."""
LONGEST: Final = 64
"""Characters of a snapshot's name."""


class Snapshot(NamedTuple):
    """What was in force: restricted parameters and variables, by name."""

    values: Mapping[str, Any]
    variables: Mapping[str, Any]


class Snapshots:
    """The snapshots of one session. What goes in and what comes out is checked, and detached."""

    def __init__(self) -> None:
        self._held: dict[str, Snapshot] = {}

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were first saved."""
        return list(self._held)

    def save(self, name: str, values: Mapping[str, Any], held: Mapping[str, Any]) -> None:
        """Keep what is in force, in place of what had the name. Raises `Refusal`."""
        if not is_name(name):
            raise Refusal(
                words.refused_snapshot(name, f"has no usable name: {LONGEST} printable characters at most")
            )
        if name not in self._held and len(self._held) >= MOST:
            raise Refusal(
                words.refused_snapshot(name, f"is one too many (max {MOST}): save it under the name of one")
            )
        self._held[name] = _checked(name, Snapshot(values, held))

    def load(self, name: str) -> Snapshot:
        """Return a copy of a snapshot all of whose values could be set now. Raises `Refusal`."""
        if name not in self._held:
            raise Refusal(words.no_snapshot(name))
        return _checked(name, self._held[name])


def is_name(name: str) -> bool:
    """Whether a snapshot can go by a name."""
    return len(name) <= LONGEST and name.isprintable() and bool(blocked.folded(name))


def _checked(name: str, given: Snapshot) -> Snapshot:
    try:
        for parameter, value in given.values.items():
            restricted.check(parameter, value)
        held = variables.checked(given.variables)
    except Refusal as why:
        raise Refusal(words.refused_snapshot(name, f"cannot be used: {why}")) from None
    # Restricted parameters are numbers and texts, which nobody can change in place.
    return Snapshot(dict(given.values), held)
