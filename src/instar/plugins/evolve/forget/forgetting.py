"""Forgetting in a workspace: what is due, its removal proposed through the gate, and taken back once a person agrees.

To remove what the agent made is to take its changes back: the file is as it was before them, or gone. That is tried as
any candidate is, and waits for a person. One that the gate or a person refuses is not proposed again for a half-life.
"""

import asyncio
import logging
import stat
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from instar.plugins.evolve import edit, protocol
from instar.plugins.evolve.attempt import Progress
from instar.plugins.evolve.candidate import Candidate, CandidateRefused, text
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.evals.cases import NAME
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.forget import evidence
from instar.plugins.evolve.forget.due import Due, ForgetTerms, LiveChange, day, due
from instar.plugins.evolve.forget.uses import DAY, CountedUses, PartUse
from instar.plugins.evolve.gate import score
from instar.plugins.evolve.gate.pending import Cause, NotPending, PendingEntry, Proposal
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.report import GateReport
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.history.repository import FAILED, Revision
from instar.plugins.evolve.install import ChangeCause, ChangeInstaller, NotChanged
from instar.plugins.evolve.ledger.install import Changed
from instar.plugins.evolve.ledger.own import is_agents
from instar.plugins.evolve.rollback import Before, Rollback
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile

log = logging.getLogger("instar.evolve")

TOOL: Final = "instar evolve forget"
"""What the log names for a removal that is proposed."""
_CAUSE: Final = ChangeCause(by="instar", tool=TOOL)
_FOLDERS: Final = ("hooks", "prompts")
_LOOKED: Final = "looked"
"""The note that says when it was last looked what is due."""
_DAILY: Final = 3
"""Removals that are proposed in one day without being asked for."""
_WAITS: Final = "authority"
"""The stage at which a removal waits: a person decides."""
_BYTES: Final = 4
"""Bytes of a token."""


class FileUse(msgspec.Struct, frozen=True):
    """A script or prompt of a workspace: how it was used of late, what it costs, and whether it is due.

    `agent`: the live version is the agent's, by its newest `changes`. `last` is when it was of use last (ms since 1970;
    0: never), `calls` and `used` are numbers of the days that were asked for, `parts` the same by hook and tool.
    `tokens` is what a request carries of a script's tools, or the length of a prompt; `ms` the median of its recorded
    calls (None: none is recorded). `breaks` counts its changes that altered a tool: each broke the prompt cache of the
    sessions that were open. `why` it is due, "" where it is not; `takes_back` is the commit that its removal takes
    back. `state` says what became of that: that it waits, or was refused and until when.
    """

    file: str
    agent: bool
    last: int
    calls: int
    used: int
    tokens: int
    ms: float | None
    breaks: int
    parts: dict[str, PartUse]
    changes: list[LiveChange]
    why: str = ""
    takes_back: str = ""
    state: str = ""


class Proposed(msgspec.Struct, frozen=True):
    """What became of a removal: it waits for a person under `id`, or `id` is "" and `text` says why not."""

    file: str
    id: str
    text: str


