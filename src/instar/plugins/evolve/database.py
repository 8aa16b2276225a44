"""The database of one workspace: all that evolve keeps beside git, in one SQLite file that no child of the model reads.

Several processes and threads may use it. A damaged file is set aside, and the rows that can still be read are kept.
Where a row may be gone that restricts the agent, nothing is changed until a person has looked (`Database.doubt`).
"""

# ruff: noqa: S608 - the names of tables are our own
import contextlib
import itertools
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from instar.plugin import StoreError, document, sqlite

log = logging.getLogger("instar.evolve")
T = TypeVar("T")

FILE: Final = "evolve.db"
LOST: Final = "lost"
"""The note that says what was lost, until a person thaws the workspace."""
BESIDE: Final = ("", "-wal", "-shm")
"""The endings of the files that make up a database."""

_SQL: Final = Path(__file__).parent / "sql"
BINDING: Final = ("note", "granted", "pending", "pin")
"""The tables that hold what a person said, and what scripts were granted."""
_TABLES: Final = (*BINDING, "audit", "report", "debt", "beat", "call", "notice", "waiting", "used", "tried")
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Results that only damage has: our own SQL fits our tables."""
_COUNTED_EVERY: Final = 32
_PAGE: Final = 4096


class Database:
    """The database in `folder`, opened when it is first used. Its methods raise `OSError`.

    `begin` is called with each connection that is made. `notices` say what was set aside, and what `begin` returned.
    Without `durable` the disk is never waited for.
    """

    def __init__(
        self,
        folder: Path,
        begin: Callable[[Path, sqlite3.Connection], str] = lambda folder, connection: "",
        *,
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.notices: list[str] = []
        self._begin = begin
        self._durable = durable
        self._connection: sqlite3.Connection | None = None
        self._file: int | None = None
        self._lock = threading.RLock()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        return self._use(lambda connection: connection.execute(sql, values).fetchall())

    def change(self, turn: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """Do what `turn` does in one transaction, undone by what it raises. `durable`: then it is on the disk."""
        level = "OFF" if not self._durable else "FULL" if durable else "NORMAL"
        return self._use(lambda connection: _transaction(connection, turn, level))

    def note(self, name: str) -> bytes | None:
        """Return the JSON that was kept under a name."""
        return next((value for (value,) in self.rows("SELECT value FROM note WHERE name = ?", name)), None)

    def keep(self, name: str, value: bytes, *, durable: bool = True) -> None:
        """Keep JSON under a name. `durable`: it is on the disk then."""
        self.change(lambda connection: put_note(connection, name, value), durable=durable)

    def doubt(self) -> str:
        """Return why nothing may be changed: the database cannot be used, or something of it was lost."""
        try:
            return str(msgspec.json.decode(self.note(LOST) or b'""'))
        except OSError as error:
            return str(error)

    def close(self) -> None:
        """Close it; a later use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._lock:
                try:
                    return work(self._opened())
                except (sqlite3.DatabaseError, StoreError) as error:
                    if not _is_damage(error):
                        raise
                    with self._alone():
                        # Another process may have been quicker.
                        if self._file == _identity(self.path):
                            self._set_aside(str(error.__cause__ or error))
                    return work(self._opened())
        except (sqlite3.Error, StoreError) as error:
            said = error if isinstance(error, StoreError) else sqlite.explain(error, self.path)
            raise OSError(str(said)) from error

    def _opened(self) -> sqlite3.Connection:
        # A file that was moved away or replaced is not written to any more.
        if self._connection is None or self._file != _identity(self.path):
            self.close()
            with self._alone():
                self._connection = self._open()
        return self._connection

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process open the database, or set it aside, meanwhile."""
        try:
            with document.locked(self.folder):
                yield
        except OSError as error:
            raise sqlite.explain(error, self.path) from error

    def _open(self) -> sqlite3.Connection:
        new = self.folder / f"{FILE}.new"
        if not self.path.exists() and new.exists():
            # A crash came between the two renames of `_set_aside`: the rows that were kept stand here.
            new.rename(self.path)
        if _irregular(self.path) or _is_cut(self.path):
            self._set_aside("it was cut short, or something else stands in the place of a file")
        for path in _files(self.path):
            path.chmod(0o600)
        self._file = _identity(self.path)
        connection = sqlite.prepare(self.path, "NORMAL", sqlite.migrations(_SQL))
        self._file = _identity(self.path)
        if not all(_is_whole(connection, table) for table in BINDING):
            connection.close()
            raise sqlite3.DatabaseError("a table and its index differ")
        if said := self._begin(self.folder, connection):
            self._notice(said)
        return connection

    def _set_aside(self, why: str) -> None:
        """Put a new database in the place of the damaged one, with the rows that can still be read."""
        self.close()
        new, numbers = self.folder / f"{FILE}.new", itertools.count(1)
        aside = next(path for n in numbers if not _files(path := self.folder / f"{FILE}.broken-{n}"))
        irregular = _irregular(self.path)
        for path in irregular:
            path.rename(path.with_name(path.name.replace(FILE, aside.name, 1)))
        for path in _files(new):
            path.unlink()
        with contextlib.closing(sqlite.prepare(new, "NORMAL", sqlite.migrations(_SQL))) as connection:
            connection.execute("BEGIN")
            lost = _copy_rows(self.path, connection) if self.path not in irregular else list(_TABLES)
            said = f"{self.path} was damaged ({why}) and set aside as {aside.name}; lost in part: "
            said += ", ".join(lost) or "nothing"
            if irregular or not set(lost).isdisjoint(BINDING):
                put_note(connection, LOST, msgspec.json.encode(said))
            connection.execute("COMMIT")
        for path in _files(self.path):
            path.rename(path.with_name(path.name.replace(FILE, aside.name, 1)))
        new.rename(self.path)
        self._notice(said)

    def _notice(self, said: str) -> None:
        log.warning("evolve=database notice=%r", said)
        self.notices.append(said)


def put_note(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Keep JSON under a name, in the transaction of a connection."""
    connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, value))


