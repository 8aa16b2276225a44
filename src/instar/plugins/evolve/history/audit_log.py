"""The audit log: what happened to a workspace without a commit, or beyond what its commit says.

It is only ever added to.
"""

import contextlib
import time
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from instar.plugins.evolve.database import FILE, Database, append, decoded
from instar.plugins.evolve.history.trailers import one_line, plain

_LONGEST: Final = 4000
_MOST_FILES: Final = 100

_CHANGES: Final = frozenset(("installed", "refused", "rolled back"))
"""What the agent does to itself."""

Kind = Literal[
    "installed",
    "refused",
    "passed over",
    "rolled back",
    "kept",
    "approved",
    "rejected",
    "frozen",
    "thawed",
    "again",
    "pinned",
    "unpinned",
    "accepted",
    "departed",
    "safe",
]
"""What happened.

`passed over`: another candidate was preferred; `kept`: a version passed its probation; `again`: what was refused may be
tried again; `departed`: a file was changed behind the gate's back; `accepted`: a person took
that over; `safe`: a start without the agent's changes.
"""

By = Literal["agent", "person", "instar"]
"""Who did it: the model by a tool, a person, or the runtime by itself."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. What is not known, or does not apply, is empty.

    `time` in ms since 1970 (0: `AuditLog.add` fills in now). `files` are paths in the workspace, `text` is the
    reason, the refusal, or what is new with a change, `stage` the gate's stage that refused, `cost` the ms that the
    gate took, `report` the id of what it found, `commit` the commit that was made. `session`, `call`, `tool` and
    `agent` are the model's tool call, `message` the message that made it: by that it is known what the step used, also
    after its session was deleted.
    """

    kind: Kind
    by: By = "instar"
    time: int = 0
    files: list[str] = []
    text: str = ""
    stage: str = ""
    commit: str = ""
    epoch: int | None = None
    session: str = ""
    call: str = ""
    tool: str = ""
    agent: str = ""
    message: str = ""
    cost: int | None = None
    report: str = ""


class AuditReading(msgspec.Struct, frozen=True):
    """The content of the audit log: its entries, newest first; `broken` ones were left out; `problem` if
    unreadable.
    """

    entries: list[AuditEntry]
    broken: int = 0
    problem: str = ""


class AuditLog:
    """The audit log; its oldest entries go when it holds more than `largest` bytes."""

    def __init__(self, database: Database, largest: int = 2 << 20) -> None:
        self._database = database
        self._largest = largest

    def add(self, entry: AuditEntry) -> AuditEntry:
        """Add an entry, its texts made plain and bounded, and return it so. Raises `OSError`."""
        clean = _clean(entry)
        value = msgspec.json.encode(clean)
        self._database.change(
            lambda connection: append(connection, "audit", self._largest, value), durable=False
        )
        return clean

    def read(self) -> AuditReading:
        """Return all entries. A failed read is in the result, never raised."""
        try:
            found = self._database.rows("SELECT value FROM audit ORDER BY number DESC")
        except OSError as error:
            return AuditReading([], problem=str(error))
        read = decoded(found, AuditEntry)
        return AuditReading(read, len(found) - len(read))


def _clean(entry: AuditEntry) -> AuditEntry:
    lines = ("stage", "commit", "session", "call", "tool", "agent", "message")
    fields = {name: one_line(getattr(entry, name)) for name in lines}
    return msgspec.structs.replace(
        entry,
        **fields,
        time=entry.time or int(time.time() * 1000),
        files=[one_line(file) for file in entry.files[:_MOST_FILES]],
        text=_cut(plain(entry.text)),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class EvolveCall(NamedTuple):
    """A tool call by which the agent changed itself, or tried to; `kind` is the chronicle's.

    `message` is the message that made it, "" in what older versions wrote.
    """

    session: str
    call: str
    kind: str
    message: str


def changes(data: Path) -> list[EvolveCall]:
    """Return the agent's own changes of every workspace whose data lies in `data`, the plugin's folder.

    What cannot be read is left out: what it costs is only told, nothing is decided by it.
    """
    found = list[EvolveCall]()
    for file in sorted((data / "workspaces").glob(f"*/{FILE}")):
        with contextlib.closing(Database(file.parent)) as database:
            found += [
                EvolveCall(entry.session, entry.call, entry.kind, entry.message)
                for entry in AuditLog(database).read().entries
                if entry.by == "agent" and entry.kind in _CHANGES and entry.session and entry.call
            ]
    return list(dict.fromkeys(found))
