"""What the agent set in each session: in memory only, and nothing of one session in another (seed 001, issue 9)."""

import asyncio
from typing import Any

from instar.plugins.self import blocked
from instar.plugins.self.snapshots import Snapshots
from instar.plugins.self.variables import Variables


class State:
    """One session's: variables, snapshots, tools that it took away, values that it set by path, counts, a log."""

    def __init__(self) -> None:
        self.variables = Variables()
        self.snapshots = Snapshots()
        self.unregistered: dict[str, None] = {}
        self.changed: dict[str, Any] = {}
        self.warned: set[tuple[str, str]] = set()
        self.reads = 0
        self.calls = 0
        self.changes = 0
        self.log: list[dict[str, Any]] = []
        # One change at a time: of two calls side by side the later one must see what the first one set.
        self.changing = asyncio.Lock()

    def unregister(self, name: str) -> None:
        """Take a tool away; it is never this one."""
        if blocked.folded(name) != blocked.ITSELF:
            self.unregistered[name] = None

    def warns(self, name: str, value: Any) -> bool:
        """Whether a value is out of range that nobody was warned of in this session."""
        seen = (name, repr(value)[:100])
        first = seen not in self.warned
        self.warned.add(seen)
        return first


class States:
    """The states of the sessions by their ids."""

    def __init__(self) -> None:
        self._held: dict[str, State] = {}

    def of(self, session_id: str) -> State:
        """Return a session's state, a fresh one for a session that has none."""
        return self._held.setdefault(session_id, State())

    def drop(self, session_id: str) -> None:
        """Forget a session that is no longer used."""
        self._held.pop(session_id, None)

    def inherit(self, parent: str, child: str) -> None:
        """Give a sub-agent's session a copy of its caller's variables, and take the same tools away from it."""
        given, made = self.of(parent), State()
        made.variables.replace(given.variables.all())
        made.unregistered = dict(given.unregistered)
        self._held[child] = made