class Forgetting:
    """Looks what is due in one workspace, and proposes to remove it."""

    def __init__(
        self,
        storage: Storage,
        scripts: Scripts,
        evolution: Evolver,
        rollback: Rollback,
        change_installer: ChangeInstaller,
        config: EvolveConfig,
    ) -> None:
        self._storage = storage
        self._scripts = scripts
        self._evolution = evolution
        self._rollback = rollback
        self._change_installer = change_installer
        self._config = config

    # -- what is due -----------------------------------------------------------------------------------

    async def look(self, days: int | None = None) -> list[FileUse]:
        """Return all scripts and prompts, those first that are due. `days` stands in for ``evolve.forget_days``.

        Raises `OSError`, `git.GitError` and `process.ProcessError`.
        """
        days = self._config.forget_days if days is None else days
        usage = self._storage.uses.read(days or self._config.half_life_days)
        changes, tools = await self.changes(), self._tools()
        terms = ForgetTerms(days, self._config.half_life_days, self._evals())
        found = {one.file: one for one in due(changes, usage, tools, _now(), terms)}
        resting, records = self._resting(), (await self._storage.records.read()).records
        files = [path for path in self._storage.ledger.files if path.partition("/")[0] in _FOLDERS]
        return [
            _row(
                path,
                usage,
                tools.get(path, 0) + self._text(path, records),
                [one.duration for one in records if f"hooks/{one.script}" == path],
                changes.get(path, []),
                found.get(path),
                resting.get(path, ""),
            )
            for path in sorted(files, key=lambda path: (path not in found, path))
        ]

    async def changes(self) -> dict[str, list[LiveChange]]:
        """Return the agent's changes that are live, by file and newest first. Raises as `look`.

        A version that came again took back what was between. A file whose live version git does not have is left out.
        """
        storage = self._storage
        paths = [path for path in storage.own.changed if path.partition("/")[0] in _FOLDERS]
        if not paths:
            return {}
        blobs, kept = await storage.revisions.blobs(_FOLDERS), self._kept()
        stacks: dict[str, list[tuple[str, Revision | None]]] = defaultdict(lambda: [("", None)])
        for one in reversed(await storage.revisions.touching(_FOLDERS)):
            for path, blob in blobs.get(one.id, {}).items():
                _put(stacks[path], blob, one)
        found = {}
        for path in paths:
            live = [one for _, one in stacks[path] if one is not None]
            if live and stacks[path][-1][0] == self._change_installer.version(path):
                found[path] = [_accepted(one, kept.get(path, 0)) for one in reversed(live)]
        return found

    def _tools(self) -> dict[str, int]:
        """Return about how many tokens of a request are each script's tools."""
        return {
            f"hooks/{one.file}": sum(
                len(msgspec.json.encode((tool.full, tool.description, tool.parameters))) for tool in one.tools
            )
            // _BYTES
            for one in self._scripts.registrations
        }

    def _text(self, path: str, records: Sequence[HookCallRecord]) -> int:
        """Return about how many tokens a prompt has, or what a script said last for the system prompt."""
        if path.startswith("prompts/"):
            return len(self._storage.ledger.good(path) or b"") // _BYTES
        for one in records:
            if (f"hooks/{one.script}", one.hook) == (path, "mutate_request") and one.answer is not None:
                return sum(len(part.encode()) for part in protocol.texts(one.answer, "system")) // _BYTES
        return 0

    def _evals(self) -> frozenset[str]:
        """Return the names of the accepted evals; those that are files are one."""
        files = self._storage.ledger.files.items()
        evals = {path.partition("/")[2]: one for path, one in files if path.startswith(f"{score.FOLDER}/")}
        programs = {name for name, one in evals.items() if one.mode & stat.S_IXUSR}
        return frozenset(programs | {NAME for name in evals if name.endswith(".md")})

    def _kept(self) -> dict[str, int]:
        """Return when each file passed a probation last."""
        entries = reversed(self._storage.audit_log.read().entries)
        return {file: one.time for one in entries if one.kind == "kept" for file in one.files}

    def _resting(self) -> dict[str, str]:
        """Return by file why its removal is not proposed now: it waits, or it was refused not long ago."""
        rest = (self._config.half_life_days or self._config.forget_days) * DAY
        since = _now() - rest
        said: dict[str, str] = {}
        for entry in self._storage.audit_log.read().entries:
            if (
                entry.kind == "refused"
                and entry.tool == TOOL
                and entry.stage != _WAITS
                and entry.time > since
            ):
                until = day(entry.time + rest)
                why = f"the gate refused it ({entry.stage}); it is not proposed until {until}"
                said |= dict.fromkeys(entry.files, why)
        for one in self._storage.pending.list().entries:
            if not one.proposal.takes_back:
                continue
            if one.decision is None and one.stale(self._change_installer.version(one.proposal.file)) is None:
                said[one.proposal.file] = f"waits as {one.id}"
            elif one.decision is not None and one.decision.time > since:
                until = day(one.decision.time + rest)
                said[one.proposal.file] = f"a person rejected it; it is not proposed until {until}"
        return said

    # -- proposing -------------------------------------------------------------------------------------

    async def daily(self) -> None:
        """Propose what is due, at most once a day and `_DAILY` of it. What is cut short is begun again.

        Not in a workspace that workers share: each counts its own uses alone.
        """
        before, now = self._storage.note(_LOOKED) or 0, _now()
        off = self._config.remote or not (self._config.forget_days or self._config.half_life_days)
        if off or 0 <= now - before < DAY:
            return
        self._storage.keep(_LOOKED, now, durable=False)
        try:
            self._storage.uses.prune()
            rows = [one for one in await self.look() if one.why and not one.state]
            waiting = 0
            while rows and waiting < _DAILY:
                row = rows.pop(0)
                done = await self.propose(row.file, row.takes_back, row.why)
                waiting += bool(done.id)
                log.info("evolve=forget file=%s waits=%s text=%r", done.file, done.id, done.text)
        except asyncio.CancelledError:
            self._storage.keep(_LOOKED, before, durable=False)
            raise
        except (OSError, *FAILED) as error:
            log.warning("evolve=forget problem=%r", str(error))

    async def propose(
        self, file: str, commit: str, why: str, said: Progress = lambda stage: None
    ) -> Proposed:
        """Try to take the change `commit` of `file` back, and let that wait for a person."""
        try:
            await self._evolution.may_change(file, _CAUSE)
            base = self._change_installer.version(file)
            trial = await self._tried(file, commit, said)
            proposal = trial.proposal(base, commit, why)
            entry = await asyncio.to_thread(self._put, proposal)
        except CandidateRefused as error:
            await self._told(
                GateReport(file=file, outcome="refused", stage=error.stage, text=str(error)), why
            )
            return Proposed(file, "", f"the gate refused it at {error.stage}: {error}")
        except (NotChanged, NotPending, *FAILED) as error:
            return Proposed(file, "", str(error))
        waits = f"it waits for a person as {entry.id}"
        await self._told(trial.report(waits, proposal), why)
        return Proposed(file, entry.id, f"{waits}: {why}")

    async def approve(self, entry: PendingEntry, who: str, said: Progress) -> Changed:
        """Take back what waits, once it passed the gate again.

        Raises `NotPending`, `CandidateRefused` and `NotChanged`.
        """
        asked = entry.proposal
        if stale := entry.stale(self._change_installer.version(asked.file)):
            raise NotPending(stale)
        trial = await self._tried(asked.file, asked.takes_back, said)
        if more := set(trial.verdict.raised) - set(asked.raised):
            raise NotChanged(f"{entry.id} would come to more than was approved: {'; '.join(sorted(more))}")

        async def check(change: Revision, before: Before) -> None:
            if stale := entry.stale(self._change_installer.version(asked.file)):
                raise NotChanged(stale)

        person = ChangeCause(by="person", tool=TOOL)
        self._change_installer.happened("approved", person, [asked.file], f"{entry.id} by {who}")
        changed = await self._rollback.roll_back(asked.takes_back, person, check)
        await asyncio.to_thread(self._storage.pending.remove, entry.id)
        return changed

    def _put(self, proposal: Proposal) -> PendingEntry:
        """Let a proposal wait in the place of one for the same that was rejected. Raises `NotPending`."""
        pending = self._storage.pending
        for one in pending.list().entries:
            same = (one.proposal.file, one.proposal.takes_back) == (proposal.file, proposal.takes_back)
            if same and one.decision is not None:
                pending.remove(one.id)
        return pending.put(proposal)

    async def _tried(self, file: str, commit: str, said: Progress) -> "_Trial":
        """Take the version before a change through the gate.

        Raises `CandidateRefused`, `NotChanged`, `git.GitError` and `process.ProcessError`.
        """
        revision = await self._storage.revisions.find(commit)
        before = await self._rollback.before(revision)
        self._demand_agents(revision, before)
        ledger = self._storage.ledger
        live, content = ledger.files[file], ledger.good(file)
        if content is None or any(one.path in before.files for one in ledger.check()):
            raise NotChanged(f"{file} was changed behind the gate: a person must accept or restore it first")
        candidate = Candidate(
            file,
            TrialFile(content, live.mode),
            before.files[file] or TrialFile(b""),
            {path: one for path, one in before.files.items() if one is not None and path != file},
            gone=tuple(path for path, one in before.files.items() if one is None),
        )
        context = await self._evolution.candidates.context(candidate)
        # Older calls are what is to be forgotten.
        since = _now() - (self._config.forget_days or self._config.half_life_days) * DAY
        late = [one for one in context.records if one.at > since]
        context = msgspec.structs.replace(context, records=late)
        return _Trial(candidate, await self._evolution.judge(candidate, context, said))

    def _demand_agents(self, change: Revision, before: Before) -> None:
        """Raise `NotChanged` where a file that goes with the change is a person's since."""
        left = self._storage.ledger.left
        if before.sides is None:
            raise NotChanged(
                f"{change.short} was not made here: a person can do it with: instar evolve rollback {change.short}"
            )
        theirs = [path for path in before.files if before.sides[1][1].get(path) != left.get(path)]
        if theirs:
            raise NotChanged(
                f"a person changed {', '.join(theirs)} since: they can take the change back with: "
                f"instar evolve rollback {change.short}"
            )

    async def _told(self, report: GateReport, why: str) -> None:
        kept = self._storage.reports.add(report)
        about = f"its removal ({why}): {report.text}"
        times = {one.name: one.ms for one in report.stages}
        await self._change_installer.refused(report.file, _CAUSE, report.stage, about, times, kept)


