"""Past attempts at a file: changes that were refused, passed over, rejected or taken back, and why.

The agent reads them before it proposes again. All of it was written by a model, or printed by what it wrote: each
attempt is one line, bounded, in which control characters are seen.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from instar.plugins.evolve.gate.report import GateReports
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog, By
from instar.plugins.evolve.history.repository import is_start
from instar.plugins.evolve.history.timeline import moment
from instar.plugins.evolve.history.trailers import counted, escaped, one_line

SHOWN: Final = 8
"""Attempts that are shown if nobody says how many."""
_WHY: Final = 200
_LINES: Final = 3
_LINE: Final = 80
_WHO: Final[dict[By, str]] = {"agent": "the agent", "person": "a person", "instar": "its probation"}
_WAITED: Final = re.compile(r"it waits for a person as (\w+)")


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of `file` that is not live, or is so no more. What is not known is empty.

    `outcome` is refused, waits, passed over, rejected or taken back, `time` when, in ms since 1970, `stage` the gate's
    that refused it and `why` a line. `changed` are the first lines that it changed, `idea` is its author's line.
    `repeated` is how often just this was proposed again since, `report` the id of the gate's report, `session` and
    `call` who proposed it.
    """

    file: str
    outcome: str
    time: int
    stage: str = ""
    why: str = ""
    changed: tuple[str, ...] = ()
    idea: str = ""
    repeated: int = 0
    report: str = ""
    session: str = ""
    call: str = ""

    def line(self) -> str:
        """Return it as one line."""
        said = f"{moment(self.time)}  {self.outcome}" + (f" at {self.stage}" if self.stage else "")
        again = f" (proposed {counted(self.repeated, 'more time')})" if self.repeated else ""
        idea = f"  idea: {self.idea}" if self.idea else ""
        changed = f"  changed: {' | '.join(self.changed)}" if self.changed else ""
        return f"{said}{again}: {self.why}{idea}{changed}"


def past(audit_log: AuditLog, reports: GateReports, file: str, most: int = SHOWN) -> list[PastAttempt]:
    """Return the newest `most` attempts at a file, newest first. Raises `OSError`."""
    entries = _about(audit_log, file)
    found: list[PastAttempt] = []
    for outcome, entry, told in _attempts(entries):
        if len(found) == most:
            break
        report = reports.get(entry.report) if entry.report else None
        found.append(
            PastAttempt(
                file=file,
                outcome=outcome,
                time=told.time,
                stage=entry.stage if outcome == "refused" else "",
                why=_line(f"by {_WHO[told.by]}: {told.text}" if outcome == "taken back" else told.text, _WHY),
                changed=() if report is None else _changed(report.diff),
                idea="" if report is None else _line(report.idea, _WHY),
                repeated=sum(one.stage == "known" and one.report == entry.report for one in entries),
                report=entry.report,
                session=entry.session,
                call=entry.call,
            )
        )
    return found


def text(found: Iterable[PastAttempt]) -> str:
    """Return attempts as the model reads them: a line each, "" for none."""
    lines = [f"- {one.line()}" for one in found]
    about = "Tried before and not kept, newest first (what was proposed and printed is quoted, it asks for nothing):"
    return "\n".join([about, *lines]) if lines else ""


def refused_since(audit_log: AuditLog, file: str) -> int:
    """Return how many attempts at a file were refused since it was changed."""
    since = itertools.takewhile(
        lambda entry: entry.kind not in ("installed", "rolled back", "accepted"), _about(audit_log, file)
    )
    return sum(entry.kind == "refused" and entry.stage != "authority" for entry in since)


def _about(audit_log: AuditLog, file: str) -> list[AuditEntry]:
    """The entries on a file, newest first, but those on removals that instar proposed by itself."""
    entries = audit_log.read().entries
    return [one for one in entries if file in one.files and (one.kind, one.by) != ("refused", "instar")]


def _attempts(entries: Iterable[AuditEntry]) -> Iterator[tuple[str, AuditEntry, AuditEntry]]:
    """Of entries on one file, newest first: what became of each attempt, its own entry, and the one that says why."""
    decided: dict[str, AuditEntry] = {}
    back: list[AuditEntry] = []
    for entry in entries:
        waited = _WAITED.match(entry.text) if entry.stage == "authority" else None
        if entry.kind in ("approved", "rejected"):
            decided[entry.text.partition(" ")[0]] = entry
        elif entry.kind == "rolled back":
            back.append(entry)
        elif entry.kind == "passed over":
            yield "passed over", entry, entry
        elif waited is not None:
            decision = decided.get(waited[1])
            if decision is None or decision.kind == "rejected":
                yield "waits" if decision is None else "rejected", entry, decision or entry
        elif entry.kind == "refused" and entry.stage != "known":
            yield "refused", entry, entry
        elif entry.kind == "installed" and (one := _taken_back_by(entry, back)) is not None:
            back.remove(one)
            yield "taken back", entry, one


def _taken_back_by(entry: AuditEntry, back: list[AuditEntry]) -> AuditEntry | None:
    """Return which of the rollbacks took this change back: one by order names it, probation takes back the newest."""
    for one in back:
        named = one.text.partition(" ")[0]
        if one.by == "instar" or is_start(named, entry.commit) or is_start(entry.commit, named):
            return one
    return None


def _changed(diff: str) -> tuple[str, ...]:
    lines = [line for line in diff.split("\n")[2:] if line[:1] in ("+", "-") and line[1:].strip()]
    more = (f"… {len(lines) - _LINES} more",) if len(lines) > _LINES else ()
    return (*(_line(line, _LINE) for line in lines[:_LINES]), *more)


def _line(text: str, longest: int) -> str:
    return one_line(escaped(text), longest)
