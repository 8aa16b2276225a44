"""Writes and events to the statements of one commit."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from instar import wire
from instar.event import TYPES, Event
from instar.store import (
    DropAsk,
    DropFollowUp,
    DropMessage,
    DropPart,
    DropReserved,
    DropSession,
    Enqueue,
    Insert,
    Lease,
    LeaseLost,
    PruneValues,
    PutApproval,
    PutAsk,
    PutFollowUp,
    PutMessage,
    PutOrigin,
    PutPart,
    PutProject,
    PutSession,
    PutTodos,
    PutUsage,
    PutValue,
    StoreError,
    Write,
)
from instar.store.database import Row, SqlConnection
from instar.store.rows import (
    json_text,
    message_row,
    origin_text,
    part_row,
    project_row,
    session_row,
    spent_rows,
    usage_row,
)
from instar.wire import ids

Operation = tuple[str, Any]
"""A statement's name and its parameters."""
Answer = Callable[[], list[Row]]


class EventPlace(NamedTuple):
    """The directory and the project whose instance publishes."""

    directory: str
    project_id: str


class Commit(NamedTuple):
    """One commit, encoded: what to run, and the rows of its sync events, ``(aggregate, id, type, data)``.

    `announced` are these events themselves, to be told their numbers.
    """

    operations: list[Operation]
    events: list[tuple[str, str, str, str]]
    dropped: list[str]
    """Sessions whose events go too: of a deleted session nothing stays, as in opencode."""
    announced: list[Event]
    fences: list[Lease]
    """The leases under which this store changes the sessions: all of them must hold still."""
    relayed: dict[int, list[Row]]
    """The rows of what is only passed on to other processes, by the number of `events` before them."""
    wakes: bool
    """Whether other processes are woken to read what was written."""

    def run(self, connection: SqlConnection) -> Callable[[], int]:
        """Run it within the transaction. What is returned must be called before its end.

        That gives the last sequence number given out, or 0. Raises `LeaseLost`.
        """
        held = [
            connection.ask("is_leased", (lease.session_id, lease.owner, lease.fence)) for lease in self.fences
        ]
        for name, parameters in self.operations:
            connection.ask(name, parameters)
        ends = self._put_events(connection)
        for session_id in self.dropped:
            connection.ask("drop_events", (session_id,))
        if self.wakes:
            connection.ask("wake_others")
        return partial(self._check, held, ends)

    def _put_events(self, connection: SqlConnection) -> dict[str, Answer]:
        """Write the events. Returns, by session, the question for the number of the last one."""
        left = Counter([event[0] for event in self.events])
        ends = {session: connection.ask("advance", (session, count)) for session, count in left.items()}
        for place in range(len(self.events) + 1):
            if place:
                session, event_id, kind, data = self.events[place - 1]
                left[session] -= 1
                connection.ask("put_event", (event_id, session, left[session], kind, data))
            for row in self.relayed.get(place, ()):
                connection.ask("put_relayed", row)
        return ends

    def _check(self, held: list[Answer], ends: dict[str, Answer]) -> int:
        for lease, found in zip(self.fences, held, strict=True):
            if not found():
                raise LeaseLost(
                    f"session {lease.session_id} was taken over by another process, or deleted:"
                    " nothing more is saved in it here"
                )
        numbers = {session: end()[0][0] for session, end in ends.items()}
        last: int = numbers[self.events[-1][0]] if self.events else 0
        for (session, *_), announced in zip(reversed(self.events), reversed(self.announced), strict=True):
            # Told again if the transaction is tried again; published only once one was committed.
            announced.number(numbers[session])
            numbers[session] -= 1
        return last


def encode_commit(
    writes: Sequence[Write],
    events: Sequence[Event],
    now: int,
    leases: Mapping[str, Lease] = {},
    place: EventPlace | None = None,
) -> Commit:
    """Return a commit as it stands at this moment; `now` (ms) is the rows' time.

    `leases` are those that this store was given, by session. What changes a session has a durable event: such a commit
    is made under the session's lease. `place`: other processes are told of the events too.
    Raises `StoreError` for what cannot be stored.
    """
    operations: list[Operation] = []
    dropped: list[str] = []
    for write in writes:
        operations.extend(_ENCODE[type(write)](write, now))
        if isinstance(write, DropSession):
            dropped.append(write.id)
    durable: list[Event] = []
    told: list[tuple[str, str, str, str]] = []
    relayed: dict[int, list[Row]] = {}
    for event in events:
        version, session_id = TYPES[event.type].version, event.session_id
        if place is not None and session_id is not None and (version is None or session_id in dropped):
            row = (
                event.id,
                session_id,
                f"{event.type}.{version or 1}",
                event.payload().decode(),
                *place,
                now,
            )
            relayed.setdefault(len(told), []).append(row)
        if version is None:
            continue
        if session_id is None:
            raise StoreError(f"a {event.type} event is durable but names no session")
        durable.append(event)
        told.append((session_id, event.id, f"{event.type}.{version}", event.payload().decode()))
    fences = [leases[one] for one in dict.fromkeys(row[0] for row in told) if one in leases]
    wakes = place is not None and bool(told or relayed)
    return Commit(operations, told, dropped, durable, fences, relayed, wakes)


