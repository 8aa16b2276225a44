"""The store's tables on a PostgreSQL server: connections that speak the statements, and what their errors mean."""

import contextlib
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any, Final, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from instar import __version__
from instar.settings.install import installing
from instar.store import StoreError
from instar.store.database import SQL, Row, statements
from instar.store.sqlite import APPLIED, Migration, migrations, missing

try:
    import psycopg
    from psycopg import errors
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise StoreError(f"a PostgreSQL database needs psycopg: {installing('cluster')}") from error

_WRITING: Final = 0x1257A8
"""The advisory lock of the one who writes, so that events have their places in the order of the commits."""
_MIGRATING: Final = _WRITING + 1
PARAMETERS: Final = {
    "autocommit": True,
    "application_name": "instar",
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Of each connection; a network that is gone is noticed after some ten seconds."""
_LEASE_MS: Final = 10_000
_SHORTEST_MS: Final = 1000
_LONGEST_MS: Final = 3_600_000
_CONNECTIONS: Final = 8
"""At most so many of one process, beside the one that listens and the engine's."""
_LOCKED: Final = 5.0
"""Seconds for which one who writes waits for another one of the same process."""
_IDLE: Final = 1.0
"""Seconds after which a connection is tried before it is lent again."""
_AT_ONCE: Final = 100
"""At most so many statements are sent before the answers to all are read."""
_PATIENCE: Final = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '20s'"
"""A process that was stopped within a transaction holds the others up for so long."""


class Connections:
    """The connections of one process to a server: each is lent for one transaction, or for one question.

    Those who write take turns, so that only one of them waits for other processes. A pool of a library, which connects
    in threads of its own, would not say why it cannot.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._free: list[tuple[psycopg.Connection[Row], float]] = []
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._writing = threading.Lock()
        self._counting = threading.Lock()
        self._users = 0

    def enter(self) -> None:
        """Somebody wants to borrow until `leave`."""
        with self._counting:
            self._users += 1

    def leave(self) -> None:
        """What nobody wants any more is closed."""
        with self._counting:
            self._users -= 1
            is_last = not self._users
        if is_last:
            self._close()

    def lend(self, *, writes: bool = False) -> "psycopg.Connection[Row]":
        """Return a connection that nobody else uses until `give_back`. Raises `psycopg.Error`."""
        if writes and not self._writing.acquire(timeout=_LOCKED):
            raise errors.LockNotAvailable
        self._slots.acquire()
        try:
            return self._one()
        except BaseException:
            self._done(writes)
            raise

    def give_back(self, connection: "psycopg.Connection[Row]", *, writes: bool = False) -> None:
        """Take back what was lent. When that was lost the others are so, too: the server was restarted."""
        if connection.closed:
            self._close()
        else:
            self._free.append((connection, time.monotonic()))
        self._done(writes)

    def _one(self) -> "psycopg.Connection[Row]":
        with contextlib.suppress(IndexError, psycopg.OperationalError):
            connection, since = self._free.pop()
            if time.monotonic() - since > _IDLE:
                connection.execute("SELECT 1")
            return connection
        made = psycopg.connect(self._url, **PARAMETERS)  # type: ignore[arg-type]
        made.execute(_PATIENCE)
        return made

    def _done(self, writes: bool) -> None:
        self._slots.release()
        if writes:
            self._writing.release()

    def _close(self) -> None:
        while True:
            try:
                connection, _ = self._free.pop()
            except IndexError:
                return
            connection.close()


_SHARED: Final = WeakValueDictionary[str, Connections]()
"""Those of this process, by URL."""


class PostgresConnection:
    """Statements on a server, on a connection that is lent for each transaction. Raises `psycopg.Error`."""

    def __init__(self, connections: Connections) -> None:
        self._lender = connections
        self._lender.enter()
        self._statements = statements("postgresql")
        self._lent: psycopg.Connection[Row] | None = None
        self._writes = False
        self._pipeline: contextlib.AbstractContextManager[psycopg.Pipeline] | None = None
        self._sent = 0
        self._numbers = count(1)

    @property
    def _connection(self) -> "psycopg.Connection[Row]":
        assert self._lent is not None
        return self._lent

    @property
    def in_transaction(self) -> bool:
        return self._lent is not None

    def run(self, name: str, parameters: Any = ()) -> list[Row]:
        return self.ask(name, parameters)()

    def ask(self, name: str, parameters: Any = ()) -> Callable[[], list[Row]]:
        statement = self._statements[name]
        send = self.execute if self._lent is None else self._send
        found = send(statement, parameters)
        return found.fetchall if _returns(statement) else list

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if statement == "COMMIT":
            found = self._send(statement)
            self._wait()
            self._end()
            return found
        if statement == "ROLLBACK":
            return self._roll_back()
        if self._lent is None:
            connection = self._lender.lend()
            try:
                return connection.execute(cast("Any", _translated(statement)), _given(parameters))
            finally:
                self._lender.give_back(connection)
        self._wait()
        return self._send(statement, parameters)

    def _roll_back(self) -> None:
        """Undo. Whoever wants it was told of what failed, or does not mind; a lost connection has nothing to undo."""
        with contextlib.suppress(psycopg.Error):
            self._wait()
            # psycopg takes for prepared what a failed pipeline was about to prepare: that one would fail for ever.
            if self._connection.info.transaction_status == TransactionStatus.INTRANS:
                self._connection.execute("ROLLBACK")
        if self._connection.info.transaction_status != TransactionStatus.IDLE:
            self._connection.close()
        self._end()

    def _end(self) -> None:
        connection, self._lent = self._connection, None
        self._lender.give_back(connection, writes=self._writes)

    def _wait(self) -> None:
        """Wait for the answers of all that was sent. Raises the first error."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.__exit__(None, None, None)

    def _send(self, statement: str, parameters: Any = ()) -> Any:
        self._sent += 1
        if self._sent % _AT_ONCE == 0 and self._pipeline is not None:
            with self._connection.pipeline() as pipeline:
                pipeline.sync()
        return self._connection.execute(cast("Any", _translated(statement)), _given(parameters))

    def stream(self, statement: str) -> Iterator[Row]:
        self._wait()
        with self._connection.cursor(f"moved{next(self._numbers)}") as cursor:
            cursor.execute(cast("Any", statement))
            yield from cursor

    def renumber(self, table: str, column: str) -> None:
        self.script(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) + 1, false)"  # noqa: S608 - our own names
            f" FROM {table}"
        )

    def script(self, statements: str) -> None:
        """Run several statements without parameters."""
        self._wait()
        self._connection.execute(cast("Any", statements))

    def begin(self, *, writes: bool) -> None:
        self._begin("" if writes else " ISOLATION LEVEL REPEATABLE READ READ ONLY", writes=writes)
        if writes:
            self._lock(_WRITING)

    def begin_migration(self) -> None:
        """Begin a transaction beside which nobody else changes the tables."""
        self._begin()
        self._lock(_MIGRATING)

    def _begin(self, kind: str = "", *, writes: bool = False) -> None:
        self._lent = self._lender.lend(writes=writes)
        self._writes = writes
        # Statements are sent without waiting for the answer of each: others wait for the lock meanwhile.
        self._pipeline = self._connection.pipeline()
        self._pipeline.__enter__()
        self._connection.execute(cast("Any", f"BEGIN{kind}"))

    def listen(self) -> None:
        """Hear from now on when others have written something (``wake_others``, ``wake_workers``)."""
        self._lent = self._lender.lend()
        (name,) = self.execute("SELECT md5(current_schema())").fetchone()
        # So `instar doctor` and who watches the server see which processes work together.
        self.run("name_worker", (f"{platform.node()}:{os.getpid()}",))
        self.script(f"LISTEN instar_{name}; LISTEN instar_work_{name}")

    def wait(self, seconds: float) -> list[str]:
        """Wait until others have written something, or so long; return what was said of tasks (``wake_workers``)."""
        heard = self._connection.notifies(timeout=seconds, stop_after=1)
        return [one.payload for one in heard if one.channel.startswith("instar_work_")]

    def _lock(self, number: int) -> None:
        """Take one of our locks on the schema until the transaction ends."""
        statement = "SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()::text))"
        self._connection.execute(statement, (number,))

    def close(self) -> None:
        if self.in_transaction:
            self._roll_back()
        self._lender.leave()

    def day(self, time: str) -> str:
        return f"to_char(to_timestamp({time} / 1000), 'YYYY-MM-DD')"

    def field(self, column: str, key: str) -> str:
        return f"({column}::json ->> '{key}')"

    def listed(self, parameter: str) -> str:
        return f"SELECT json_array_elements_text(CAST({parameter} AS json))"


