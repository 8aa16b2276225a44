"""What the agent set in each session: variables, snapshots, tools taken away. It is held in memory only."""

import asyncio
import copy
from collections import UserDict, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from instar.plugins.self import bounds, paths
from instar.plugins.self.messages import Refusal, UnfitValue, quoted

VARIABLES: Final = 64
"""Runtime variables of a session."""
SNAPSHOTS: Final = 32
"""Snapshots of a session."""
LONGEST: Final = 64
"""Characters of a snapshot's name."""


class SettingsSnapshot(NamedTuple):
    """What was in force: restricted parameters and runtime variables, by name."""

    values: Mapping[str, Any]
    variables: Mapping[str, Any]


class Variables(UserDict[str, Any]):
    """The runtime variables of one session: plain data, checked when it comes in, given out in copies."""

    def __getitem__(self, name: str) -> Any:
        """Return a copy of a variable's value."""
        return copy.deepcopy(self.data[name])

    def __setitem__(self, name: str, value: Any) -> None:
        """Keep a copy of a value. Raises `UnfitValue` with the reason."""
        if not paths.NAME.fullmatch(name) or paths.is_blocked(name):
            raise UnfitValue(
                f"{name[:80]!r} is no name of a variable: letters, digits and underscores, 64 at most"
            )
        if name not in self.data and len(self.data) >= VARIABLES:
            raise UnfitValue(f"_runtime_vars is full (max {VARIABLES} keys). Reset unused keys first.")
        self.data[name] = bounds.kept(value)


class Snapshots(UserDict[str, SettingsSnapshot]):
    """The snapshots of one session, by name, in the order in which the names were first saved.

    What goes in and what comes out is checked and detached.
    """

    def __setitem__(self, name: str, given: SettingsSnapshot) -> None:
        """Keep what is in force, in place of what had the name. Raises `Refusal`."""
        refused = f"Error: snapshot {quoted(name)}"
        if not (len(name) <= LONGEST and name.isprintable() and paths.folded(name)):
            raise Refusal(f"{refused} has no usable name: {LONGEST} printable characters at most")
        if name not in self.data and len(self.data) >= SNAPSHOTS:
            raise Refusal(f"{refused} is one too many (max {SNAPSHOTS}): save it under the name of one")
        self.data[name] = _usable(name, given)

    def __getitem__(self, name: str) -> SettingsSnapshot:
        """Return a copy of a snapshot all of whose values could be set now. Raises `Refusal`."""
        if name not in self.data:
            raise Refusal(f"Error: snapshot {quoted(name)} not found")
        return _usable(name, self.data[name])


def _usable(name: str, given: SettingsSnapshot) -> SettingsSnapshot:
    try:
        for parameter, value in given.values.items():
            bounds.check_parameter(parameter, value)
        held = dict(Variables(given.variables))
    except Refusal as why:
        raise Refusal(f"Error: snapshot {quoted(name)} cannot be used: {why}") from None
    # Restricted parameters are numbers and texts, which nobody can change in place.
    return SettingsSnapshot(dict(given.values), held)


class SelfSession:
    """What the agent set in one session, and what it did there."""

    def __init__(self) -> None:
        self.variables = Variables()
        self.snapshots = Snapshots()
        # Each with whether the caller of this sub-agent took it away.
        self.unregistered: dict[str, bool] = {}
        self.changed: dict[str, Any] = {}
        self.warned: set[tuple[str, str]] = set()
        self.reads = self.calls = self.changes = 0
        self.log: list[Any] = []
        # One change at a time: of two calls side by side the later one must see what the first one set.
        self.changing = asyncio.Lock()

    def inherited(self) -> "SelfSession":
        """Return what a sub-agent's session begins with: a copy of the variables, and the same tools taken away."""
        made = SelfSession()
        made.variables = Variables(self.variables)
        made.unregistered = dict.fromkeys(self.unregistered, True)
        return made


SelfSessions = defaultdict[str, SelfSession]
"""What the agent set, by the id of the session."""