class _Trial(msgspec.Struct, frozen=True):
    """A removal that passed the gate."""

    candidate: Candidate
    verdict: GateVerdict

    def proposal(self, base: str, commit: str, why: str) -> Proposal:
        """Return it for a person, to be decided on."""
        candidate, verdict = self.candidate, self.verdict
        assert candidate.before is not None
        after = text(candidate.after.content)
        return Proposal(
            file=candidate.path,
            base=base,
            content=after,
            raised=(why, *verdict.raised),
            cause=Cause(tool=TOOL),
            also={path: text(one.content) for path, one in candidate.also.items()},
            diff=edit.diff(candidate.path, text(candidate.before.content), after),
            test=verdict.test or "",
            replay=verdict.replay.text() if verdict.replay is not None else "",
            score=verdict.score.text() if verdict.score is not None else "",
            takes_back=commit,
        )

    def report(self, waits: str, proposal: Proposal) -> GateReport:
        """Return what the gate found on it, and that it waits."""
        return GateReport(
            file=self.candidate.path,
            outcome="waits",
            stage=_WAITS,
            cause=proposal.cause,
            text=waits,
            diff=proposal.diff,
            stages=self.verdict.stages,
            ms=self.verdict.ms,
            test=proposal.test,
            raised=proposal.raised,
        )