class PostgresServer:
    """The tables on the server that a URL names; the first to open them makes them.

    How long a lease lasts is the server's own setting, so that all processes have the same: ``instar.lease_seconds``,
    10 where it is not set.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connections = _SHARED.setdefault(url, Connections(url))
        self.relays = True
        self.lease_ms = _LEASE_MS
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def open(self) -> PostgresConnection:
        connection = PostgresConnection(self._connections)
        try:
            self._prepare(connection)
            self.lease_ms = self._lease(connection)
        except (psycopg.Error, StoreError) as error:
            connection.close()
            raise self.explain(error) from error
        return connection

    def connect(self, *, waits: bool = True) -> PostgresConnection:
        if not waits:
            raise BlockingIOError("a server is asked by a thread")
        return PostgresConnection(self._connections)

    def listen(self) -> PostgresConnection:
        """Return a connection of its own that hears when others write. Raises `psycopg.Error`, `StoreError`."""
        with contextlib.closing(self.open()):
            listening = PostgresConnection(Connections(self._url))
            listening.listen()
            return listening

    def check(self) -> None:
        """Nobody takes a server's tables away unseen."""

    def made(self) -> bool:
        return True

    def size(self) -> int:
        with contextlib.closing(self.connect()) as connection:
            return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])

    def shrink(self) -> None:
        """A server does it by itself (autovacuum)."""

    def explain(self, error: Exception) -> Exception:
        if not isinstance(error, psycopg.Error):
            return error
        # The whole text of an error shows the row that it is about.
        text = error.diag.message_primary or " ".join(str(error).split())
        advice = next((advice for kind, advice in _ADVICE if isinstance(error, kind)), "")
        return StoreError(f"{self.name}: {text}{f': {advice}' if advice else ''}")

    def is_locked(self, error: Exception) -> bool:
        return isinstance(error, psycopg.OperationalError)

    def _lease(self, connection: PostgresConnection) -> int:
        (said,) = connection.execute("SELECT current_setting('instar.lease_seconds', true)").fetchone()
        try:
            lasts = round(float(said) * 1000) if said else _LEASE_MS
        except (ValueError, OverflowError):
            lasts = 0
        if not _SHORTEST_MS <= lasts <= _LONGEST_MS:
            raise StoreError(
                f"{self.name}: instar.lease_seconds is a number from 1 to 3600, and not {said!r}"
            )
        return lasts

    def _prepare(self, connection: PostgresConnection) -> None:
        steps = migrations(SQL / "postgresql")
        connection.begin_migration()
        tables = {
            row[0]
            for row in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
        }
        applied: list[Row] = []
        if "instar_migration" in tables:
            applied = connection.execute(APPLIED).fetchall()
        elif clash := tables & {"project", "session", "message", "part", "event"}:
            raise StoreError(
                f"{self.name}: another program has tables there ({', '.join(sorted(clash))}); nothing was changed."
                " Name another database, or a schema of its own (?options=-csearch_path%3Dinstar)."
            )
        for step in missing(applied, self.name, steps):
            self._apply(connection, step)
        connection.execute("COMMIT")

    def _apply(self, connection: PostgresConnection, step: Migration) -> None:
        connection.execute("""CREATE TABLE IF NOT EXISTS instar_migration (
  version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
  instar text NOT NULL, time_applied bigint NOT NULL)""")
        connection.script(step.sql)
        connection.execute(
            "INSERT INTO instar_migration VALUES (?, ?, ?, ?, extract(epoch FROM now()) * 1000)",
            (step.version, step.name, step.checksum, __version__),
        )


