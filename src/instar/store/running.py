"""What runs and what waits, read without opening a store: for `instar stop`, which must not wait for a migration."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from instar.store.protocol import StoreError

_PATIENCE = 1.0
"""Seconds that a read waits for a database that somebody has locked."""


class Run(msgspec.Struct, frozen=True):
    """A session that a process holds: it runs it, or is about to change it. `owner` is a lease's."""

    session_id: str
    title: str
    directory: str
    owner: str
    fence: int


class Waiting(msgspec.Struct, frozen=True):
    """How many prompts of one source wait in a session's queue."""

    session_id: str
    title: str
    directory: str
    source: str
    count: int


def running(path: Path, now: int) -> list[Run]:
    """Return the sessions that are held at `now` (ms), oldest first. Raises `StoreError`."""
    return [Run(*row) for row in _rows(path, _RUNNING, (now,))]


def waiting(path: Path) -> list[Waiting]:
    """Return what waits in the sessions' queues. Raises `StoreError`."""
    return [Waiting(*row) for row in _rows(path, _WAITING, ())]


_RUNNING = """
SELECT session.id, session.title, session.directory, lease.owner, lease.fence
FROM instar_lease AS lease JOIN session ON session.id = lease.session_id
WHERE lease.time_expires > ? ORDER BY session.id DESC
"""
_WAITING = """
SELECT session.id, session.title, session.directory, queue.source, count(*)
FROM instar_follow_up AS queue JOIN session ON session.id = queue.session_id
GROUP BY session.id, queue.source ORDER BY session.id DESC, min(queue.position)
"""


def _rows(path: Path, statement: str, parameters: Sequence[int]) -> list[tuple[str, str, str, str, int]]:
    if not path.exists():
        return []
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_PATIENCE)
        try:
            return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path} cannot be read ({error})") from error
