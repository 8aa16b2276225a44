"""The note on a session: what it set and did, as it may be seen, kept in the store for people (issue 9, item 6).

It is shown by ``instar session self`` and never read back: everything that is set ends with the process (seed 001).
"""

import contextlib
import time
from typing import Any, Final

import msgspec

from instar.plugin import KV, Value
from instar.plugins.self.access import Access, Change
from instar.plugins.self.refusal import Refusal

PREFIX: Final = "state:"
"""How the keys of the notes begin; the session's id follows."""
CHANGES: Final = 50
"""The changes of a session that are told, the newest ones."""


NONE: Final = "in no session of the id {!r} was the tool self called: nothing was set in it"


class SelfChange(msgspec.Struct, frozen=True):
    """A change of the tree in a session, at a `time` (ms): what was there, what is there, by which `call`."""

    time: int
    path: str
    old: Any
    new: Any
    call: str


class SelfState(msgspec.Struct, frozen=True):
    """How a session stands: `values` it set of the tree by their paths, its `variables`, what it did how often.

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


class Notes:
    """The notes on the sessions of one instance."""

    def __init__(self, kv: KV, access: Access) -> None:
        self._kv = kv
        self._access = access
        self._due: set[str] = set()

    def heard(self, change: Change) -> None:
        """Take down a change, in which no secret stands."""
        told = {"time": int(time.time() * 1000), "path": change.path, "old": change.old, "new": change.new}
        log = self._access.states.of(change.caller.session_id).log
        log.append({**told, "call": change.caller.call_id})
        self.due(change.caller.session_id)
        del log[:-CHANGES]

    def due(self, session_id: str) -> None:
        """Something was done in a session: its note is written with the next step, or when it is used no more."""
        self._due.add(session_id)

    async def keep(self, session_id: str, *, over: bool = False) -> None:
        """Write down how a session stands now, if something was done in it since.

        `over`: it is used no more, and its rooms have let go of what was set: what it set is written as it set it.
        """
        if session_id not in self._due:
            return
        self._due.discard(session_id)
        state = self._access.states.of(session_id)
        note = {
            "values": self._set(session_id) if over else await self._values(session_id),
            "variables": self._access.shown(state.variables.all()),
            "unregistered": list(state.unregistered),
            "snapshots": self._access.shown(state.snapshots.names),
            "reads": state.reads,
            "calls": state.calls,
            "changes": state.changes,
            "log": list(state.log),
        }
        await self._kv.set(f"{PREFIX}{session_id}", note)

    async def forget(self, session_id: str) -> None:
        """Take back the note on a session that is gone."""
        self._due.discard(session_id)
        await self._kv.set(f"{PREFIX}{session_id}", None)

    def _set(self, session_id: str) -> dict[str, Any]:
        """What it set of the tree, as it set it."""
        changed = self._access.states.of(session_id).changed
        return {at: self._access.shown(value, at.rpartition(".")[2]) for at, value in changed.items()}

    async def _values(self, session_id: str) -> dict[str, Any]:
        """What it set of the tree, as it stands now."""
        tree = self._access.tree()
        found = {}
        for at in self._access.states.of(session_id).changed:
            with contextlib.suppress(Refusal):  # its room shows it no more
                one = tree.find(tuple(at.split(".")))
                if one is not None and isinstance(one.node, Value):
                    found[at] = await self._access.read(at, one.node, session_id)
        return found
