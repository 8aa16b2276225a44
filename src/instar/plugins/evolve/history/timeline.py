"""The timeline of a workspace: who changed what, when, by which call, and what the gate said.

Two sources are merged: the commits of its repository with their trailers, and the chronicle for what left no commit. An
entry that names a commit is told with it.
"""

import heapq
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.history.repository import FAILED, Revision, Revisions, is_start
from instar.plugins.evolve.history.trailers import counted, one_line, plain

SEARCHED: Final = 1000
"""Changes that are looked through for those of one file, or of one session."""

_OF_A_COMMIT = frozenset(("installed", "rolled back", "accepted"))
_ORDERED = frozenset(("agent", "person", "instar"))


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the timeline.

    `kind` is the chronicle's, or ``changed`` for a commit of which it knows nothing; `by` is agent, person or instar,
    `time` in ms since 1970. `author` is git's, `tool` the tools that ran, `cost` the ms that the gate took, `gate` a
    line a stage, `rolled_back_by` the commits that took it back (in `show`). The rest as in `trailers` and `chronicle`.
    """

    kind: str
    by: str
    time: int
    commit: str = ""
    author: str = ""
    subject: str = ""
    tool: str = ""
    files: list[str] = []
    session: str = ""
    call: str = ""
    message: str = ""
    beside: list[str] = []
    agent: str = ""
    epoch: int | None = None
    gate: list[str] = []
    cost: int | None = None
    cause: str = ""
    expect: str = ""
    evidence: list[str] = []
    rolls_back: str = ""
    rolled_back_by: list[str] = []
    stage: str = ""
    text: str = ""
    report: str = ""

    def line(self) -> str:
        """Return it as one line: commit, time, who, epoch, what."""
        epoch = "" if self.epoch is None else f"@{self.epoch} "
        what = self.subject or ", ".join(self.files) or one_line(self.text)
        kind = "" if self.kind == "changed" else f"{self.kind}: " if what else self.kind
        return f"{self.commit[:7] or '-':7}  {moment(self.time)}  {self.by:6}  {epoch}{kind}{one_line(what, 200)}"

    def details(self) -> list[str]:
        """Return what more is known, a line each."""
        made = [("session", self.session), ("message", self.message), ("call", self.call)]
        made += [("agent", self.agent)]
        told = [
            ("", ", ".join(f"{name} {value}" for name, value in made if value)),
            ("beside", ", ".join(self.beside)),
            ("gate", "; ".join(self.gate) + ("" if self.cost is None else f" ({self.cost} ms in all)")),
            ("stage", self.stage),
            ("text", one_line(self.text, 400)),
            ("cause", self.cause),
            ("expect", self.expect),
            ("evidence", "; ".join(self.evidence)),
            ("rolls back", self.rolls_back),
            ("rolled back by", ", ".join(self.rolled_back_by)),
        ]
        return [f"{name}: {value.strip()}" if name else value for name, value in told if value.strip()]


class Timeline(msgspec.Struct, frozen=True):
    """Changes, newest first; `problems` say what could not be read."""

    changes: list[Change]
    problems: list[str] = []

    def text(self) -> str:
        """Return it for a terminal: a line a change, what is known of it below."""
        lines = [f"problem: {one_line(problem)}" for problem in self.problems]
        for change in self.changes:
            lines += [change.line(), *(f"         {detail}" for detail in change.details())]
        return "\n".join(lines)


class Shown(msgspec.Struct, frozen=True):
    """One commit: the change, its diff, of which `cut` characters are left out, and what else the chronicle tells."""

    change: Change
    diff: str
    cut: int
    events: list[Change]

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [self.change.line(), *self.change.details(), *(f"event: {one.line()}" for one in self.events)]
        lines += [f"file: {one_line(file)}" for file in self.change.files]
        return "\n".join([*lines, "", self.diff_text()])

    def diff_text(self) -> str:
        """Return the diff for a terminal, and how much of it is left out."""
        left = f"\n... {self.cut} more characters: git show {self.change.commit}" if self.cut else ""
        return plain(self.diff).rstrip("\n") + left


class Compared(msgspec.Struct, frozen=True):
    """What differs from the version `old` of the workspace to `new`: a diff, of which `cut` characters are left out."""

    old: Change
    new: Change
    diff: str
    cut: int


class TimelinePage(msgspec.Struct, frozen=True):
    """Which changes are wanted: `limit` of them after the newest `offset`, only those of a file or of a session.

    `file` is a path in the workspace, or the name of a file alone. Among `SEARCHED` changes those of a file or a
    session are looked for.
    """

    limit: int
    offset: int = 0
    file: str = ""
    session: str = ""

    def takes(self, change: Change) -> bool:
        """Whether a change is one of those that are counted."""
        names = [name for path in change.files for name in (path, path.rpartition("/")[2])]
        return (not self.file or self.file in names) and self.session in ("", change.session)


async def page(revisions: Revisions, audit_log: AuditLog, wanted: TimelinePage) -> Timeline:
    """Return the changes that are wanted. What cannot be read stands in `problems`; the rest is told all the same."""
    told = audit_log.read()
    problems = [told.problem] if told.problem else []
    if told.broken:
        problems.append(f"left out of the chronicle: {counted(told.broken, 'damaged line')}")
    try:
        most = SEARCHED if wanted.file or wanted.session else wanted.offset + wanted.limit
        commits = await revisions.newest(most)
    except FAILED as error:
        commits = []
        problems.append(str(error))
    found = [one for one in merge(commits, told.entries) if wanted.takes(one)]
    return Timeline(found[wanted.offset : wanted.offset + wanted.limit], problems)


async def show(revisions: Revisions, audit_log: AuditLog, ref: str, longest: int = 100_000) -> Shown:
    """Return the change that `ref` names with up to `longest` characters of its diff.

    Raises `repository.NoSuchChange`, `git.GitError`, and `process.ProcessError`.
    """
    found = await revisions.find(ref)
    entries = audit_log.read().entries
    own = next((one for one in entries if _is_told_with(one, found)), None)
    others = [one for one in entries if one is not own and _concerns(one, found)]
    back = [one.id for one in await revisions.taking_back(found.id)]
    try:
        diff = await revisions.diff(found.id)
    except FAILED as error:
        diff = f"the diff cannot be shown: {error}"
    change = msgspec.structs.replace(of_commit(found, own), rolled_back_by=back)
    return Shown(change, diff[:longest], max(0, len(diff) - longest), [of_entry(one) for one in others])


async def compare(
    revisions: Revisions, old: str, new: str, file: str = "", longest: int = 100_000
) -> Compared:
    """Return what differs between the versions that two refs name, in all files or below `file`.

    Raises as `show`, also where git cannot say it.
    """
    before, after = await revisions.find(old), await revisions.find(new)
    diff = await revisions.between(before.id, after.id, [file] if file else [])
    return Compared(of_commit(before), of_commit(after), diff[:longest], max(0, len(diff) - longest))


def merge(commits: Sequence[Revision], entries: Sequence[AuditEntry]) -> list[Change]:
    """Merge commits and entries, both newest first, by time; each keeps its own order whatever its clock said."""
    by_start: dict[str, Revision] = {one.id[:7]: one for one in commits}
    told: dict[str, AuditEntry] = {}
    alone = []
    for entry in entries:
        commit = by_start.get(entry.commit[:7])
        if commit is not None and commit.id not in told and _is_told_with(entry, commit):
            told[commit.id] = entry
        else:
            alone.append(of_entry(entry))
    made = [of_commit(one, told.get(one.id)) for one in commits]
    return list(heapq.merge(made, alone, key=lambda change: -change.time))


def of_commit(commit: Revision, entry: AuditEntry | None = None) -> Change:
    """Return a commit as a change, with what the chronicle's entry adds."""
    told = {} if entry is None else msgspec.structs.asdict(entry)
    said = {
        name: value
        for name, value in msgspec.structs.asdict(commit.trailers).items()
        if value not in ("", None)
    }
    made = {
        "kind": told.get("kind") or ("rolled back" if commit.trailers.rolls_back else "changed"),
        "by": _by(commit, entry),
        "time": told.get("time", commit.time),
        "commit": commit.id,
        "author": commit.author,
        "subject": commit.subject,
        "tool": _tools(commit.subject) if commit.trailers.call else "",
        "files": commit.files,
        "stage": "",
    }
    return msgspec.convert({**told, **said, **made}, Change)


