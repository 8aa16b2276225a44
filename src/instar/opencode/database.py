"""Reads opencode's own database, which has the tables of ours: which sessions it holds, and each as a record.

The database is never written.

Everything in it is untrusted: rows are handed out as plain values, unchecked.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import msgspec

from instar import wire
from instar.session.transcript import ExchangeError, Here, Record, Transcript, transcript_of
from instar.store import PutProject, StoreError, rows
from instar.store.database import Row

_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of one value; a larger one is an error of its row."""

_LONGEST_NAME: Final = 1024 * 1024
"""Bytes of one value where all sessions are listed at once: a column may be computed, and larger than the file."""

_NEEDED: Final = ("session", "message", "part", "project")


class Summary(NamedTuple):
    """A session of the database: times in ms, `messages` counts them, `worktree` is its project's folder."""

    id: str
    parent_id: str | None
    directory: str
    title: str
    updated: int
    messages: int
    project_id: str
    worktree: str
    vcs: str | None


class OpencodeDatabase:
    """An ``opencode.db``, open for reading: a context manager.

    With a ``-wal`` beside it, opencode may be running: it is read as a second reader. Without one the file is
    whole, and read without touching its folder. Raises `StoreError` when it is not such a database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise StoreError(f"{path}: there is no such file")
        log = path.with_name(path.name + "-wal")
        way = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?{way}", uri=True, timeout=5)
            self._prepare()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}; it must be opencode's database, opencode.db") from error

    def __enter__(self) -> "OpencodeDatabase":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def summaries(self) -> list[Summary]:
        """Return every session, last updated first. Raises `StoreError`."""
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_NAME)
        found = self._rows(
            "SELECT s.id, s.parent_id, s.directory, s.title, s.time_updated,"
            " (SELECT count(*) FROM message m WHERE m.session_id = s.id), s.project_id, p.worktree, p.vcs"
            " FROM session s LEFT JOIN project p ON p.id = s.project_id"
            " ORDER BY s.time_updated DESC, s.id"
        )
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        return [_summary(row) for row in found]

    def info(self, session_id: str) -> Any:
        """Return a session's row in its wire form. Raises `StoreError` when it cannot be read."""
        known = {row[1] for row in self._rows("PRAGMA table_info(session)")}
        columns = ", ".join(name if name in known else f"NULL AS {name}" for name in rows.COLUMNS)
        found = self._rows(f"SELECT {columns}, NULL FROM session WHERE id = ?", session_id)  # noqa: S608
        if not found:
            raise StoreError(f"{self._path}: there is no session {session_id}")
        return wire.to_plain(rows.session_of(found[0]))

    def messages(self, session_id: str) -> Iterator[tuple[Any, Sequence[Any]]]:
        """Yield a session's messages, oldest first, each with its parts; what is not JSON comes as its text."""
        for message_id, data in self._rows(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", session_id
        ):
            parts = self._rows("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", message_id)
            place = {"sessionID": session_id, "messageID": message_id}
            yield (
                _object(data, {"id": message_id, "sessionID": session_id}),
                [_object(text, {"id": part_id, **place}) for part_id, text in parts],
            )

    def todos(self, session_id: str) -> list[Any]:
        """Return a session's list of things to do, in order; empty where the database has no such table."""
        if "todo" not in self._tables():
            return []
        found = self._rows(
            "SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position", session_id
        )
        return [dict(zip(("content", "status", "priority"), row, strict=True)) for row in found]

    def _prepare(self) -> None:
        connection = self._connection
        # A text that is not UTF-8 must not end the reading of all rows.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        missing = [name for name in _NEEDED if name not in self._tables()]
        if missing:
            connection.close()
            raise StoreError(f"{self._path}: not opencode's database: it has no table {missing[0]}")

    def _tables(self) -> set[str]:
        return {row[0] for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _rows(self, sql: str, *parameters: object) -> list[Row]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}; it must be opencode's database, opencode.db") from error


def _summary(row: Row) -> Summary:
    session_id, parent, directory, title, updated, messages, project, worktree, vcs = row
    return Summary(
        str(session_id),
        None if parent is None else str(parent),
        str(directory),
        str(title),
        updated if isinstance(updated, int) else 0,
        messages,
        str(project),
        str(worktree or directory),
        None if vcs is None else str(vcs),
    )


def _object(data: Any, ids: dict[str, Any]) -> Any:
    try:
        plain = wire.parse(data)
    except (msgspec.DecodeError, TypeError):
        return data
    return {**plain, **ids} if isinstance(plain, dict) else plain


def of_folder(found: Sequence[Summary], folder: Path, project_id: str | None = None) -> list[Summary]:
    """Return the sessions of a folder: made in it or below, or of a project whose folder or id it is.

    The project of everything that is no repository is no folder's own: its sessions go by their directory.
    """
    return [
        one
        for one in found
        if Path(one.directory).is_relative_to(folder)
        or (one.vcs and (Path(one.worktree) == folder or one.project_id == project_id))
    ]


def families(found: Sequence[Summary], chosen: Sequence[Summary]) -> list[list[Summary]]:
    """Return the chosen sessions with all that descend from them, each family parent first, as `chosen` goes."""
    below: dict[str, list[Summary]] = {}
    for one in found:
        below.setdefault(one.parent_id or "", []).append(one)
    wanted = {one.id for one in chosen}
    seen: set[str] = set()
    made = []
    # A chosen child comes with its parent, if that is chosen too.
    for head in sorted(chosen, key=lambda one: one.parent_id in wanted):
        family = [head] if head.id not in seen else []
        for one in family:
            seen.add(one.id)
            family += [child for child in below.get(one.id, []) if child.id not in seen]
        if family:
            made.append(family)
    return made


def read_family(
    database: OpencodeDatabase, family: Sequence[Summary], now: int
) -> tuple[list[Transcript], PutProject]:
    """Return a family's sessions, checked, and the row of their project.

    They stay in their own project and folder: the database is of the same machine. Broken messages and parts
    are left out and noted. Raises `ExchangeError` when a session's own row is broken.
    """
    head = family[0]
    transcripts = [_read(database, one, now) for one in family]
    return transcripts, PutProject(head.project_id, head.worktree, head.vcs, now)


def _read(database: OpencodeDatabase, one: Summary, now: int) -> Transcript:
    try:
        record = Record(database.info(one.id), database.messages(one.id), database.todos(one.id))
        return transcript_of(record, Here(now), lenient=True)
    except (StoreError, ExchangeError) as error:
        raise ExchangeError(f"session {one.id[:40]} cannot be read: {error}") from error
