"""The record of a session: which rules were armed, and each run of a rule, as lines of JSON in a file.

``DATA/plugin/hooks/sessions/SESSION.jsonl``, DATA being instar's data folder: a line has a `time` (ms), a `type`
(``hooks.armed`` or ``hooks.ran``) and `properties`, which are those of the event of that type. A file holds at most
`LARGEST` bytes, and the `MOST` that were last written stay. It goes with its session. `summed` says what each rule has
decided, how long it took and what it cost: for ``instar hooks stats`` and the server.
"""

import logging
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import document, event, wire

_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and characters that change how a text is displayed."""


def one_line(text: str, width: int = 400) -> str:
    """Return `text` on one line without control characters, cut to `width` characters."""
    plain = " ".join(_UNSAFE.sub(" ", text).split())
    return plain if len(plain) <= width else f"{plain[: width - 1]}…"


def near(place: str, directory: Path) -> str:
    """Return ``file:line:column`` relative to `directory`, if the file is below it."""
    return place.removeprefix(f"{directory}/")


def counted(count: int, noun: str) -> str:
    """Return ``1 rule`` or ``1,200 rules``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
    """The records of sessions below `data`, the plugin's own folder. What cannot be written is logged."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "sessions"
        self._ready = False

    def add(self, properties: event.HooksRan | event.HooksArmed) -> None:
        """Append a line to the record of the session that it is about."""
        kind = "hooks.ran" if isinstance(properties, event.HooksRan) else "hooks.armed"
        line = RuleRun(time.time_ns() // 1_000_000, kind, wire.to_plain(properties))
        try:
            _append(self._path(properties.session_id), wire.encode(line) + b"\n")
        except OSError as error:
            log.error("a run of hooks is not recorded: %s", error)

    def forget(self, session_id: str) -> None:
        """Remove the record of a session."""
        (self._folder / f"{session_id}.jsonl").unlink(missing_ok=True)

    def _path(self, session_id: str) -> Path:
        if not self._ready:
            document.private_folder(self._folder)
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
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0) as file:
        if os.fstat(file.fileno()).st_size + len(line) <= LARGEST:
            file.write(line)


_COLUMNS: Final = ("runs", "allow", "ask", "deny", "undecided", "p50 ms", "max ms", "tokens", "cost")


class RuleFigures(msgspec.Struct, frozen=True):
    """What one rule came to at one event. `p50` and `slowest` in ms.

    `actions` counts what counted in the end: an undecided run is in `undecided`, and once more among them. `cost` is in
    US dollars; `unpriced` runs used tokens that have no known price.
    """

    rule: str
    event: str
    evaluator: str
    runs: int
    actions: dict[str, int]
    undecided: int
    p50: int
    slowest: int
    tokens: int
    cost: float
    unpriced: int
    last: int

    def cells(self) -> tuple[str, ...]:
        """Return the columns of a terminal's table."""
        money = f"${self.cost:.4f}" if self.cost else "-"
        counts = [f"{self.actions.get(name, 0):,}" for name in ("allow", "ask", "deny")]
        return (
            *(f"{self.runs:,}", *counts, f"{self.undecided:,}", f"{self.p50:,}", f"{self.slowest:,}"),
            *(f"{self.tokens:,}" if self.tokens else "-", money + ("+" if self.unpriced else "")),
        )


class HookStats(msgspec.Struct, frozen=True):
    """What rules came to. `sessions` have been armed since `since` (ms; 0: ever); `folder` holds their records."""

    folder: str
    since: int
    sessions: int
    lines: list[RuleFigures]

    def text(self) -> str:
        """Return it for a terminal."""
        if not self.lines:
            return f"no rule has run ({counted(self.sessions, 'session')} armed; records: {self.folder})"
        rows = [_COLUMNS, *(line.cells() for line in self.lines)]
        widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
        names = ["", *(one_line(f"{line.event}: {line.rule}", 100) for line in self.lines)]
        table = [
            "  ".join((*(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), name)).rstrip()
            for row, name in zip(rows, names, strict=True)
        ]
        total = f"{counted(self.sessions, 'session')} armed; records: {self.folder}"
        return "\n".join([*table, one_line(total)])


def since(days: int | None) -> int:
    """Return the time (ms) from which the last `days` days count; 0 is today, None ever."""
    if days is None:
        return 0
    first = datetime.combine(date.today() - timedelta(days), datetime.min.time())
    return int(first.timestamp() * 1000)


def summed(data: Path, session: str = "", since: int = 0) -> HookStats:
    """Return the sums of the records below `data`: of all sessions or one, from `since` (ms) on."""
    runs: dict[tuple[str, str], list[tuple[int, event.HooksRan]]] = {}
    sessions = set()
    for line in read(data, session, since):
        if line.type == "hooks.armed":
            sessions.add(line.properties.get("sessionID"))
            continue
        try:
            ran = wire.decode(line.properties, event.HooksRan)
        except msgspec.ValidationError:
            continue  # of another version
        runs.setdefault((ran.event, ran.rule), []).append((line.time, ran))
    lines = [_line(found) for found in runs.values()]
    ordered = sorted(lines, key=lambda line: (-line.runs, line.event, line.rule))
    return HookStats(str(data / "sessions"), since, len(sessions), ordered)


def _line(found: Iterable[tuple[int, event.HooksRan]]) -> RuleFigures:
    times, runs = zip(*found, strict=True)
    durations = [ran.duration for ran in runs]
    return RuleFigures(
        rule=runs[-1].rule,
        event=runs[-1].event,
        evaluator=runs[-1].evaluator,
        runs=len(runs),
        actions=dict(Counter(ran.action for ran in runs)),
        undecided=sum(ran.undecided for ran in runs),
        p50=round(statistics.median(durations)),
        slowest=max(durations),
        tokens=sum(ran.tokens for ran in runs),
        cost=sum(ran.cost or 0.0 for ran in runs),
        unpriced=sum(bool(ran.tokens) and ran.cost is None for ran in runs),
        last=max(times),
    )
