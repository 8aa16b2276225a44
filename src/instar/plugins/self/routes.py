"""The operations of self in the HTTP interface, under ``/instar/self``. They only read.

A session's state is what ``instar session self --json`` shows, with the same values masked.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from instar.plugin import KV, Branch, Client, Invalid, Method, NotFound, Value, ids, operation, wire
from instar.plugins.self.access import Access
from instar.plugins.self.messages import Refusal
from instar.plugins.self.note import NONE, PREFIX, SelfChange, SelfState, SessionNotes, restored
from instar.plugins.self.tree import TreeNode


class SelfTreeQuery(wire.Wire):
    """Which nodes: those at and below the dotted `path`. With `session`, the values as that session has them now."""

    path: str = ""
    session: ids.SessionID | None = None


class SelfNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of the tree. `scope` says whom a change of a value reaches, `settable` whether the tool may set it.

    `value` is what it is in the session that was asked for; `problem` says why it could not be read.
    """

    path: str
    kind: Literal["branch", "value", "method"]
    doc: str
    scope: Literal["", "session", "instance"] = ""
    settable: bool = False
    value: Any = msgspec.UNSET
    problem: str = ""


class SelfRoutes:
    """The operations on one instance, whose sessions live in `directory`."""

    def __init__(self, access: Access, notes: SessionNotes, kv: KV, client: Client, directory: str) -> None:
        self._access = access
        self._notes = notes
        self._kv = kv
        self._client = client
        self._directory = directory

    @operation("GET", "/instar/self/tree", "instar.self.tree", errors=(404,))
    async def tree(self, query: SelfTreeQuery) -> Sequence[SelfNode]:
        """List what the agent can reach of its own runtime, branches before what they hold."""
        if query.session is not None:
            await self._demand_here(query.session)
        found = [one for one in self._access.tree().walk() if _is_below(one.path, query.path)]
        if not found:
            raise NotFound(f"there is nothing at {query.path!r} in the tree")
        return [await self._node(one, query.session) for one in found]

    @operation("GET", "/instar/self/session", "instar.self.sessions", errors=(404,))
    async def sessions(self) -> Sequence[SelfState]:
        """List the sessions in which the tool was called, as they stood last."""
        notes = await self._kv.list(PREFIX)
        return [restored(key.removeprefix(PREFIX), note) for key, note in notes.items()]

    @operation("GET", "/instar/self/session/{sessionID}", "instar.self.session", errors=(404,))
    async def session(self, session_id: ids.SessionID) -> SelfState:
        """Show what the agent set of its own runtime in a session, as it stands, or stood last."""
        await self._notes.keep(session_id)
        note = await self._kv.get(f"{PREFIX}{session_id}")
        if note is None:
            raise NotFound(NONE.format(session_id))
        return restored(session_id, note)

    @operation("GET", "/instar/self/session/{sessionID}/change", "instar.self.changes", errors=(404,))
    async def changes(self, session_id: ids.SessionID) -> Sequence[SelfChange]:
        """List the changes that were made in a session, oldest first, the newest ones of many."""
        return (await self.session(session_id)).log

    async def _node(self, found: TreeNode, session_id: str | None) -> SelfNode:
        node = found.node
        if isinstance(node, Branch):
            return SelfNode(found.path, "branch", node.doc)
        if isinstance(node, Method):
            return SelfNode(found.path, "method", node.doc)
        shown = SelfNode(found.path, "value", node.doc, node.scope, node.write is not None)
        return shown if session_id is None else await self._read(shown, node, session_id)

    async def _read(self, shown: SelfNode, node: Value, session_id: str) -> SelfNode:
        try:
            value = await self._access.read(shown.path, node, session_id)
        except Refusal as why:
            return msgspec.structs.replace(shown, problem=str(why))
        return msgspec.structs.replace(shown, value=value)

    async def _demand_here(self, session_id: str) -> None:
        """Raise `NotFound`, and `Invalid` for a session of another directory: its values are in that one's runtime."""
        session = await self._client.session.get(session_id)
        if session.directory != self._directory:
            raise Invalid(f"{session_id} lives in {session.directory}: ask there (?directory=)")


def _is_below(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(f"{top}.")
