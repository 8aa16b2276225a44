"""How a change of the workspace goes: a machine of the steps that docs/evolve.md shows in its picture.

One change at a time. Whoever makes it, it is one commit and one epoch (`ledger.install`).
"""

import asyncio
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from instar.plugin import accepted
from instar.plugins.evolve import edit
from instar.plugins.evolve.candidate import (
    Candidate,
    CandidateRefused,
    Candidates,
    Change,
    GateContext,
    text,
)
from instar.plugins.evolve.database import LOST
from instar.plugins.evolve.discovery import collisions
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.forget import evidence
from instar.plugins.evolve.gate import authority, pending, replay, score, stages
from instar.plugins.evolve.gate.report import GateReport, Outcome, StagePassed
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.commits import WorkspaceCommit
from instar.plugins.evolve.history.pins import BadPin
from instar.plugins.evolve.history.repository import whole
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
)
from instar.plugins.evolve.points import CandidateInput
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import Bench, Changes, NoTrial, TrialFile
from instar.plugins.evolve.workspace import visible

Gate = Literal["parse", "test", "replay", "score", "authority"]
End = Literal["kept", "taken_back", "refused", "rejected"]
Step = Literal["read", "candidate"] | Gate | Literal["permission", "waiting", "install", "probation"] | End
"""Where a change stands.

An exception (`CandidateRefused`, `NotChanged`) takes it to `refused`, and a person one that waits to `rejected`. What
leaves `probation` is the calls of the version that is live now: `Observer.told` keeps it, or `Rollback.settle` takes it
back.
"""

_FROZEN: Final = "frozen"
_NAMED: Final = 5
"""Files that a refusal names."""
_WHOLE: Final = 60.0
"""Seconds that the evals of one candidate may take in all."""

Progress = Callable[[str], None]
"""Hears of each stage of the gate as it begins."""


class Waits(NotChanged):
    """A candidate that waits for a person under the id `id`."""

    def __init__(self, id: str, text: str) -> None:  # noqa: A002 - the word that a person types
        super().__init__(text)
        self.id = id


class Installed(msgspec.Struct, frozen=True):
    """A change that went live: its commit (None: git failed) and what the gate found."""

    path: str
    diff: str
    epoch: int
    verdict: GateVerdict
    commit: WorkspaceCommit | None = None


@dataclass
class ChangeAttempt:
    """A change on its way. Each step adds what it found; what a step has not come to yet is not there.

    `approval` is what a person, `who`, has allowed.
    """

    path: str
    change: Change
    cause: ChangeCause
    said: Progress = lambda stage: None
    expect: Prediction | None = None
    also: Mapping[str, TrialFile] = field(default_factory=dict)
    approval: pending.PendingEntry | None = None
    who: str = ""
    verdict: GateVerdict = field(default_factory=GateVerdict)
    candidate: Candidate = field(init=False)
    context: GateContext = field(init=False)
    bench: Bench = field(init=False)
    registered: stages.Registered | None = None
    installed: Installed = field(init=False)
    begun: float = field(default_factory=time.monotonic)

    @property
    def changed(self) -> dict[str, TrialFile | None]:
        """What is different in a copy of the workspace with the candidate in place."""
        return {**self.context.restored, **self.candidate.changes}

    @property
    def before(self) -> str | None:
        """The text that it replaces."""
        return None if self.candidate.before is None else text(self.candidate.before.content)

    @property
    def diff(self) -> str:
        """What it changes."""
        return edit.diff(self.path, self.before or "", text(self.candidate.after.content))

    def report(self, outcome: Outcome, stage: str = "", why: str = "") -> GateReport:
        """Return the report of what the gate found so far, and of what became of it."""
        found = self.verdict
        return GateReport(
            file=self.path,
            outcome=outcome,
            cause=_kept(self.cause),
            stage=stage,
            text=trailers.ends(why),
            diff=trailers.ends(self.diff),
            stages=found.stages,
            ms=round((time.monotonic() - self.begun) * 1000),
            test=found.test or "",
            replay=None if found.replay is None else found.replay.plain(),
            score=() if found.score is None else found.score.lines,
            granted=self.context.grant,
            asked=None if found.held is None else found.held.authority,
            raised=found.raised,
            prediction=msgspec.to_builtins(self.candidate.expect),
        )


