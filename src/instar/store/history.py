"""The durable events of all sessions in the order of their commits: what a client that was away missed."""

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

_LATER = "\uffff"
"""Sorts behind every id."""


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


def after(
    sql: Mapping[str, str], last: str | int, directory: str | None, limit: int, connection: sqlite3.Connection
) -> list[Stored]:
    """Return what was stored after `last`, an event's id or a place, oldest first, at most `limit`.

    An id that is not stored itself (of an event that never is, or of a session that is gone) stands for the
    time in it: ids sort by when they were made.
    """
    place = last if isinstance(last, int) else _place(last, connection, sql)
    chosen = {"place": place, "directory": directory, "limit": limit}
    return [_stored(row) for row in connection.execute(sql["events_after"], chosen)]


def _place(event_id: str, connection: sqlite3.Connection, sql: Mapping[str, str]) -> int:
    found = connection.execute(sql["event_place"], (event_id,)).fetchone()
    if found is None:
        found = connection.execute(sql["event_place_by_time"], (event_id, _LATER)).fetchone()
    return int(found[0])


def _stored(row: tuple[Any, ...]) -> Stored:
    place, seq, event_id, session_id, kind, data, directory, project_id = row
    name, _, version = kind.rpartition(".")
    # Another program may have written it with line ends, which would end a message of an event stream.
    text = data.replace("\n", " ").replace("\r", " ")
    number = int(version) if version.isdecimal() else 1
    return Stored(place, seq, event_id, session_id, name, number, text, directory, project_id)
