"""The operations of self in the HTTP interface, under ``/instar/self``. They only read.

A session's state is what ``instar session self --json`` shows, with the same values masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from instar.plugin import Branch, Invalid, NotFound, PluginInput, Value, ids, operation, wire
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


@dataclass
class SelfRoutes:
    """The operations on the instance whose plugin was given `given`."""

    access: Access
    notes: SessionNotes
    given: PluginInput

    @operation("GET", "/instar/self/tree", "instar.self.tree", errors=(404,))
    async def tree(self, query: SelfTreeQuery) -> Sequence[SelfNode]:
        """List what the agent can reach of its own runtime, branches before what they hold."""
        if query.session is not None:
            session = await self.given.client.session.get(query.session)
            if session.directory != str(self.given.directory):
                # The values are in the other directory's runtime.
                raise Invalid(f"{session.id} lives in {session.directory}: ask there (?directory=)")
        top = f"{query.path}." if query.path else ""
        found = [one for one in self.access.tree().walk() if f"{one.path}.".startswith(top)]
        if not found:
            raise NotFound(f"there is nothing at {query.path!r} in the tree")
        return [await self._node(one, query.session) for one in found]

    @operation("GET", "/instar/self/session", "instar.self.sessions", errors=(404,))
    async def sessions(self) -> Sequence[SelfState]:
        """List the sessions in which the tool was called, as they stood last."""
        notes = await self.given.kv.list(PREFIX)
        return [restored(key.removeprefix(PREFIX), note) for key, note in notes.items()]

    @operation("GET", "/instar/self/session/{sessionID}", "instar.self.session", errors=(404,))
    async def session(self, session_id: ids.SessionID) -> SelfState:
        """Show what the agent set of its own runtime in a session, as it stands, or stood last."""
        await self.notes.keep(session_id)
        note = await self.given.kv.get(f"{PREFIX}{session_id}")
        if note is None:
            raise NotFound(NONE.format(session_id))
        return restored(session_id, note)

    @operation("GET", "/instar/self/session/{sessionID}/change", "instar.self.changes", errors=(404,))
    async def changes(self, session_id: ids.SessionID) -> Sequence[SelfChange]:
        """List the changes that were made in a session, oldest first, the newest ones of many."""
        return (await self.session(session_id)).log

    async def _node(self, found: TreeNode, session_id: str | None) -> SelfNode:
        node = found.node
        if not isinstance(node, Value):
            return SelfNode(found.path, "branch" if isinstance(node, Branch) else "method", node.doc)
        value, problem = msgspec.UNSET, ""
        if session_id is not None:
            try:
                value = await self.access.read(found.path, node, session_id)
            except Refusal as why:
                problem = str(why)
        return SelfNode(found.path, "value", node.doc, node.scope, node.write is not None, value, problem)