class Evolver:
    """Changes of one workspace, one at a time: `lock` is held meanwhile.

    `object` returns why another plugin objects to a candidate that passed its trials, "" when none does.
    """

    def __init__(
        self,
        storage: Storage,
        policy: ExecutionPolicy,
        candidates: Candidates,
        change_installer: ChangeInstaller,
        observer: Observer,
        object: Callable[[CandidateInput], Awaitable[str]],  # noqa: A002 - the verb
    ) -> None:
        self._storage = storage
        self._policy = policy
        self.candidates = candidates
        self._change_installer = change_installer
        self._observer = observer
        self._object = object
        self.lock = asyncio.Lock()
        self._steps: dict[Step, Callable[[ChangeAttempt], Awaitable[Step]]] = {
            "read": self._read,
            "candidate": self._candidate,
            "parse": _stage("parse", _parse, "test"),
            "test": _stage("test", _test, "replay"),
            "replay": _stage("replay", _replay, "score"),
            "score": _stage("score", _score, "authority"),
            "authority": _stage("authority", _authority, "permission"),
            "permission": self._permission,
            "waiting": self._waiting,
            "install": self._install,
        }

    async def _go(self, attempt: ChangeAttempt, step: Step, until: Step = "probation") -> None:
        """Take an attempt on from `step` until it stands at `until`. Raises where it goes elsewhere."""
        while step != until:
            step = await self._steps[step](attempt)

    # -- ways in ---------------------------------------------------------------------------------------

    async def validate(self, path: str, content: str) -> GateVerdict:
        """Take a new whole text of a file through the gate without installing it.

        Raises `CandidateRefused` and `NotChanged`.
        """
        attempt = ChangeAttempt(path, lambda before: content, ChangeCause())
        await self._go(attempt, "candidate", "permission")
        return attempt.verdict

    async def judge(self, candidate: Candidate, context: GateContext, said: Progress) -> GateVerdict:
        """Take a candidate through the gate's stages. Raises `CandidateRefused`."""
        attempt = ChangeAttempt(candidate.path, lambda before: before, ChangeCause(), said)
        attempt.candidate, attempt.context, attempt.bench = candidate, context, await self._policy.bench()
        await self._go(attempt, "parse", "permission")
        return attempt.verdict

    async def change(
        self,
        path: str,
        change: Change,
        cause: ChangeCause,
        expect: Prediction | None = None,
        also: Mapping[str, TrialFile] | None = None,
    ) -> Installed:
        """Change the file at `path` of the workspace, if its candidate passes the gate.

        Raises `CandidateRefused`, `Waits` when a person must allow it first, and `NotChanged`.
        """
        async with self.lock:
            attempt = ChangeAttempt(path, change, cause, expect=expect, also=also or {})
            try:
                await self._go(attempt, "read")
            except CandidateRefused as error:
                await self._refused(attempt, error.stage, str(error))
                raise
            return attempt.installed

    async def approve(
        self,
        id: str,  # noqa: A002 - the word that a person types
        who: str,
        said: Progress = lambda stage: None,
    ) -> Installed:
        """Install what waits under `id`: a person allows what it raises. It is judged once more before.

        Raises `pending.NotPending`, `CandidateRefused` and `NotChanged`.
        """
        async with self.lock:
            entry = await asyncio.to_thread(self._storage.pending.get, id)
            proposal = entry.proposal
            cause = _cause(proposal.cause)
            attempt = ChangeAttempt(
                proposal.file, lambda before: proposal.content, cause, said, approval=entry, who=who
            )
            await self._go(attempt, "waiting")
            await asyncio.to_thread(self._storage.pending.remove, id)
            return attempt.installed

    async def reject(self, id: str, who: str, why: str = "") -> pending.PendingEntry:  # noqa: A002 - as above
        """Refuse what waits under `id` for good. Raises `pending.NotPending`."""
        path = (await asyncio.to_thread(self._storage.pending.get, id)).proposal.file
        entry = await asyncio.to_thread(self._storage.pending.reject, id, who)
        said = f"{id} by {who}: {why}" if why else f"{id} by {who}"
        self._change_installer.happened("rejected", ChangeCause(by="person"), [path], said)
        return entry

    # -- freezing --------------------------------------------------------------------------------------

    async def freeze(self, why: str = "") -> None:
        """Change nothing until a person thaws it. Raises `OSError`."""
        self._storage.keep(_FROZEN, {"why": why or "a person froze it"})
        self._change_installer.happened("frozen", ChangeCause(by="person"), [], why)

    async def thaw(self) -> None:
        """Let evolve change again what was frozen by a person, or by too many failures. Raises `OSError`."""
        self._storage.keep(_FROZEN, None)
        self._storage.keep(LOST, "")
        self._observer.thaw()
        self._change_installer.happened("thawed", ChangeCause(by="person"), [], "")

    async def frozen(self) -> str:
        """Return why nothing may change now; empty when it may."""
        if self._storage.safe is not None:
            return self._storage.safe.why
        kept = self._storage.note(_FROZEN)
        if isinstance(kept, dict):
            return f"changes are frozen: {kept.get('why')}; a person can end it with: instar evolve thaw"
        if doubt := self._storage.database.doubt():
            return (
                f"changes are frozen: {doubt}; once a person has looked, they end it with: instar evolve thaw"
            )
        return self._observer.frozen() or await self._policy.frozen()

    async def may_change(self, path: str, cause: ChangeCause) -> None:
        """Raise `NotChanged` when the file may not be changed now by whoever wants to; a person always may."""
        if cause.by == "person":
            return
        why = await self.frozen()
        if why:
            raise NotChanged(f"{path} was not changed: {why}")
        try:
            pin = self._storage.pins.find(path)
        except BadPin as error:
            raise NotChanged(f"{path} was not changed: {error}") from None
        if pin is not None:
            raise NotChanged(f"{path} was not changed: it is pinned by {pin.by or 'a person'}")

    # -- the steps -------------------------------------------------------------------------------------

    async def _read(self, attempt: ChangeAttempt) -> Step:
        await self.may_change(attempt.path, attempt.cause)
        return "candidate"

    async def _candidate(self, attempt: ChangeAttempt) -> Step:
        candidates = self.candidates
        attempt.candidate = candidates.make(attempt.path, attempt.change, attempt.expect, attempt.also)
        attempt.context = await candidates.context(attempt.candidate)
        attempt.bench = await self._policy.bench()
        return "parse"

    async def _permission(self, attempt: ChangeAttempt) -> Step:
        """Other plugins may refuse what passed its trials; what it raises a person must have allowed."""
        if attempt.approval is not None:
            return await self._approved(attempt, attempt.approval)
        why = await self._object(
            CandidateInput(
                path=attempt.path,
                before=attempt.before,
                after=text(attempt.candidate.after.content),
                diff=attempt.diff,
                raised=list(attempt.verdict.raised),
                tool=attempt.cause.tool,
                session_id=attempt.cause.session,
                call_id=attempt.cause.call,
                agent=attempt.cause.agent,
            )
        )
        if why:
            raise CandidateRefused("hooks", why)
        if attempt.verdict.raised:
            raise await self._waits(attempt)
        return "install"

    async def _approved(self, attempt: ChangeAttempt, entry: pending.PendingEntry) -> Step:
        if not entry.is_of(self._proposal(attempt)):
            raise NotChanged(
                f"{entry.id} would reach something else now than was approved: "
                f"{'; '.join(attempt.verdict.raised) or 'nothing'}; let it be proposed again"
            )
        attempt.cause = msgspec.structs.replace(attempt.cause, by="person")
        self._change_installer.happened(
            "approved", attempt.cause, [attempt.path], f"{entry.id} by {attempt.who}"
        )
        return "install"

    async def _waiting(self, attempt: ChangeAttempt) -> Step:
        assert attempt.approval is not None
        if why := attempt.approval.stale(self._change_installer.version(attempt.path)):
            raise pending.NotPending(why)
        proposal = attempt.approval.proposal
        attempt.also = {name: TrialFile(new.encode(), 0o755) for name, new in proposal.also.items()}
        if proposal.prediction is not None:  # it was valid when it was made
            attempt.expect = msgspec.convert(proposal.prediction, Prediction)
        return "candidate"

    async def _install(self, attempt: ChangeAttempt) -> Step:
        await whole(self._made_live(attempt))
        return "probation"

    async def _made_live(self, attempt: ChangeAttempt) -> None:
        storage, path, cause = self._storage, attempt.path, attempt.cause
        candidate, verdict = attempt.candidate, attempt.verdict
        old, new = self._change_installer.version(path), accepted.blob_id(candidate.after.content)
        if verdict.held is not None and verdict.settled is not None:
            # First, so that no crash leaves a version of the agent's that runs as the person's own.
            storage.grants.expect(candidate.file, new, verdict.held, old, verdict.settled)
        said = trailers.Trailers(
            by="person" if cause.by == "person" else "",
            epoch=storage.ledger.next_epoch,
            gate=[f"{stage.name}: {stage.found} ({stage.ms} ms)" for stage in verdict.stages],
            cost=verdict.ms,
            expect="" if candidate.expect is None else msgspec.json.encode(candidate.expect).decode(),
            evidence=evidence.found(verdict, attempt.context.live, candidate.expect, attempt.who),
        )
        subject = f"{cause.tool or 'instar evolve'} {candidate.file}"
        try:
            with self._observer.trying(path, old, new, candidate.expect):
                changed = await self._change_installer.make(
                    candidate.changes, subject, called_by(cause, said)
                )
        except NotChanged as error:
            await self._refused(attempt, "install", str(error))
            raise
        if verdict.settled is not None:
            storage.grants.settle(candidate.file, verdict.settled)
        learned = verdict.learned(attempt.context.live, attempt.diff)
        report = storage.reports.add(attempt.report("installed"))
        await self._change_installer.installed(changed, cause, verdict.times, learned, report)
        attempt.installed = Installed(path, attempt.diff, changed.epoch, verdict, changed.commit)

    async def _waits(self, attempt: ChangeAttempt) -> NotChanged:
        """Let a candidate wait for a person."""
        path = attempt.path
        try:
            entry = await asyncio.to_thread(self._storage.pending.put, self._proposal(attempt))
        except pending.NotPending as error:
            return NotChanged(f"{path} was not changed: {error}")
        raised = "\n".join(f"- {sentence}" for sentence in attempt.verdict.raised)
        if entry.state == "rejected":
            return NotChanged(
                f"{path} was not changed: a person has rejected just this ({entry.id}).\n{raised}"
            )
        await self._refused(
            attempt, "authority", f"it waits for a person as {entry.id}: {raised}", outcome="waits"
        )
        return Waits(
            entry.id,
            f"{path} was not changed. It waits for a person as {entry.id} (instar evolve pending {entry.id}).\n"
            f"It passed its trials, but it would reach more than it may:\n{raised}\n\n"
            f"A person lets it in by instar evolve approve {entry.id}. Propose it without that to have it installed at "
            "once.",
        )

    async def _refused(
        self, attempt: ChangeAttempt, stage: str, why: str, outcome: Outcome = "refused"
    ) -> None:
        report = attempt.report(outcome, stage, why)
        gate = {**attempt.verdict.times, stage: report.ms - attempt.verdict.ms}
        kept = self._storage.reports.add(report)
        await self._change_installer.refused(attempt.path, attempt.cause, stage, why, gate, kept)

    def _proposal(self, attempt: ChangeAttempt) -> pending.Proposal:
        candidate, verdict = attempt.candidate, attempt.verdict
        return pending.Proposal(
            file=attempt.path,
            base=self._change_installer.version(attempt.path),
            content=text(candidate.after.content),
            raised=verdict.raised,
            cause=_kept(attempt.cause),
            also={path: text(file.content) for path, file in candidate.also.items()},
            diff=attempt.diff,
            test=verdict.test or "",
            replay=verdict.replay.text() if verdict.replay is not None else "",
            prediction=msgspec.to_builtins(candidate.expect),
        )