def append(connection: sqlite3.Connection, table: str, size: int, *values: Any) -> None:
    """Add a row to a table whose rows are numbered, and drop the oldest of those that hold more than `size` bytes."""
    insert = f"INSERT INTO {table} VALUES (NULL{', ?' * len(values)})"
    number = connection.execute(insert, values).lastrowid or 0
    # All rows are looked at for that, so not each time.
    if number % _COUNTED_EVERY == 0:
        held = f"SELECT number, sum(length(value)) OVER (ORDER BY number DESC) AS held FROM {table}"
        over = f"SELECT number FROM ({held}) WHERE held > ?"
        connection.execute(f"DELETE FROM {table} WHERE number IN ({over})", (size,))


def decoded(rows: Iterable[tuple[bytes]], kind: type[T]) -> list[T]:
    """Return the JSON values of rows; those that are damaged are left out."""
    found = []
    for (value,) in rows:
        try:
            found.append(msgspec.json.decode(value, type=kind))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
            log.warning("evolve=database damaged=%s problem=%r", kind.__name__, str(error))
    return found


def _transaction(connection: sqlite3.Connection, turn: Callable[[sqlite3.Connection], T], level: str) -> T:
    connection.execute(f"PRAGMA synchronous = {level}")
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        return turn(connection)


def _copy_rows(old: Path, new: sqlite3.Connection) -> list[str]:
    """Copy what can be read, from both ends of each table; return the tables of which not all could be."""
    lost = []
    source = sqlite3.connect(old, isolation_level=None)
    for table, order in itertools.product(_TABLES, ("ASC", "DESC")):
        try:
            for row in source.execute(f"SELECT * FROM {table} ORDER BY rowid {order}"):
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            whole = _is_whole(source, table)
        except sqlite3.Error:
            whole = False
        lost += [] if whole else [table]
    source.close()
    return list(dict.fromkeys(lost))


def _is_whole(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute(f"PRAGMA integrity_check({table})").fetchall() == [("ok",)]


def _is_damage(error: Exception) -> bool:
    cause = error.__cause__ if isinstance(error, StoreError) else error
    # Text that is no UTF-8 is an error of Python's, without a code.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return isinstance(cause, sqlite3.Error) and code & 0xFF in _DAMAGE


def _files(path: Path) -> list[Path]:
    """What stands in the places of a database's files."""
    beside = (path.with_name(f"{path.name}{ending}") for ending in BESIDE)
    return [one for one in beside if os.path.lexists(one)]


def _irregular(path: Path) -> list[Path]:
    return [one for one in _files(path) if not stat.S_ISREG(one.lstat().st_mode)]


def _is_cut(path: Path) -> bool:
    """Whether SQLite would take the file for a new one, although something was written."""
    sizes = [one.stat().st_size for one in _files(path)]
    return path.exists() and path.stat().st_size < _PAGE and sum(sizes) > 0


def _identity(path: Path) -> int | None:
    """The number of a file; it is given to no other one as long as a connection holds it open."""
    with contextlib.suppress(OSError):
        return path.lstat().st_ino
    return None
