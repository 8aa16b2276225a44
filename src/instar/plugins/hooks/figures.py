"""What each rule has decided, how long it took and what it cost: for ``instar hooks stats`` and the server."""

import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import event, wire
from instar.plugins.hooks import record
from instar.plugins.hooks.line import counted, one_line

_DAY: Final = 86_400_000
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
    return 0 if days is None else _midnight() - days * _DAY


def summed(data: Path, session: str = "", since: int = 0) -> HookStats:
    """Return what the records below `data` come to: of all sessions or one, from `since` (ms) on."""
    runs: dict[tuple[str, str], list[tuple[int, event.HooksRan]]] = {}
    sessions = set()
    for line in record.read(data, session, since):
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
    actions: dict[str, int] = {}
    for ran in runs:
        actions[ran.action] = actions.get(ran.action, 0) + 1
    return RuleFigures(
        rule=runs[-1].rule,
        event=runs[-1].event,
        evaluator=runs[-1].evaluator,
        runs=len(runs),
        actions=actions,
        undecided=sum(ran.undecided for ran in runs),
        p50=round(statistics.median(durations)),
        slowest=max(durations),
        tokens=sum(ran.tokens for ran in runs),
        cost=sum(ran.cost or 0.0 for ran in runs),
        unpriced=sum(bool(ran.tokens) and ran.cost is None for ran in runs),
        last=max(times),
    )


def _midnight() -> int:
    today = time.localtime()
    return int(time.mktime((today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1)) * 1000)