# -- the gate's stages: each returns what it found, "" where there was nothing to do ---------------------------


def _stage(
    name: Gate, work: Callable[[ChangeAttempt], Awaitable[str]], then: Step
) -> Callable[[ChangeAttempt], Awaitable[Step]]:
    """Return the step that does `work`, notes what it found, and goes on to `then`."""

    async def step(attempt: ChangeAttempt) -> Step:
        attempt.said(name)
        begun = time.monotonic()
        try:
            found = await work(attempt)
        except NoTrial as error:
            raise CandidateRefused(name, str(error)) from None
        except CandidateRefused as refusal:
            raise _without(attempt, refusal) from None
        if found:
            ms = round((time.monotonic() - begun) * 1000)
            attempt.verdict.stages += (StagePassed(name, found, ms),)
        return then

    return step


def _without(attempt: ChangeAttempt, refusal: CandidateRefused) -> CandidateRefused:
    """Return the refusal of a trial, which says what was not as it stands in the workspace."""
    outside = attempt.context.outside
    if not outside or refusal.stage not in ("parse", "test", "score"):
        return refusal
    named = ", ".join(outside[:_NAMED]) + (
        f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
    )
    return CandidateRefused(
        refusal.stage,
        f"{refusal}\n\nIt was tried without what nobody accepted: {named} (as a person committed it last, or not "
        "there). A person accepts such files by a commit of their own, or names their folder in evolve.loads",
    )


