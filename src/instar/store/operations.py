"""What each kind of write does, as statements with their parameters, encoded when it is asked for."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from instar import ids
from instar.event import Event
from instar.store import rows
from instar.store.migrate import statements
from instar.store.projects import PutProject, values_of
from instar.store.protocol import (
    DropAsk,
    DropFollowUp,
    DropMessage,
    DropPart,
    DropSession,
    Insert,
    PruneValues,
    PutApproval,
    PutAsk,
    PutFollowUp,
    PutMessage,
    PutOrigin,
    PutPart,
    PutSession,
    PutTodos,
    PutUsage,
    PutValue,
    StoreError,
    Write,
)

Operation = tuple[str, Any]
"""A statement's name and its parameters."""


class Commit(NamedTuple):
    """One commit, encoded: what to run, and the rows of its sync events, ``(aggregate, id, type, data)``.

    `announced` are these events themselves, to be told their numbers.
    """

    operations: list[Operation]
    events: list[tuple[str, str, str, str]]
    dropped: list[str]
    """Sessions whose events go too: of a deleted session nothing stays, as in opencode."""
    announced: list[Event]

    def run(self, connection: sqlite3.Connection) -> int:
        """Run it within the transaction; return the last sequence number given out, or 0."""
        sql = statements()
        for name, parameters in self.operations:
            connection.execute(sql[name], parameters)
        last = self._number(connection, sql) if self.events else 0
        for session_id in self.dropped:
            connection.execute(sql["drop_events"], (session_id,))
        return last

    def _number(self, connection: sqlite3.Connection, sql: dict[str, str]) -> int:
        counts: dict[str, int] = {}
        for event in self.events:
            counts[event[0]] = counts.get(event[0], 0) + 1
        following: dict[str, int] = {}
        for aggregate, count in counts.items():
            (end,) = connection.execute(sql["advance"], (aggregate, count)).fetchall()[0]
            following[aggregate] = end - count
        for (aggregate, event_id, kind, data), announced in zip(self.events, self.announced, strict=True):
            following[aggregate] += 1
            connection.execute(sql["put_event"], (event_id, aggregate, following[aggregate], kind, data))
            # Told again if the transaction is tried again; published only once one was committed.
            announced.number(following[aggregate])
        return following[self.events[-1][0]]


def encode_commit(writes: Sequence[Write], events: Sequence[Event], now: int) -> Commit:
    """Return a commit as it stands at this moment; `now` (ms) is the rows' time.

    Raises `StoreError` for what cannot be stored.
    """
    operations: list[Operation] = []
    for write in writes:
        operations.extend(_ENCODE[type(write)](write, now))
    dropped = [write.id for write in writes if isinstance(write, DropSession)]
    durable = [event for event in events if event.declared.version is not None]
    return Commit(operations, [_event(event) for event in durable], dropped, durable)


def _event(event: Event) -> tuple[str, str, str, str]:
    session_id = event.session_id
    if session_id is None:
        raise StoreError(f"a {event.type} event is durable but names no session")
    kind = f"{event.type}.{event.declared.version}"
    return session_id, event.id, kind, event.payload().decode()


def _put_session(write: PutSession, now: int) -> Iterable[Operation]:
    columns, left = rows.session_row(write.session)
    yield "put_session", columns
    yield (
        ("drop_leftover", (write.session.id,)) if left is None else ("put_leftover", (write.session.id, left))
    )


def _put_message(write: PutMessage, now: int) -> Iterable[Operation]:
    yield "put_message", (*rows.message_row(write.message), now)


def _put_part(write: PutPart, now: int) -> Iterable[Operation]:
    yield "put_part", (*rows.part_row(write.part), now)


def _insert(write: Insert, now: int) -> Iterable[Operation]:
    for name, parameters in _ENCODE[type(write.row)](write.row, now):
        yield _FRESH.get(name, name), parameters


def _put_project(write: PutProject, now: int) -> Iterable[Operation]:
    yield "put_project", values_of(write)


def _put_follow_up(write: PutFollowUp, now: int) -> Iterable[Operation]:
    item = write.follow_up
    prompt, origin = rows.json_text(item.prompt), rows.origin_text(item.origin)
    yield "put_follow_up", (item.id, item.session_id, item.source, prompt, item.created, origin)


def _put_origin(write: PutOrigin, now: int) -> Iterable[Operation]:
    yield "put_origin", (write.message_id, write.session_id, rows.json_text(write.origin))


def _put_ask(write: PutAsk, now: int) -> Iterable[Operation]:
    yield "put_ask", (write.id, write.session_id, rows.json_text(write.properties))


def _put_value(write: PutValue, now: int) -> Iterable[Operation]:
    if write.value is None:
        yield "drop_value", (write.plugin, write.key)
    else:
        yield "put_value", (write.plugin, write.key, rows.json_text(write.value))


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


def _put_usage(write: PutUsage, now: int) -> Iterable[Operation]:
    yield "put_usage", rows.usage_row(write.usage)
    for row in rows.spent_rows(write.usage):
        yield "add_spent", row


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
    DropPart: _drop("drop_part"),
    DropFollowUp: _drop("drop_follow_up"),
    DropAsk: _drop("drop_ask"),
}
