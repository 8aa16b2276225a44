"""The audit log: what happened to a workspace without a commit, or beyond what its commit says.

A log in a folder of instar's data, outside the workspace: a line of JSON an entry, only ever added to. Two files of at
most `largest` bytes each are kept, the older one goes when the newer is full.
"""

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.plugin import document
from instar.plugins.evolve.history.trailers import one_line, plain

FOLDER: Final = "chronicle"
NEWER: Final = "log.jsonl"
OLDER: Final = "log.1.jsonl"

_LONGEST: Final = 4000
_MOST_FILES: Final = 100
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Kind = Literal[
    "installed",
    "refused",
    "rolled back",
    "approved",
    "rejected",
    "frozen",
    "thawed",
    "pinned",
    "unpinned",
    "accepted",
    "departed",
    "safe",
]
"""What happened.

`departed`: a file was changed behind the gate's back; `accepted`: a person took that over; `safe`: a start without the
agent's changes.
"""

By = Literal["agent", "person", "instar"]
"""Who did it: the model by a tool, a person, or the runtime by itself."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. What is not known, or does not apply, is empty.

    `time` in ms since 1970 (0: `AuditLog.add` fills in now). `files` are paths in the workspace, `text` is the
    reason or the refusal, `stage` the gate's stage that refused, `cost` the ms that the gate took, `commit` the commit
    that was made. `session`, `call`, `tool` and `agent` are the model's tool call, `message` the message
    that made it: by that it is known what the step used, also after its session was deleted.
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


class AuditReading(msgspec.Struct, frozen=True):
    """The content of the audit log: its entries, newest first; `broken` lines were left out; `problem` if
    unreadable.
    """

    entries: list[AuditEntry]
    broken: int = 0
    problem: str = ""


class AuditLog:
    """The audit log in a folder of its own in `folder`. Several processes may add at once."""

    def __init__(self, folder: Path, largest: int = 1 << 20) -> None:
        self._folder = folder / FOLDER
        self._largest = largest

    def add(self, entry: AuditEntry) -> AuditEntry:
        """Add an entry, its texts made plain and bounded, and return it so. Raises `OSError`."""
        clean = _clean(entry)
        line = msgspec.json.encode(clean) + b"\n"
        with document.locked(self._folder):
            self._rotate(len(line))
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS
            handle = os.open(self._folder / NEWER, flags, 0o600)
            with os.fdopen(handle, "r+b", buffering=0) as file:
                _demand_file(file.fileno())
                size = os.fstat(file.fileno()).st_size
                # A line that a crash cut short must not swallow this one.
                torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
                file.write(b"\n" + line if torn else line)
        return clean

    def read(self) -> AuditReading:
        """Return all entries. A failed read is in the result, never raised."""
        entries: list[AuditEntry] = []
        broken, problems = 0, []
        for name in (OLDER, NEWER):
            try:
                lines = self._lines(name)
            except OSError as error:
                problems.append(f"{self._folder / name} cannot be read: {error.strerror or error}")
                continue
            for line in lines:
                entry = _decode(line)
                if entry is None:
                    broken += 1
                else:
                    entries.append(entry)
        return AuditReading(entries[::-1], broken, "; ".join(problems))

    def _lines(self, name: str) -> list[bytes]:
        try:
            handle = os.open(self._folder / name, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return []
        with os.fdopen(handle, "rb") as file:
            _demand_file(handle)
            # Never more than one line above the limit, unless somebody else wrote it.
            data = file.read(self._largest + (1 << 20))
        return [line for line in data.split(b"\n") if line]

    def _rotate(self, more: int) -> None:
        newer = self._folder / NEWER
        with contextlib.suppress(FileNotFoundError):
            if newer.lstat().st_size + more > self._largest:
                newer.replace(self._folder / OLDER)


def _demand_file(handle: int) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError("it is no regular file")


def _decode(line: bytes) -> AuditEntry | None:
    try:
        return msgspec.json.decode(line, type=AuditEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


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