async def _parse(attempt: ChangeAttempt) -> str:
    candidate, context = attempt.candidate, attempt.context
    if candidate.is_gone:
        return "it is gone"
    if not candidate.is_hook:
        return stages.profile(candidate) if candidate.is_profile else stages.prompt(candidate)
    async with attempt.bench.trials.copy(context.root, attempt.changed) as trial:
        attempt.registered = await stages.hook(
            trial, candidate, context.live, context.prompts, attempt.bench.timeout
        )
    mine = attempt.verdict.registration = attempt.registered.registration
    clashes = [problem for problem in collisions([*context.others, mine])[1] if candidate.file in problem]
    if clashes:
        raise CandidateRefused("parse", "\n".join(clashes))
    return f"it registers {counted(len(mine.tools), 'tool')}"


async def _test(attempt: ChangeAttempt) -> str:
    mine, context = attempt.verdict.registration, attempt.context
    tests = [one.test for one in context.others] if mine is None else [mine.test]
    names = [test for test in dict.fromkeys(tests) if test]
    printed = []
    for name in names:
        # A copy of its own for each: what ran before must not have touched the test.
        try:
            printed.append(await _run_test(attempt, name, attempt.changed))
        except CandidateRefused as error:
            raise await _explained(attempt, name, error) from None
    if not names:
        return ""
    attempt.verdict.test = "\n".join(printed)
    passed = f"{', '.join(f'tests/{name}' for name in names)} passed"
    return f"its test {passed}" if mine is not None else passed