def _put_session(write: PutSession, now: int) -> Iterable[Operation]:
    columns, left = session_row(write.session)
    rest = (
        ("drop_leftover", (write.session.id,)) if left is None else ("put_leftover", (write.session.id, left))
    )
    return ("put_session", columns), rest


def _put_message(write: PutMessage, now: int) -> Iterable[Operation]:
    return (("put_message", (*message_row(write.message), now)),)


def _put_part(write: PutPart, now: int) -> Iterable[Operation]:
    return (("put_part", (*part_row(write.part), now)),)


def _insert(write: Insert, now: int) -> Iterable[Operation]:
    for name, parameters in _ENCODE[type(write.row)](write.row, now):
        yield _FRESH.get(name, name), parameters


def _put_project(write: PutProject, now: int) -> Iterable[Operation]:
    yield "put_project", project_row(write)


def _put_follow_up(write: PutFollowUp, now: int) -> Iterable[Operation]:
    item = write.follow_up
    prompt, origin = json_text(item.prompt), origin_text(item.origin)
    yield "put_follow_up", (item.id, item.session_id, item.source, prompt, item.created, origin)


def _put_origin(write: PutOrigin, now: int) -> Iterable[Operation]:
    yield "put_origin", (write.message_id, write.session_id, json_text(write.origin))


def _put_ask(write: PutAsk, now: int) -> Iterable[Operation]:
    yield "put_ask", (write.id, write.session_id, json_text(write.properties))


def _put_value(write: PutValue, now: int) -> Iterable[Operation]:
    if write.value is None:
        yield "drop_value", (write.plugin, write.key)
    else:
        yield "put_value", (write.plugin, write.key, json_text(write.value))


def _prune_values(write: PruneValues, now: int) -> Iterable[Operation]:
    # No key has a larger character.
    yield "prune_values", (write.plugin, write.prefix, f"{write.prefix}\U0010ffff", write.keep)


def _put_approval(write: PutApproval, now: int) -> Iterable[Operation]:
    rule = write.rule
    if rule.action != "allow":  # the table of opencode has no column for anything else
        raise StoreError(f"only `allow` can be remembered for a project, not {rule.action!r}")
    yield "put_approval", (ids.new("per"), write.project_id, rule.permission, rule.pattern, now)


def _put_todos(write: PutTodos, now: int) -> Iterable[Operation]:
    yield "drop_todos", (write.session_id,)
    for position, todo in enumerate(write.todos):
        yield "put_todo", (write.session_id, todo.content, todo.status, todo.priority, position, now)


def _enqueue(write: Enqueue, now: int) -> Iterable[Operation]:
    return ("enqueue_task", write.task), ("wake_workers", ())


def _put_usage(write: PutUsage, now: int) -> Iterable[Operation]:
    return ("put_usage", usage_row(write.usage)), *[("add_spent", row) for row in spent_rows(write.usage)]


def _drop(name: str) -> Callable[[Any, int], Iterable[Operation]]:
    return lambda write, now: [(name, (write.id,))]


_FRESH: Final = {"put_session": "add_session", "put_message": "add_message", "put_part": "add_part"}
"""The statements that fail where an id is taken, for those that would change its row."""

_ENCODE: Final[dict[type, Callable[[Any, int], Iterable[Operation]]]] = {
    PutSession: _put_session,
    PutMessage: _put_message,
    PutPart: _put_part,
    Insert: _insert,
    PutProject: _put_project,
    PutFollowUp: _put_follow_up,
    PutAsk: _put_ask,
    PutValue: _put_value,
    PruneValues: _prune_values,
    PutApproval: _put_approval,
    PutTodos: _put_todos,
    PutUsage: _put_usage,
    PutOrigin: _put_origin,
    DropSession: _drop("drop_session"),
    DropMessage: _drop("drop_message"),
    DropPart: lambda write, now: [("drop_part", (write.part.id,))],
    DropFollowUp: _drop("drop_follow_up"),
    DropAsk: _drop("drop_ask"),
    DropReserved: _drop("drop_reserved"),
    Enqueue: _enqueue,
}


def swap_value(plugin: str, key: str, before: Any, value: Any, connection: SqlConnection) -> bool:
    """Set a plugin's value for a key if it still is `before` (None: there is none); return whether it was."""
    found = connection.run("value", (plugin, key))
    if (wire.parse(found[0][0]) if found else None) != before:
        return False
    connection.run("put_value", (plugin, key, json_text(value)))
    return True
