"""Opening a SQLite file: its settings, its numbered migrations, and what is refused.

``sql/NNNN_name.sql`` are applied in order, each in one transaction, and recorded in ``instar_migration``
with a checksum. A file that is not ours, or that a newer instar wrote, is left as it is.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from instar import __version__
from instar.store import StoreError
from instar.store.database import SQL, Row, Synchronous, statements

_LEDGER: Final = """CREATE TABLE IF NOT EXISTS instar_migration (
  version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
  instar text NOT NULL, time_applied integer NOT NULL)"""
_BUSY_MS: Final = 5000
_NEAR_CACHE: Final = 512
_READ_CACHE: Final = 1000
"""KiB of pages that a connection for a few rows keeps, and one that only reads: each commit makes them stale."""
_CHECKPOINT: Final = 4000
"""Pages of 4 KiB in the log after which it is brought into the database: each time the disk is waited for."""


ADDS: Final = "add_"
"""So begins the name of a step that only adds tables, indexes, and columns that may be left out.

Who does not know of it works as before: an older instar goes on beside a newer one.
"""
APPLIED: Final = "SELECT version, name, checksum, instar FROM instar_migration ORDER BY version DESC"


class Migration(NamedTuple):
    """A numbered step: its number from 1, its name, its statements and their checksum."""

    version: int
    name: str
    sql: str
    checksum: str


@cache
def migrations(folder: Path = SQL) -> tuple[Migration, ...]:
    """Return the migrations in `folder`, files named ``NNNN_name.sql``, in order; without it those of the store."""
    return tuple(read_migration(path) for path in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql")))


def read_migration(path: Path) -> Migration:
    """Return the migration in a file named ``NNNN_name.sql``."""
    number, _, name = path.stem.partition("_")
    sql = path.read_text(encoding="utf-8")
    return Migration(int(number), name, sql, hashlib.sha256(sql.encode()).hexdigest())


class SqliteConnection(sqlite3.Connection):
    """A connection that runs the statements by their names."""

    def run(self, name: str, parameters: Any = ()) -> list[Row]:
        return self.execute(statements()[name], parameters).fetchall()

    def ask(self, name: str, parameters: Any = ()) -> Callable[[], list[Row]]:
        found = self.execute(statements()[name], parameters).fetchall()
        return lambda: found

    def stream(self, statement: str) -> Iterator[Row]:
        return iter(self.execute(statement))

    def renumber(self, table: str, column: str) -> None:
        """SQLite does so by itself."""

    def begin(self, *, writes: bool) -> None:
        self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def day(self, time: str) -> str:
        return f"strftime('%Y-%m-%d', {time} / 1000, 'unixepoch', 'localtime')"

    def field(self, column: str, key: str) -> str:
        return f"({column} ->> '$.{key}')"

    def listed(self, parameter: str) -> str:
        return f"SELECT value FROM json_each({parameter})"  # noqa: S608 - our own text


class SqliteFile:
    """The tables in the file at `path`, made with its folder if it is not there."""

    lease_ms = 30_000
    relays = False

    def __init__(self, path: Path, synchronous: Synchronous = "NORMAL") -> None:
        self.name = str(path)
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._identity: tuple[int, int] | None = None

    def open(self) -> SqliteConnection:
        connection = prepare(self._path, self._synchronous, migrations())
        self._identity = _identity(self.name)
        return connection

    def connect(self, *, waits: bool = True) -> SqliteConnection:
        if waits:
            return connect(self._path, cache=_READ_CACHE)
        return connect(self._path, waits=0, cache=_NEAR_CACHE)

    def check(self) -> None:
        if _identity(self.name) != self._identity:
            raise StoreError(
                f"{self.name}: the database was deleted, moved or replaced while instar ran, so nothing can be saved;"
                " put the file back, or start instar again"
            )

    def made(self) -> bool:
        return self._path.exists()

    def size(self) -> int:
        return self._path.stat().st_size

    def shrink(self) -> None:
        """Give back the space of what was deleted. Raises `StoreError` when another program writes meanwhile."""
        try:
            with closing(self.connect()) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error | OverflowError | OSError):
            return explain(error, self._path)
        return error

    def is_locked(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another one that gets its name; None when it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked for many times a turn
    except OSError:
        return None
    return found.st_dev, found.st_ino


def prepare(path: Path, synchronous: Synchronous, steps: tuple[Migration, ...]) -> SqliteConnection:
    """Open the database at `path` for writing, made if it is not there, and apply what it lacks of `steps`.

    Raises `StoreError`, and changes nothing, when the file is another program's or a newer instar's, is
    damaged, or cannot be written.
    """
    try:
        _make_private(path)
        connection = connect(path)
    except (OSError, sqlite3.Error) as error:
        raise explain(error, path) from error
    try:
        missing = _missing(connection, path, steps)
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        _apply(connection, missing)
    except StoreError:
        connection.close()
        raise
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for another process that switches at the same time, so we do."""
    end = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return


