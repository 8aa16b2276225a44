"""How a change of the workspace goes: a machine of the steps that docs/concepts/gate.md shows in its picture.

One change at a time. Whoever makes it, it is one commit and one epoch (`ledger.install`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from instar.plugin import accepted
from instar.plugins.evolve import alternatives
from instar.plugins.evolve import attempt as attempts
from instar.plugins.evolve.alternatives import Fate, Rank
from instar.plugins.evolve.attempt import ChangeAttempt, Installed, Progress, Stage
from instar.plugins.evolve.candidate import (
    Candidate,
    CandidateRefused,
    Candidates,
    Change,
    GateContext,
    text,
)
from instar.plugins.evolve.database import LOST
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.forget import evidence
from instar.plugins.evolve.gate import pending, score
from instar.plugins.evolve.gate.report import Outcome
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.pins import BadPin
from instar.plugins.evolve.history.repository import whole
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
)
from instar.plugins.evolve.points import CandidateInput
from instar.plugins.evolve.probation.held_out import HeldOutChange, HeldOutEvals
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile

End = Literal["kept", "taken_back", "refused", "rejected"]
Step = (
    Literal["read", "candidate", "known"]
    | Stage
    | Literal["permission", "waiting", "install", "probation"]
    | End
)
"""Where a change stands.