def of_entry(entry: AuditEntry) -> Change:
    """Return an entry of the chronicle as a change."""
    return msgspec.convert(msgspec.structs.asdict(entry), Change)


def moment(time: int) -> str:
    """Return a time in ms since 1970 as this machine's local date and time."""
    try:
        return datetime.fromtimestamp(time / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "at no known time"


def _is_told_with(entry: AuditEntry, commit: Revision) -> bool:
    return entry.kind in _OF_A_COMMIT and is_start(entry.commit, commit.id)


def _concerns(entry: AuditEntry, commit: Revision) -> bool:
    """Whether an entry names the commit, or the tool call that made it."""
    call = commit.trailers.call
    return is_start(entry.commit, commit.id) or bool(
        call and entry.call == call and entry.session == commit.trailers.session
    )


def _by(commit: Revision, entry: AuditEntry | None) -> str:
    if commit.trailers.by in _ORDERED:
        return commit.trailers.by
    if entry is not None:
        return entry.by
    return "agent" if commit.trailers.call else "person"


def _tools(subject: str) -> str:
    """The tools at the start of a subject: names joined by commas, then what they worked on."""
    words = subject.split(" ")
    ends = next((at for at, word in enumerate(words) if not word.endswith(",")), len(words) - 1)
    return " ".join(words[: ends + 1])
