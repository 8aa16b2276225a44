"""The record of a session: which rules were armed, and each run of a rule, as lines of JSON in a file.

``DATA/plugin/hooks/sessions/SESSION.jsonl``, DATA being instar's data folder: a line has a `time` (ms), a `type`
(``hooks.armed`` or ``hooks.ran``) and `properties`, which are those of the event of that type. A file holds at most
`LARGEST` bytes, and the `MOST` that were last written stay. It goes with its session.
"""

import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import event, wire

log = logging.getLogger("instar.hooks")

LARGEST: Final = 4 << 20
"""Bytes of one session's file."""
MOST: Final = 500
"""Files that are kept."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


class RuleRun(msgspec.Struct, frozen=True):
    """One line of a record: when (ms), the event's type, and its properties."""

    time: int
    type: str
    properties: wire.Plain


class RunRecords:
    """The records of sessions below `data`, the plugin's own folder. What cannot be written is logged, once."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "sessions"
        self._ready = False
        self._failed = False

    def add(self, properties: event.HooksRan | event.HooksArmed) -> None:
        """Append a line to the record of the session that it is about."""
        kind = "hooks.ran" if isinstance(properties, event.HooksRan) else "hooks.armed"
        line = RuleRun(time.time_ns() // 1_000_000, kind, wire.to_plain(properties))
        try:
            path = self._path(properties.session_id)
            if path is not None:
                _append(path, wire.encode(line) + b"\n")
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.error("runs of hooks are not recorded: %s", error)

    def forget(self, session_id: str) -> None:
        """Remove the record of a session."""
        if _ID.fullmatch(session_id):
            (self._folder / f"{session_id}.jsonl").unlink(missing_ok=True)

    def _path(self, session_id: str) -> Path | None:
        if not _ID.fullmatch(session_id):
            return None
        if not self._ready:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            files = sorted(self._folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
            for old in files[:-MOST]:
                old.unlink(missing_ok=True)
            self._ready = True
        return self._folder / f"{session_id}.jsonl"


def read(data: Path, session_id: str = "", since: int = 0) -> Iterator[RuleRun]:
    """Yield the lines of all records below `data`, or of one session's, that are not older than `since` (ms).

    File by file, each in order. A line that is none, as after a crash, is passed over.
    """
    folder = data / "sessions"
    if session_id and not _ID.fullmatch(session_id):
        return  # no session has it, and as a file's name it might lead elsewhere
    paths = [folder / f"{session_id}.jsonl"] if session_id else sorted(folder.glob("*.jsonl"))
    for path in paths:
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            continue  # removed since, with its session
        for line in lines:
            try:
                found = msgspec.json.decode(line, type=RuleRun)
            except msgspec.MsgspecError:
                continue
            if found.time >= since:
                yield found


def _append(path: Path, line: bytes) -> None:
    """Append in one write, so that two processes' lines do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size + len(line) <= LARGEST:
            os.write(descriptor, line)
    finally:
        os.close(descriptor)
