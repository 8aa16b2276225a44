"""The contract of a store: what can be written in one transaction, and what can be read.

`Store.commit` is the one write path: everything it is given is durable before anybody hears of it,
then its events are published in order. Rows of our own live in our own tables, since opencode's
schemas forbid extra fields.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from instar.api.project import Project
from instar.event import Event, Todo
from instar.message import PERSON, Message, Origin, Part, Rule, Session, Tokens, WithParts
from instar.store.projects import PutProject
from instar.wire import Plain


class Usage(msgspec.Struct, frozen=True):
    """Tokens and cost (US dollars, None where the price is unknown) of one model call and its cause.

    `cause` is its purpose (``turn``, ``task``, ``title``, ``compaction``, a plugin's word …); `origin`, `origin_id`
    and `source` are the fields of its `Origin`; `turn_id` is the message that it works on, `agent` who calls, and
    `root_id` the session at the top of the tree, None of them known for calls of old versions.
    """

    session_id: str
    message_id: str | None
    cause: str
    provider_id: str
    model_id: str
    tokens: Tokens
    cost: float | None
    created: int
    origin: str = PERSON
    origin_id: str = ""
    source: str = ""
    agent: str = ""
    turn_id: str = ""
    root_id: str = ""


class Sum(msgspec.Struct, frozen=True):
    """The sum of booked calls: their number, tokens and US dollars, and how many had no known price."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0


class Share(msgspec.Struct, frozen=True):
    """Of which booked calls a sum is wanted, from the full hour of `since` (ms) on.

    `scope` is ``session`` (`key`: the root session of a tree), ``origin`` (``heartbeat:12``), ``day`` (no key) or
    ``cause`` (an origin's name, a source or a purpose). Only the last two know times.
    """

    scope: str
    key: str = ""
    since: int = 0


class Stored(msgspec.Struct, frozen=True):
    """A durable event as it lies in the store.

    `place` orders the events of all sessions, later commits have higher ones. `version` is that of the type's
    form; `data` is the properties as JSON text on one line. `directory` and `project_id` are the session's.
    """

    place: int
    seq: int
    event_id: str
    session_id: str
    type: str
    version: int
    data: str
    directory: str
    project_id: str


class PutSession(msgspec.Struct, frozen=True):
    """Insert or replace a session's row."""

    session: Session


class PutMessage(msgspec.Struct, frozen=True):
    """Insert or replace a message's row."""

    message: Message


class PutPart(msgspec.Struct, frozen=True):
    """Insert or replace a part's row."""

    part: Part


class Insert(msgspec.Struct, frozen=True):
    """Write a row whose id nobody has yet; else the whole commit fails with a `StoreError` that names UNIQUE.

    For rows that come from elsewhere: theirs must not take the place of another session's.
    """

    row: PutSession | PutMessage | PutPart


class PutOrigin(msgspec.Struct, frozen=True):
    """Keep where a message comes from; one without a row is a person's."""

    message_id: str
    session_id: str
    origin: Origin


class DropSession(msgspec.Struct, frozen=True):
    """Delete a session with all that belongs to it."""

    id: str


class DropMessage(msgspec.Struct, frozen=True):
    """Delete a message with its parts."""

    id: str


class DropPart(msgspec.Struct, frozen=True):
    """Delete a part."""

    id: str


class FollowUp(msgspec.Struct, frozen=True):
    """A prompt that waits its turn in a session.

    `source` says who queued it (``evolve.idle``, ``compaction``, ``person`` …); `prompt` is the body of
    a prompt request as a client would send it. Automatic sources have a cap.
    """

    id: str
    session_id: str
    source: str
    prompt: Plain
    created: int
    origin: Origin = Origin()


class PutFollowUp(msgspec.Struct, frozen=True):
    """Queue a follow-up durably."""

    follow_up: FollowUp


class DropFollowUp(msgspec.Struct, frozen=True):
    """Take a follow-up off the queue: it became a message, or was given up."""

    id: str


class PutValue(msgspec.Struct, frozen=True):
    """Set a plugin's value for a key; JSON-ready. `None` deletes it."""

    plugin: str
    key: str
    value: Any


class PruneValues(msgspec.Struct, frozen=True):
    """Delete a plugin's values whose keys start with `prefix`, but for the `keep` with the last keys."""

    plugin: str
    prefix: str
    keep: int


class PutApproval(msgspec.Struct, frozen=True):
    """Remember an `always` answer for a project."""

    project_id: str
    rule: Rule


class PutAsk(msgspec.Struct, frozen=True):
    """A permission question waits for a person; `properties` is the event's wire form."""

    id: str
    session_id: str
    properties: Plain


class DropAsk(msgspec.Struct, frozen=True):
    """A permission question was answered or withdrawn."""

    id: str


class PutTodos(msgspec.Struct, frozen=True):
    """Replace a session's list of things to do, in the order given."""

    session_id: str
    todos: Sequence[Todo]


class PutUsage(msgspec.Struct, frozen=True):
    """Book one model call."""

    usage: Usage


Write = (
    PutSession
    | PutMessage
    | PutPart
    | Insert
    | PutOrigin
    | DropSession
    | DropMessage
    | DropPart
    | PutFollowUp
    | DropFollowUp
    | PutProject
    | PutValue
    | PruneValues
    | PutApproval
    | PutAsk
    | DropAsk
    | PutTodos
    | PutUsage
)


class Recorded(msgspec.Struct, frozen=True):
    """A durable event: its place in its session (from 1, no gaps) and its wire form."""

    seq: int
    event_id: str
    session_id: str
    type: str
    """The versioned name, as ``message.updated.1``."""
    data: Plain


class Lease(msgspec.Struct, frozen=True):
    """The right to run a session: `fence` rises with every holder."""

    session_id: str
    owner: str
    fence: int
    expires: int


class StoreError(Exception):
    """The store cannot do what was asked; the text says why and what to do."""


class Whereabouts(NamedTuple):
    """A session's directory, and when it was changed last (ms)."""

    directory: str
    updated: int


class Store(Protocol):
    """Where sessions live. Every method may raise `StoreError`; reads see every finished commit."""

    def commit(self, writes: Sequence[Write], events: Sequence[Event] = ()) -> asyncio.Future[int]:
        """Write all of it, as it stands at the call, in one transaction; then publish `events` in order.

        Commits keep their order, also those that nobody awaits, which share a transaction with what follows.
        Sync events become rows with the next sequence number of their session. Returns the last sequence
        number given out, or 0 when none was. Nothing is published when the transaction fails.
        """
        ...

    def publish(self, event: Event) -> None:
        """Publish an event that is not kept: now, or after the commits that were asked for before it."""
        ...

    async def settled(self) -> None:
        """Return once all requested commits are published or have failed."""
        ...

    async def events_since(self, session_id: str, seq: int, limit: int = 1000) -> list[Recorded]:
        """Return durable events of a session after `seq`, in order, at most `limit`."""
        ...

    async def events_after(
        self, last: str | int, directory: str | None = None, limit: int = 500
    ) -> list[Stored]:
        """Return durable events of all sessions, or of a directory's, after `last`: an event's id or a place."""
        ...

    async def projects(self, project_id: str | None = None) -> list[Project]:
        """Return the projects that are known, or the one with this id; last updated first."""
        ...

    async def whereabouts(self, session_id: str) -> Whereabouts | None:
        """Return where a session lives and when it was changed last, or None: what is asked before each use."""
        ...

    async def session(self, session_id: str) -> Session | None:
        """Return a session, or None."""
        ...

    async def sessions(
        self,
        project_id: str | None = None,
        *,
        directory: str | None = None,
        parent_id: str | None = None,
        archived: bool = False,
        limit: int | None = None,
    ) -> list[Session]:
        """Return sessions, last updated first. `archived` includes the archived ones."""
        ...

    async def messages(self, session_id: str, limit: int | None = None) -> list[WithParts]:
        """Return a session's messages with their parts, oldest first; `limit` keeps the newest ones."""
        ...

    async def follow_ups(self, session_id: str) -> list[FollowUp]:
        """Return what waits in a session's queue, oldest first."""
        ...

    async def asks(self, session_id: str | None = None) -> list[PutAsk]:
        """Return permission questions that nobody answered yet."""
        ...

    async def todos(self, session_id: str) -> list[Todo]:
        """Return a session's list of things to do, in order."""
        ...

    async def approvals(self, project_id: str) -> list[Rule]:
        """Return the `always` answers of a project, oldest first."""
        ...

    async def value(self, plugin: str, key: str) -> Any:
        """Return a plugin's value for a key, or None."""
        ...

    async def values(self, plugin: str, prefix: str = "") -> dict[str, Any]:
        """Return a plugin's keys that start with `prefix`, with their values."""
        ...

    async def usage(self, session_id: str | None = None, since: int = 0) -> list[Usage]:
        """Return booked model calls from `since` (ms) on, oldest first."""
        ...

    async def sums(self, shares: Sequence[Share]) -> list[Sum]:
        """Return the sums of booked calls for each share, from kept totals."""
        ...

    async def origins(self, session_id: str) -> dict[str, Origin]:
        """Return where a session's messages come from, by their ids; a person's are left out."""
        ...

    async def lease(self, session_id: str, owner: str, ttl: int) -> Lease | None:
        """Take or renew the right to run a session for `ttl` ms; None when another holds it."""
        ...

    async def holder(self, session_id: str) -> Lease | None:
        """Return the lease that somebody holds on a session now, or None."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release a lease; nothing happens when it is no longer ours."""
        ...

    async def interrupt(self, session_id: str, now: int) -> int:
        """Mark a session's pending and running tool parts, and its unfinished answers, as interrupted.

        For the first opening of a session whose process died. Returns how many parts were marked.
        """
        ...

    async def close(self) -> None:
        """Finish pending work and close the database."""
        ...


class Values:
    """The values of one plugin."""

    def __init__(self, store: Store, plugin: str) -> None:
        self._store = store
        self._plugin = plugin

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""
        return await self._store.value(self._plugin, key)

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""
        await self._store.commit([PutValue(self._plugin, key, value)])

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""
        return await self._store.values(self._plugin, prefix)
