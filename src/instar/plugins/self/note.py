"""The note on a session: what it set and did, with secrets masked, kept in the store for people.

``instar session self`` and the HTTP routes show it. It is never read back: what is set ends with the process.
"""

import contextlib
import time
from typing import Any, Final

import msgspec

from instar.plugin import KV, Value
from instar.plugins.self.access import Access, TreeChange
from instar.plugins.self.messages import Refusal

PREFIX: Final = "state:"
"""Prefix of a note's key; the session's id follows."""
CHANGES: Final = 50
"""Changes of a session that a note holds, the newest ones."""
NONE: Final = "in no session of the id {!r} was the tool self called: nothing was set in it"


class SelfChange(msgspec.Struct, frozen=True):
    """A change of the tree in a session, at a `time` (ms): what was there, what is there, by which `call`."""

    time: int
    path: str
    old: Any
    new: Any
    call: str


class SelfState(msgspec.Struct, frozen=True):
    """The state of a session: `values` it set of the tree by their paths, its `variables`, and how often it did what.

    `unregistered` are tools that it took away from itself, `snapshots` the names of those it took, `log` its newest
    changes, oldest first.
    """

    session: str
    values: dict[str, Any]
    variables: dict[str, Any]
    unregistered: list[str]
    snapshots: list[str]
    reads: int
    calls: int
    changes: int
    log: list[SelfChange]


def restored(session_id: str, note: dict[str, Any]) -> SelfState:
    """Return a note as it was kept. Raises `msgspec.ValidationError`."""
    return msgspec.convert({"session": session_id, **note}, SelfState)


class SessionNotes:
    """The notes on the sessions of one instance."""

    def __init__(self, kv: KV, access: Access) -> None:
        self._kv = kv
        self._access = access
        self._due: set[str] = set()

    def record(self, change: TreeChange) -> None:
        """Add a change, whose values are masked, to the log of its session."""
        log = self._access.sessions[change.session_id].log
        log.append(SelfChange(int(time.time() * 1000), change.path, change.old, change.new, change.call_id))
        self.due(change.session_id)
        del log[:-CHANGES]

    def due(self, session_id: str) -> None:
        """Mark a session: its note is written with the next step, or when the session ends."""
        self._due.add(session_id)

    async def keep(self, session_id: str, *, over: bool = False) -> None:
        """Write the note of a session that is marked.

        `over`: the session has ended, and its values can no longer be read: the note holds them as they were set.
        """
        if session_id not in self._due:
            return
        self._due.discard(session_id)
        state = self._access.sessions[session_id]
        note = {
            "values": await self._values(session_id, over),
            "variables": self._access.shown(dict(state.variables)),
            "unregistered": list(state.unregistered),
            "snapshots": self._access.shown(list(state.snapshots)),
            "reads": state.reads,
            "calls": state.calls,
            "changes": state.changes,
            "log": msgspec.to_builtins(state.log),
        }
        await self._kv.set(f"{PREFIX}{session_id}", note)

    async def forget(self, session_id: str) -> None:
        """Delete the note of a session that was deleted."""
        self._due.discard(session_id)
        await self._kv.set(f"{PREFIX}{session_id}", None)

    async def _values(self, session_id: str, over: bool) -> dict[str, Any]:
        tree, found = self._access.tree(), {}
        for at, value in self._access.sessions[session_id].changed.items():
            node = None if over else tree.at(at)
            with contextlib.suppress(Refusal):  # it can no longer be read
                if isinstance(node, Value):
                    found[at] = await self._access.read(at, node, session_id)
                elif over:
                    found[at] = self._access.shown(value, at.rpartition(".")[2])
        return found
