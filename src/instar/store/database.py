"""What the store asks of a database: `sqlite.py` has SQLite's file, `postgresql.py` a PostgreSQL server."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from instar.store import StoreError

Synchronous = Literal["NORMAL", "FULL"]
"""Of a file: ``NORMAL`` survives the death of the process, ``FULL`` the loss of power as well."""
SQL: Final = Path(__file__).parent / "sql"

Row = tuple[Any, ...]


class SqlConnection(Protocol):
    """A connection that one thread uses at a time."""

    @property
    def in_transaction(self) -> bool: ...

    def run(self, name: str, parameters: Any = ()) -> list[Row]:
        """Run a statement of ``sql/statements.sql``, by its name, and return its rows."""

    def ask(self, name: str, parameters: Any = ()) -> Callable[[], list[Row]]:
        """Run it as `run` does, without waiting where it lies on a server; what is returned waits for its rows."""

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        """Run a statement, its parameters written as in SQLite, and return what `fetchone` and `fetchall` read from."""

    def stream(self, statement: str) -> Iterator[Row]:
        """Return the rows of a statement, a few at a time in memory."""

    def renumber(self, table: str, column: str) -> None:
        """Let a table's own numbers begin after its highest one."""

    def begin(self, *, writes: bool) -> None:
        """Begin a transaction: one that writes has no other beside it, one that reads sees one state."""

    def close(self) -> None: ...

    def day(self, time: str) -> str:
        """The SQL that gives the local day, ``YYYY-MM-DD``, of a time in ms."""

    def field(self, column: str, key: str) -> str:
        """The SQL that gives a text of the JSON object in a column."""

    def listed(self, parameter: str) -> str:
        """The SQL of a query for the texts of a JSON array."""


class SqlDatabase(Protocol):
    """Where the store's tables are."""

    name: str
    """How messages name it; without a password."""
    relays: bool
    """Whether what is published is written for other processes too (`relay.py`)."""
    lease_ms: int
    """How long a lease on a session lasts without being renewed; known once it was opened."""

    def open(self) -> SqlConnection:
        """Return a connection for writing, after making what is missing of the tables. Raises `StoreError`."""

    def connect(self, *, waits: bool = True) -> SqlConnection:
        """Return another connection; without `waits` it asks at once, else not at all. Raises what `explain` takes.

        Raises `BlockingIOError` where every question waits.
        """

    def check(self) -> None:
        """Raise `StoreError` when what is saved would be lost."""

    def made(self) -> bool:
        """Whether it is there; else `open` makes it."""

    def size(self) -> int:
        """Return how many bytes it takes. Raises what `explain` takes."""

    def shrink(self) -> None:
        """Give back the space of what was deleted. Raises `StoreError`."""

    def explain(self, error: Exception) -> Exception:
        """Return the `StoreError` for one of the database's errors; any other as it is."""

    def is_locked(self, error: Exception) -> bool:
        """Whether trying again would only wait as long again."""


@cache
def statements(dialect: str = "") -> Mapping[str, str]:
    """Return the statements of ``sql/statements.sql`` by name, with those that a dialect has in a folder of its own."""
    found = _read(SQL / "statements.sql")
    return {**found, **_read(SQL / dialect / "statements.sql")} if dialect else found


def _read(path: Path) -> dict[str, str]:
    _, *pieces = re.split(r"^-- name: (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def closed(database: SqlDatabase) -> StoreError:
    """Return the error of a store that is used after `close`."""
    return StoreError(f"{database.name}: the store is closed")