def _given(parameters: Any) -> dict[str, Any]:
    """Parameters by their names in `_translated`. PostgreSQL has no text with NUL."""
    if not isinstance(parameters, dict):
        parameters = {f"p{number}": value for number, value in enumerate(parameters, 1)}
    return {
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in parameters.items()
    }


@cache
def _returns(statement: str) -> bool:
    """Whether a statement has rows as its result."""
    return bool(re.match(r"(--.*\n)*\(?(SELECT|WITH)\b", statement)) or "RETURNING" in statement


@cache
def _translated(statement: str) -> str:
    """A statement with its parameters as psycopg writes them: `?` and `?2` are called p1, p2 …."""
    numbers = iter(range(1, 100))

    def named(found: "re.Match[str]") -> str:
        if found[0] == "%":
            return "%%"
        if found[0].startswith(":"):
            return f"%({found[1]})s"
        return f"%(p{found[2] or next(numbers)})s"

    return re.sub(r"%|(?<!:):([a-z_]+)|\?(\d*)", named, statement)


_ADVICE: Final = (
    (
        errors.ForeignKeyViolation,
        "what was written belongs to a project, session or message that is not in the store",
    ),
    (errors.UniqueViolation, "UNIQUE: an event or record with this id was written before"),
    (
        errors.NotNullViolation,
        "NOT NULL: a message or part with this id stands in another session or message",
    ),
    (
        errors.InsufficientPrivilege,
        "give the user the right to make tables in this schema, or name another one",
    ),
    (errors.NumericValueOutOfRange, "a number is too large for its column"),
    (errors.DiskFull, "free some space on the server and try again; what was saved before is intact"),
    (errors.LockNotAvailable, "another instar holds the database for longer than five seconds; try again"),
    (
        psycopg.OperationalError,
        "make sure that the server runs and can be reached, and try again (instar's own: instar db start)",
    ),
)