def connect(path: Path, *, waits: int = _BUSY_MS, cache: int = 4000) -> SqliteConnection:
    """Return a connection with the settings that readers and the writer share. Raises `sqlite3.Error`.

    It `waits` so many ms for another process' lock, and keeps `cache` KiB of pages.
    """
    connection = sqlite3.connect(
        path,
        timeout=waits / 1000,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteConnection,
        cached_statements=64,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{cache}")
    return connection


def explain(error: Exception, path: Path) -> StoreError:
    """Return the error that a person reads for one of SQLite's: what happened, where, what to do."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = (
            error.strerror if error.filename in (None, str(path)) else f"{error.filename}: {error.strerror}"
        )
        obstacle = _in_the_way(path)
        if obstacle is not None:
            text = f"{obstacle} is a file, and a folder is needed there"
    for symptom, advice in _ADVICE:
        if symptom in text:
            return StoreError(f"{path}: {text}: {advice}")
    return StoreError(f"{path}: {text}")


def _in_the_way(path: Path) -> Path | None:
    """The file that stands where a folder above `path` should be."""
    there = next((one for one in path.parents if one.exists()), None)
    return there if there is not None and not there.is_dir() else None


_ADVICE: Final = (
    ("FOREIGN KEY", "what was written belongs to a project, session or message that is not in the store"),
    ("UNIQUE", "an event or record with this id was written before"),
    ("NOT NULL", "a message or part with this id stands in another session or message"),
    (
        "locked",
        "another program is writing to it for longer than five seconds; end that program and try again",
    ),
    ("not a database", "move the file away, or name another one; it was not changed"),
    ("malformed", "the file is damaged; keep a copy, then save what is readable: sqlite3 FILE .recover"),
    ("readonly", "make the file and its folder writable, or name another data folder: INSTAR_DATA=FOLDER"),
    (
        "ermission denied",
        "make the file and its folder writable, or name another data folder: INSTAR_DATA=FOLDER",
    ),
    ("is a file", "move it away, or name another data folder: INSTAR_DATA=FOLDER"),
    ("No such file", "its folder cannot be made; name another data folder: INSTAR_DATA=FOLDER"),
    ("Read-only file system", "name a data folder that can be written to: INSTAR_DATA=FOLDER"),
    ("unable to open", "make sure that its folder exists and can be written to (and see: ulimit -n)"),
    ("disk I/O error", "the disk fails, or a limit on the size of files forbids the write (see: ulimit -f)"),
    ("disk is full", "free some space and try again; what was saved before is intact"),
    ("No space left", "free some space and try again; what was saved before is intact"),
)


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner reads: conversations hold what tools printed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Never one that is there: to close it would drop the locks that another connection of this process holds on it.
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _missing(connection: sqlite3.Connection, path: Path, steps: tuple[Migration, ...]) -> list[Migration]:
    """The steps that the database lacks. Raises `StoreError` when it is not one that these steps made."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return list(steps)
    if "instar_migration" not in tables:
        raise StoreError(
            f"{path}: this is another program's database (it has no table instar_migration); "
            "it was not changed. Name another file."
        )
    return missing(connection.execute(APPLIED).fetchall(), str(path), steps)


def missing(applied: Sequence[Row], name: str, steps: tuple[Migration, ...]) -> list[Migration]:
    """Return the steps that a database lacks, by the rows of those applied (`APPLIED`).

    Raises `StoreError` when these are not steps of ours, nor newer ones that only add something (`ADDS`).
    """
    newest = max(step.version for step in steps)
    for version, name_of_step, _, writer in applied:
        if version > newest and not name_of_step.startswith(ADDS):
            raise StoreError(
                f"{name}: written by instar {writer} (schema {version}), and this is instar {__version__} "
                f"(schema {newest}); it was not changed. Use that version or a newer one, "
                "or name another database."
            )
    known = {version: checksum for version, _, checksum, _ in applied}
    for step in steps:
        if known.get(step.version, step.checksum) != step.checksum:
            raise StoreError(
                f"{name}: migration {step.version:04}_{step.name} was applied to it in another form than "
                f"this instar {__version__} has; it was not changed. Use the version that wrote it."
            )
    return [step for step in steps if step.version not in known]


def _apply(connection: sqlite3.Connection, missing: list[Migration]) -> None:
    for step in missing:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            connection.execute(_LEDGER)
            # Another process may have applied it between our look and our lock.
            if not connection.execute(
                "SELECT 1 FROM instar_migration WHERE version = ?", (step[0],)
            ).fetchone():
                for statement in _split(step.sql):
                    connection.execute(statement)
                row = (step.version, step.name, step.checksum, __version__, time.time_ns() // 1_000_000)
                connection.execute("INSERT INTO instar_migration VALUES (?, ?, ?, ?, ?)", row)


def _split(script: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
