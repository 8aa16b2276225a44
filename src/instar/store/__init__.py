"""Where sessions, messages, parts and our own records are stored; all the SQL of the project.

Here stands what can be written, and what a read gives. `Store.commit` in `store.py` is the one write path: everything
it is given is durable before anybody hears of it, then its events are published in order. Rows of our own live in our
own tables, since opencode's schemas forbid extra fields.

May import `api` and what stands before it. Begin with `store.py`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from instar.api.project import ProjectCommands, ProjectIcon
from instar.api.stats import Sum
from instar.event import Todo
from instar.message import PERSON, Message, Origin, Part, Rule, Session, Tokens
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


class Share(msgspec.Struct, frozen=True):
    """Of which booked calls a sum is wanted, from the full hour of `since` (ms) on.

    `scope` is ``session`` (`key`: the root session of a tree), ``origin`` (``heartbeat:12``), ``day`` (no key) or
    ``cause`` (an origin's name, a source or a purpose). Only the last two know times.
    """

    scope: str
    key: str = ""
    since: int = 0


class Reservation(msgspec.Struct, frozen=True):
    """What a model call that runs may come to `most`, in each of the shares that it will be booked in."""

    id: str
    shares: Sequence[Share]
    most: Sum


class Stored(msgspec.Struct, frozen=True):
    """An event as it lies in the store: a durable one, or (without `seq`) one that was passed on by `relay.py`.

    `place` orders the events of all sessions, later commits have higher ones. `version` is that of the type's
    form; `data` is the properties as JSON text on one line. `directory` and `project_id` are the session's.
    """

    place: int
    seq: int | None
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

    part: Part


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


class PutProject(msgspec.Struct, frozen=True):
    """Insert or update the row of a project; `worktree` is ``/`` outside a repository.

    What a person gave it (`name`, `icon`, `commands`) stays where it is None here, field by field.
    """

    id: str
    worktree: str
    vcs: str | None
    now: int
    name: str | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


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


class DropReserved(msgspec.Struct, frozen=True):
    """A model call ended for which `Store.reserve` kept something."""

    id: str


class Enqueue(msgspec.Struct, frozen=True):
    """Let a worker take a session up (`instar.cluster`): the engine's queue, name, parameters and options of a task."""

    task: tuple[str, str, str, str]


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
    | DropReserved
    | Enqueue
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
    lasts: int = 0
    """Milliseconds for which it was given."""

    @property
    def renew_after(self) -> int:
        """How old, in ms, it grows before it is renewed."""
        return self.lasts // 3


class StoreError(Exception):
    """The store cannot do what was asked; the text says why and what to do."""


class LeaseLost(StoreError):
    """Another process took a session over, or deleted it: this one changes it no more."""


class Whereabouts(NamedTuple):
    """A session's directory, and when it was changed last (ms)."""

    directory: str
    updated: int
