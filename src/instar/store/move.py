"""What a store holds, moved from one database to another, and compared row by row before it counts."""

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

from instar.store import StoreError
from instar.store.database import Row, SqlConnection, SqlDatabase

TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "project": "id",
        "session": "id",
        "message": "id",
        "part": "id",
        "todo": "session_id, position",
        "permission": "rowid",
        "event_sequence": "aggregate_id",
        "event": "rowid",
        "instar_leftover": "session_id",
        "instar_follow_up": "position",
        "instar_ask": "position",
        "instar_value": "plugin, key",
        "instar_usage": "position",
        "instar_origin": "message_id",
        "instar_spent": "scope, key, hour",
    }
)
"""Each table that is moved, in an order in which no row names one that is not there yet, and what its rows sort by.

Leases stay: who runs a session runs it on one database.
"""
_NUMBERED: Final = ("rowid", "position")
"""The keys that a database gives by itself."""


def move(
    source: SqlDatabase, target: SqlDatabase, now: int, tell: Callable[[str, int], None]
) -> dict[str, int]:
    """Copy all rows, in one transaction, and return how many there are by table; `tell` hears of each table.

    Both are as they were when it raises `StoreError`: where sessions run on the source at `now` (ms), the target holds
    something, or a row reads there in another way.
    """
    if not source.made():
        raise StoreError(f"{source.name}: there is no database to move")
    try:
        reading, writing = source.open(), target.open()
        try:
            return _moved(reading, writing, source, target, now, tell)
        finally:
            reading.close()
            writing.close()
    except StoreError:
        raise
    except Exception as error:
        raise target.explain(source.explain(error)) from error


def _moved(
    reading: SqlConnection,
    writing: SqlConnection,
    source: SqlDatabase,
    target: SqlDatabase,
    now: int,
    tell: Callable[[str, int], None],
) -> dict[str, int]:
    reading.begin(writes=True)  # nobody adds anything meanwhile
    writing.begin(writes=True)
    if running := reading.run("running", (now,)):
        raise StoreError(
            f"{source.name}: {running[0][0]} runs; end what runs there (instar stop --all), and try again"
        )
    counts: dict[str, int] = {}
    for table in TABLES:
        if next(_rows(writing, table, "1"), None) is not None:
            raise StoreError(f"{target.name}: its table {table} has rows; name a database that is empty")
    for table, key in TABLES.items():
        columns = _columns(reading, table, key)
        names = ", ".join(columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own
        for row in _rows(reading, table, names, key):
            writing.execute(statement, row)
        counts[table] = 0
        for row, copy in zip_longest(_rows(reading, table, names, key), _rows(writing, table, names, key)):
            if row != copy:
                raise StoreError(f"{target.name}: a row of {table} is another one there ({(row or copy)[0]})")
            counts[table] += 1
        if key in _NUMBERED:
            writing.renumber(table, key)
        tell(table, counts[table])
    writing.execute("COMMIT")
    return counts


def _columns(connection: SqlConnection, table: str, key: str) -> list[str]:
    """The columns of a table, that of its numbers too, which SQLite does not name."""
    found = connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - our own names
    names = [column[0] for column in found.description if column[0] != "rowid"]
    return ["rowid", *names] if key == "rowid" else names


def _rows(connection: SqlConnection, table: str, columns: str, key: str = "1") -> Iterator[Row]:
    return connection.stream(f"SELECT {columns} FROM {table} ORDER BY {key}")  # noqa: S608 - our own names