An exception (`CandidateRefused`, `NotChanged`) takes it to `refused`, and a person one that waits to `rejected`. What
leaves `probation` is the calls of the version that is live now: `Observer.told` keeps it, or `Rollback.settle` takes it
back.
"""

_FROZEN: Final = "frozen"
_WHY: Final = 400
"""Characters of an earlier refusal that a later one repeats."""


class Waits(NotChanged):
    """A candidate that waits for a person under the id `id`."""

    def __init__(self, id: str, text: str) -> None:  # noqa: A002 - the word that a person types
        super().__init__(text)
        self.id = id


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
        held_out: HeldOutEvals,
        limits: score.ScoreLimits,
    ) -> None:
        self._storage = storage
        self._policy = policy
        self.candidates = candidates
        self._change_installer = change_installer
        self._observer = observer
        self._object = object
        self._held_out = held_out
        self._limits = limits
        self.lock = asyncio.Lock()
        self._steps: dict[Step, Callable[[ChangeAttempt], Awaitable[Step]]] = {
            "read": self._read,
            "candidate": self._candidate,
            "known": self._known,
            "parse": _stage("parse", attempts.start, "test"),
            "test": _stage("test", attempts.run_tests, "replay"),
            "replay": _stage("replay", attempts.play_again, "score"),
            "score": _stage("score", self._score, "authority"),
            "authority": _stage("authority", attempts.weigh, "permission"),
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
        claim: str = "",
    ) -> Installed:
        """Change the file at `path` of the workspace, if its candidate passes the gate.

        `claim` names an eval in which it has to show itself better than the reference; "": it may be no worse.
        Raises `CandidateRefused`, `Waits` when a person must allow it first, and `NotChanged`.
        """
        async with self.lock:
            attempt = ChangeAttempt(path, change, cause, expect=expect, also=also or {}, claim=claim)
            await self._judged(attempt, "read")
            return attempt.installed

    async def propose(self, proposed: Sequence[ChangeAttempt]) -> list[Fate]:
        """Try several candidates for one file, one after the other, and install the best of those that pass.

        Returns what became of each, in their order. Only the best one goes on to permission and installation. Raises
        `NotChanged` when the file may not be changed now.
        """
        async with self.lock:
            await self.may_change(proposed[0].path, proposed[0].cause)
            fates: dict[int, Fate] = {}
            ranks: dict[int, Rank] = {}
            for at, attempt in enumerate(proposed):
                fate = await self._tried(attempt, [one.mark for one in proposed[:at]])
                if fate is None:
                    ranks[at] = alternatives.rank(attempt.verdict, attempt.diff)
                else:
                    fates[at] = fate
            order = sorted(ranks, key=lambda at: ranks[at])
            for at in order[:1]:
                fates[at] = await self._fate(proposed[at], "permission") or Fate("installed")
            for at in order[1:]:
                why = alternatives.preferred(ranks[order[0]], ranks[at])
                fates[at] = self._passed_over(
                    proposed[at], f"alternative {order[0] + 1} was preferred: {why}"
                )
            return [fates[at] for at in range(len(proposed))]

    async def _tried(self, attempt: ChangeAttempt, before: Sequence[str]) -> Fate | None:
        """Try one of several candidates. `before` are the marks of those before it. Returns None if it passed."""
        try:
            await self._go(attempt, "candidate", "known")
        except NotChanged as error:
            return Fate("not tried", str(error))
        if attempt.mark in before:
            return Fate("not tried", f"it is the same as alternative {before.index(attempt.mark) + 1}")
        return await self._fate(attempt, "known", "permission")

    async def _fate(self, attempt: ChangeAttempt, step: Step, until: Step = "probation") -> Fate | None:
        """Take one of several candidates on as `_judged` does. Returns None if it got there."""
        try:
            await self._judged(attempt, step, until)
        except CandidateRefused as error:
            return Fate("refused", str(error), error.stage)
        except NotChanged as error:
            return Fate("waits" if isinstance(error, Waits) else "refused", str(error))
        return None

    def _passed_over(self, attempt: ChangeAttempt, why: str) -> Fate:
        report = self._storage.reports.add(attempt.report("passed over", why=why))
        self._change_installer.happened("passed over", attempt.cause, [attempt.path], why, report=report)
        return Fate("passed over", why)

    async def _judged(self, attempt: ChangeAttempt, step: Step, until: Step = "probation") -> None:
        """Take an attempt on as `_go` does, and report a refusal."""
        try:
            await self._go(attempt, step, until)
        except CandidateRefused as error:
            report = await self._refused(attempt, error.stage, str(error))
            if not error.passing:
                self._storage.known.add(attempt.path, attempt.mark, report)
            raise

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
        attempt.mark = candidates.mark(attempt.candidate, attempt.context, attempt.claim)
        return "known"

    async def _known(self, attempt: ChangeAttempt) -> Step:
        """What was refused is not tried again, unless a person wants it."""
        if attempt.cause.by == "person" or attempt.approval is not None:
            return "parse"
        report = self._storage.reports.get(self._storage.known.report(attempt.mark))
        if report is None:
            return "parse"
        attempt.known = report.id
        raise CandidateRefused(
            "known",
            f"just this was refused before, at the stage {report.stage}, and nothing that it is judged by has changed "
            f"since (report {report.id}): {trailers.one_line(report.text, _WHY)}\n\nPropose something else. A person "
            f"lets it be tried again by instar evolve again {attempt.path}",
            passing=True,
        )

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
            raise CandidateRefused("hooks", why, passing=True)
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
        self._refer(attempt)
        if cause.by != "person":
            self._held_out.installed(HeldOutChange(path, new, old))
        learned = verdict.learned(attempt.context.live, attempt.diff)
        report = storage.reports.add(attempt.report("installed"))
        await self._change_installer.installed(changed, cause, verdict.times, learned, report)
        attempt.installed = Installed(path, attempt.diff, changed.epoch, verdict, changed.commit)

    async def _score(self, attempt: ChangeAttempt) -> str:
        return await attempts.measure(attempt, self._storage.references, self._limits)

    def _refer(self, attempt: ChangeAttempt) -> None:
        """Compare later scores with what went live, where it has shown itself better or a person said so."""
        by_hand = attempt.cause.by == "person" and attempt.approval is None
        if by_hand or attempt.verdict.undecided:
            self._storage.references.begin()
        elif attempt.verdict.score is not None:
            found = attempt.verdict.score
            self._storage.references.moved(attempt.path, found.better, found.leads)

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
            f"It passed its trials, but {_why_waits(attempt.verdict)}:\n{raised}\n\n"
            f"A person lets it in by instar evolve approve {entry.id}. Propose it without that to have it installed at "
            "once.",
        )

    async def _refused(
        self, attempt: ChangeAttempt, stage: str, why: str, outcome: Outcome = "refused"
    ) -> str:
        """Report a refusal, and return the id of the gate's report."""
        report = attempt.report(outcome, stage, why)
        gate = {**attempt.verdict.times, stage: report.ms - attempt.verdict.ms}
        kept = attempt.known or self._storage.reports.add(report)
        await self._change_installer.refused(attempt.path, attempt.cause, stage, why, gate, kept)
        return kept

    def _proposal(self, attempt: ChangeAttempt) -> pending.Proposal:
        candidate, verdict = attempt.candidate, attempt.verdict
        return pending.Proposal(
            file=attempt.path,
            base=self._change_installer.version(attempt.path),
            content=text(candidate.after.content),
            raised=verdict.raised,
            cause=attempts.kept(attempt.cause),
            also={path: text(file.content) for path, file in candidate.also.items()},
            diff=attempt.diff,
            test=verdict.test or "",
            replay=verdict.replay.text() if verdict.replay is not None else "",
            prediction=msgspec.to_builtins(candidate.expect),
            undecided=verdict.undecided,
            score=verdict.score.text() if verdict.score is not None else "",
        )


def _why_waits(verdict: GateVerdict) -> str:
    return (
        "its evals are undecided"
        if verdict.raised == verdict.undecided
        else "it would reach more than it may"
    )


def _cause(kept: pending.Cause) -> ChangeCause:
    return ChangeCause(
        "agent", kept.tool or "", kept.session or "", kept.call or "", kept.agent or "", kept.message or ""
    )


def _stage(
    name: Stage, work: Callable[[ChangeAttempt], Awaitable[str]], then: Step
) -> Callable[[ChangeAttempt], Awaitable[Step]]:
    """Return the step that passes a stage of the gate, and goes on to `then`."""

    async def step(attempt: ChangeAttempt) -> Step:
        await attempts.passed(attempt, name, work)
        return then

    return step
