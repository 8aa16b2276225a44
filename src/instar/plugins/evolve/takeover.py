"""Reads what the version before kept in files, once, into the database of the workspace.

A part that cannot be read is named and left out. The old files stay, under names that end in ``.before``.
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugins.evolve.database import BINDING, LOST, Database, decoded, put_note
from instar.plugins.evolve.gate.pending import PendingEntry, digest
from instar.plugins.evolve.heartbeat.book import SCHEDULE
from instar.plugins.evolve.history.pins import Pin, key
from instar.plugins.evolve.ledger.ledger import Ledger

Rows = Sequence[tuple[Any, ...]]


class _Line(msgspec.Struct):
    state: msgspec.Raw
    entries: list[msgspec.Raw] = []


def take_over(folder: Path, connection: sqlite3.Connection) -> str:
    """Read the old files in `folder` into the database; return what was taken over and what was not, "" for nothing."""
    there = [one for one in _OLD if (folder / one[1]).exists()]
    if not there:
        return ""
    taken, left = list[str](), list[str]()
    connection.execute("BEGIN IMMEDIATE")
    for name, path, insert, read in there:
        try:
            rows = read(folder / path)
        except (OSError, ValueError, RecursionError) as error:
            left.append(f"{name} ({error})")
            if insert.partition(" ")[0] in BINDING:
                said = f"{name} of the version before could not be read ({folder / path}: {error})"
                put_note(connection, LOST, msgspec.json.encode(said))
        else:
            # A second try after a crash finds its rows there.
            connection.executemany(f"INSERT OR IGNORE INTO {insert}", rows)
            taken.append(name)
    connection.execute("COMMIT")
    for path in {path for _, path, _, _ in there}:
        (folder / path).rename(folder / f"{path}.before")
    return f"taken over from the version before: {', '.join(taken) or 'nothing'}; not: {', '.join(left) or 'nothing'}"


_RENAMED: Final = "versions"
_NAME: Final = re.compile(rb'"([0-9a-f]{64})"')


def rename_versions(database: Database, ledger: Ledger) -> None:
    """Name versions as git does, once: an instar of before named them by the SHA-256 of their content."""
    names = dict[bytes, bytes]()

    def renamed(value: bytes) -> bytes:
        return _NAME.sub(lambda found: b'"%s"' % names.get(found[1], found[1]), value)

    def turn(connection: sqlite3.Connection) -> None:
        for file in (ledger.kept.place / "objects").glob("??/*"):
            blob = file.parent.name + file.name
            if (data := ledger.kept.content(blob)) is not None:
                names[sha256(data).hexdigest().encode()] = blob.encode()
        for number, value in connection.execute("SELECT rowid, value FROM granted").fetchall():
            connection.execute("UPDATE granted SET value = ? WHERE rowid = ?", (renamed(value), number))
        for number, value in connection.execute("SELECT rowid, value FROM note").fetchall():
            connection.execute("UPDATE note SET value = ? WHERE rowid = ?", (renamed(value), number))
        found = connection.execute("SELECT value FROM pending WHERE rejected IS NULL").fetchall()
        for entry in decoded([(renamed(value),) for (value,) in found], PendingEntry):
            new = msgspec.structs.replace(entry, digest=digest(entry.proposal), decision=None)
            update = "UPDATE pending SET value = ? WHERE id = ?"
            connection.execute(update, (msgspec.json.encode(new), entry.id))
        put_note(connection, _RENAMED, b"true")

    try:
        if database.note(_RENAMED) is None:
            database.change(turn)
    except OSError as error:
        ledger.notice(str(error))


def _read(path: Path, kind: Any) -> Any:
    return msgspec.json.decode(path.read_bytes(), type=kind)


def _grants(path: Path) -> Rows:
    return [(name, bytes(value)) for name, value in _read(path, dict[str, msgspec.Raw]).items()]


def _pending(path: Path) -> Rows:
    files = path.glob("*.json")
    return [(file.stem, _read(file, PendingEntry).time, None, file.read_bytes()) for file in files]


def _pins(path: Path) -> Rows:
    return [(key(pin.file), pin.file, pin.by, pin.time) for pin in _read(path, list[Pin])]


def _notes(path: Path) -> Rows:
    return [(file.stem, bytes(_read(file, msgspec.Raw))) for file in path.glob("*.json")]


def _audit(path: Path) -> Rows:
    files = [file for name in ("log.1.jsonl", "log.jsonl") if (file := path / name).exists()]
    return _numbered([(line,) for file in files for line in file.read_bytes().split(b"\n") if line])


def _debts(path: Path) -> Rows:
    return _numbered([(bytes(debt),) for debt in _read(path, list[msgspec.Raw])])


def _calls(path: Path) -> Rows:
    files = sorted(path.glob("*/*/*.call"), key=lambda file: file.name)
    return _numbered([(*file.parts[-3:-1], int(file.name[:15]), file.read_bytes()) for file in files])


def _beats(path: Path) -> Rows:
    return _numbered([(bytes(entry),) for line in _lines(path) for entry in line.entries])


def _schedule(path: Path) -> Rows:
    return [(SCHEDULE, bytes(line.state)) for line in _lines(path)[-1:]]


def _lines(path: Path) -> list[_Line]:
    """The whole lines of a book of heartbeats; a crash may have cut one short."""
    return decoded(((line,) for line in path.read_bytes().split(b"\n") if line), _Line)


def _notices(path: Path) -> Rows:
    raise ValueError("sessions are told of later changes alone")


def _numbered(rows: Sequence[tuple[Any, ...]]) -> Rows:
    # Below every number that the database gives.
    return [(number, *row) for number, row in enumerate(rows, -len(rows))]


# What each store is called, where it stood, where its rows go, and how they are read.
_OLD: Final[tuple[tuple[str, str, str, Callable[[Path], Rows]], ...]] = (
    ("grants", "grants/grants.json", "granted VALUES (?, ?)", _grants),
    ("what waits for a person", "pending", "pending VALUES (?, ?, ?, ?)", _pending),
    ("pins", "pins/pins.json", "pin VALUES (?, ?, ?, ?)", _pins),
    ("notes", "notes", "note VALUES (?, ?)", _notes),
    ("audit log", "chronicle", "audit VALUES (?, ?)", _audit),
    ("owed commits", "owed/owed.json", "debt VALUES (?, ?)", _debts),
    ("recorded calls", "records", "call VALUES (?, ?, ?, ?, ?)", _calls),
    ("heartbeats", "heartbeat/beats.jsonl", "beat VALUES (?, ?)", _beats),
    ("schedule", "heartbeat/beats.jsonl", "note VALUES (?, ?)", _schedule),
    ("notices", "notices/queues", "notice VALUES (?, ?)", _notices),
)