async def _run_test(attempt: ChangeAttempt, name: str, changes: Changes) -> str:
    root = attempt.context.root
    async with attempt.bench.trials.copy(root, changes) as trial:
        return await stages.test(trial, root, name, attempt.bench.timeout)


async def _explained(attempt: ChangeAttempt, name: str, refusal: CandidateRefused) -> CandidateRefused:
    """Return the refusal by a test, which says so where the test fails without the candidate too."""
    if f"tests/{name}" in attempt.candidate.changes:
        return refusal
    try:
        await _run_test(attempt, name, attempt.context.restored)
    except CandidateRefused as before:
        why = str(before).partition("\n")[0]
        return CandidateRefused(
            refusal.stage,
            f"the test failed before your change too, so no change can pass it: {why}. A person can mend "
            f"tests/{name} and run instar evolve accept\n\nWith your change: {refusal}",
        )
    return refusal


async def _replay(attempt: ChangeAttempt) -> str:
    candidate, context = attempt.candidate, attempt.context
    if candidate.before is None or not context.records or candidate.is_uncalled:
        return ""
    report = attempt.verdict.replay = await replay.of_candidate(
        candidate, candidate.before, context, attempt.bench
    )
    if report.refusal is not None:
        raise CandidateRefused("replay", report.text())
    if report.total and not report.replayed:
        raise CandidateRefused(
            "replay", f"none of the recorded calls came to an end within {report.limit:g} s: make it faster"
        )
    return report.text().partition("\n")[0]


async def _score(attempt: ChangeAttempt) -> str:
    context, evals = attempt.context, _evals(attempt.context)
    if not evals:
        return ""
    contest = score.Contest(context.root, attempt.path, attempt.changed, context.restored, evals)
    report = await score.score(attempt.bench.trials, contest, timeout=attempt.bench.timeout, seconds=_WHOLE)
    attempt.verdict.score = report
    if report.refusal is not None:
        raise CandidateRefused("score", report.refusal)
    return f"{counted(len(evals), 'eval')} no worse"


def _evals(context: GateContext) -> list[str]:
    """The accepted evals: one that was taken away by hand still judges, one that was put there does not."""
    found = set(score.find(context.root))
    for path, file in context.restored.items():
        folder, _, name = path.partition("/")
        if folder == score.FOLDER and "/" not in name:
            found.discard(name)
            if file is not None and file.mode & stat.S_IXUSR and visible(name):
                found.add(name)
    return sorted(found)


async def _authority(attempt: ChangeAttempt) -> str:
    """Compare what a script would reach with what was granted."""
    registered, context, verdict = attempt.registered, attempt.context, attempt.verdict
    if registered is None or context.grant is None:
        return ""
    mine, manifest = registered.registration, registered.manifest
    used = verdict.replay.candidate.actions if verdict.replay is not None else frozenset()
    asked = authority.asked(mine.tools, manifest, context.grant, context.terms).using(used)
    verdict.raised = tuple(authority.raises(context.grant, asked, context.neighbours))
    verdict.held = GrantedVersion(asked, manifest, mine.name, mine.test)
    verdict.settled = authority.after(context.grant, asked, approved=True, others=context.neighbours)
    if not verdict.raised:
        return "no more than was granted"
    return f"more than was granted: a person {'decides' if attempt.approval is None else 'allowed it'}"


def _kept(cause: ChangeCause) -> pending.Cause:
    return pending.Cause(cause.session, cause.call, cause.tool, cause.agent, cause.message)


def _cause(kept: pending.Cause) -> ChangeCause:
    return ChangeCause(
        "agent", kept.tool or "", kept.session or "", kept.call or "", kept.agent or "", kept.message or ""
    )