def _put(stack: list[tuple[str, Revision | None]], blob: str, change: Revision) -> None:
    """Put a version on a file's stack, whose bottom is what a person left."""
    at = next((at for at, (known, _) in enumerate(stack) if known == blob), None)
    if at is not None:
        del stack[at + 1 :]
    elif is_agents(change):
        stack.append((blob, change))
    else:
        stack[:] = [(blob, None)]


def _accepted(change: Revision, kept: int) -> LiveChange:
    said = change.trailers
    passed = kept if kept >= change.time else 0
    return LiveChange(change.id, said.epoch, change.time, evidence.read(said.evidence), passed)


def _row(
    path: str,
    usage: CountedUses,
    tokens: int,
    took: Sequence[int],
    changes: Sequence[LiveChange],
    found: Due | None,
    state: str,
) -> FileUse:
    parts = dict(usage.files.get(path, {}))
    return FileUse(
        path,
        agent=bool(changes),
        last=max((one.last for one in parts.values()), default=0),
        calls=sum(one.calls for one in parts.values()),
        used=sum(one.used for one in parts.values()),
        tokens=tokens,
        ms=median(took) if took else None,
        breaks=sum(any(item.kind == "tool" for item in one.evidence) for one in changes),
        parts=parts,
        changes=list(changes),
        why="" if found is None else found.why,
        takes_back="" if found is None else found.commit,
        state="" if found is None else state,
    )


def _now() -> int:
    return int(time.time() * 1000)
