"""A change on its way, and what the gate's stages find of it. Each stage raises `CandidateRefused`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from instar.plugin import Client
from instar.plugins.evolve import edit
from instar.plugins.evolve.candidate import Candidate, CandidateRefused, Change, GateContext, text
from instar.plugins.evolve.discovery import collisions
from instar.plugins.evolve.evals.case import Suite, load
from instar.plugins.evolve.evals.cases import FileEvals, asking
from instar.plugins.evolve.evals.run import CaseRunner
from instar.plugins.evolve.gate import authority, pending, replay, score, stages
from instar.plugins.evolve.gate.reference import References
from instar.plugins.evolve.gate.report import GateReport, Outcome, StagePassed
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.commits import WorkspaceCommit
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.install import ChangeCause
from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.trial import Bench, Changes, NoTrial, TrialFile

Stage = Literal["parse", "test", "replay", "score", "authority"]

Progress = Callable[[str], None]
"""Hears of each stage of the gate as it begins."""

IDEA: Final = 200
"""Characters that are kept of an author's line on a candidate."""
_NAMED: Final = 5
"""Files that a refusal names."""
_UNMEASURED: Final = "no evals: nothing measured whether it is better or worse"


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

    `approval` is what a person, `who`, has allowed. `claim` names an eval in which it has to show itself better, `idea`
    is its author's line on it, `mark` as `Candidates.mark` gives it, `known` the id of the report on the same
    one, which was refused before. `testing` is its test, which runs while the candidate is parsed.
    """

    path: str
    change: Change
    cause: ChangeCause
    said: Progress = lambda stage: None
    expect: Prediction | None = None
    also: Mapping[str, TrialFile] = field(default_factory=dict)
    approval: pending.PendingEntry | None = None
    who: str = ""
    claim: str = ""
    idea: str = ""
    mark: str = ""
    known: str = ""
    verdict: GateVerdict = field(default_factory=GateVerdict)
    candidate: Candidate = field(init=False)
    context: GateContext = field(init=False)
    bench: Bench = field(init=False)
    registered: stages.Registered | None = None
    testing: asyncio.Task[str] | None = None
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
            cause=kept(self.cause),
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
            idea=trailers.one_line(self.idea, IDEA),
        )


async def passed(
    attempt: ChangeAttempt, name: Stage, work: Callable[[ChangeAttempt], Awaitable[str]]
) -> None:
    """Do the `work` of a stage, and note what it found."""
    attempt.said(name)
    begun = time.monotonic()
    try:
        found = await work(attempt)
    except NoTrial as error:
        raise CandidateRefused(name, str(error), passing=True) from None
    except CandidateRefused as refusal:
        raise _without(attempt, refusal) from None
    if found:
        ms = round((time.monotonic() - begun) * 1000)
        attempt.verdict.stages += (StagePassed(name, found, ms),)


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
        passing=refusal.passing,
    )


async def start(attempt: ChangeAttempt) -> str:
    """Start a script in a copy and read what it registers; look at a text."""
    candidate, context = attempt.candidate, attempt.context
    if candidate.is_gone:
        return "it is gone"
    if not candidate.is_hook:
        return stages.profile(candidate) if candidate.is_profile else stages.prompt(candidate)
    test = context.live.test if context.live is not None else None
    if test is not None:
        # Each in a copy of its own. It must keep the test, so which one it is is known before it answers.
        attempt.testing = asyncio.create_task(_run_test(attempt, test, attempt.changed))
    try:
        return await _registered(attempt)
    except BaseException:
        await _stopped(attempt.testing)
        raise


async def _registered(attempt: ChangeAttempt) -> str:
    candidate, context = attempt.candidate, attempt.context
    async with attempt.bench.trials.copy(context.root, attempt.changed) as trial:
        attempt.registered = await stages.hook(
            trial, candidate, context.live, context.prompts, attempt.bench.timeout
        )
    mine = attempt.verdict.registration = attempt.registered.registration
    clashes = [problem for problem in collisions([*context.others, mine])[1] if candidate.file in problem]
    if clashes:
        raise CandidateRefused("parse", "\n".join(clashes))
    return f"it registers {counted(len(mine.tools), 'tool')}"


async def _stopped(testing: asyncio.Task[str] | None) -> None:
    """End a test whose outcome does not count any more."""
    if testing is not None:
        testing.cancel()
        await asyncio.gather(testing, return_exceptions=True)


async def run_tests(attempt: ChangeAttempt) -> str:
    """Run the script's test; for a text those of all scripts."""
    mine, context = attempt.verdict.registration, attempt.context
    tests = [one.test for one in context.others] if mine is None else [mine.test]
    names = [test for test in dict.fromkeys(tests) if test]
    printed = []
    for name in names:
        # A copy of its own for each: what ran before must not have touched the test.
        try:
            printed.append(await (attempt.testing or _run_test(attempt, name, attempt.changed)))
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
            passing=True,
        )
    return refusal


async def play_again(attempt: ChangeAttempt) -> str:
    """Run past calls with what is live and with the candidate."""
    candidate, context = attempt.candidate, attempt.context
    if candidate.before is None or not context.records or candidate.is_uncalled:
        return ""
    report = attempt.verdict.replay = await replay.of_candidate(
        candidate, candidate.before, context, attempt.bench
    )
    if report.refusal is not None:
        raise CandidateRefused("replay", report.text(), passing=report.count("timeout") > 0)
    if report.total and not report.replayed:
        raise CandidateRefused(
            "replay",
            f"none of the recorded calls came to an end within {report.limit:g} s: make it faster",
            passing=True,
        )
    return report.text().partition("\n")[0]


async def measure(attempt: ChangeAttempt, references: References, limits: score.ScoreLimits) -> str:
    """Compare the scores of the candidate with those of the references."""
    verdict = attempt.verdict
    if attempt.approval is not None and attempt.approval.proposal.undecided:
        verdict.undecided = verdict.raised = attempt.approval.proposal.undecided
        return "a person decided"
    # The accepted ones: one that was taken away by hand still judges, one that was put there does not.
    suite = load(attempt.context.root, attempt.context.restored)
    async with asking(suite, attempt.bench) as client:
        return await _contest(attempt, _evals(attempt, suite, client), references, limits)


async def _contest(
    attempt: ChangeAttempt, evals: Sequence[score.Eval], references: References, limits: score.ScoreLimits
) -> str:
    context, verdict = attempt.context, attempt.verdict
    names = [one.name for one in evals]
    if attempt.claim and attempt.claim not in names:
        known = f"; there are {', '.join(names)}" if names else ""
        raise CandidateRefused("score", f"there is no eval {attempt.claim!r} to be better in{known}")
    if not evals:
        return _UNMEASURED
    drawn = references.draw()
    against = {name: {**context.restored, **await references.changes(name)} for name in names}
    contest = score.Contest(attempt.changed, against, evals, drawn.risk, drawn.first_seed, references.leads())
    report = verdict.score = await score.score(contest, limits)
    if report.refusal is not None:
        # An eval that failed or was late may be so by the machine's doing.
        worse = any(line.verdict == "worse" for line in report.lines)
        raise CandidateRefused("score", report.refusal + _worse(evals, contest), passing=not worse)
    if attempt.claim and attempt.claim not in report.better:
        line = next(one.text() for one in report.lines if one.name == attempt.claim)
        raise CandidateRefused(
            "score", f"it is to be better in evals/{attempt.claim}, and is not shown to be: {line}"
        )
    verdict.undecided = verdict.raised = tuple(
        f"evals/{name} did not show that it is no worse than the reference" for name in report.undecided
    )
    return report.found()


def _worse(evals: Sequence[score.Eval], contest: score.Contest) -> str:
    """Name the cases that refuse, not what they look for: an agent that knows that answers the eval, not the person."""
    names = [
        f"{score.FOLDER}/{case}.md"
        for one in evals
        if isinstance(one, FileEvals)
        for case in one.worse(contest.references[one.name], contest.candidate)
    ]
    return f"; it does worse in {', '.join(names)}" if names else ""


def _evals(attempt: ChangeAttempt, suite: Suite, client: Client | None) -> list[score.Eval]:
    context, bench = attempt.context, attempt.bench
    evals: list[score.Eval] = [
        score.ProgramEval(name, bench.trials, context.root, attempt.path, bench.timeout)
        for name in score.find(context.root, context.restored)
        if name not in suite.programs
    ]
    if suite.cases or suite.problems:
        runner = CaseRunner(
            bench.trials, context.root, bench.timeout, client, bench.model, attempt.cause.session
        )
        evals.append(FileEvals(suite, runner))
    return evals


async def weigh(attempt: ChangeAttempt) -> str:
    """Compare what a script would reach with what was granted."""
    registered, context, verdict = attempt.registered, attempt.context, attempt.verdict
    if registered is None or context.grant is None:
        return ""
    mine, manifest = registered.registration, registered.manifest
    used = verdict.replay.candidate.actions if verdict.replay is not None else frozenset()
    asked = authority.asked(mine.tools, manifest, context.grant, context.terms).using(used)
    raised = tuple(authority.raises(context.grant, asked, context.neighbours))
    verdict.raised = (*verdict.undecided, *raised)
    verdict.held = GrantedVersion(asked, manifest, mine.name, mine.test)
    verdict.settled = authority.after(context.grant, asked, approved=True, others=context.neighbours)
    if not raised:
        return "no more than was granted"
    return f"more than was granted: a person {'decides' if attempt.approval is None else 'allowed it'}"


def kept(cause: ChangeCause) -> pending.Cause:
    """Return a cause as it is kept with what waits and in reports."""
    return pending.Cause(cause.session, cause.call, cause.tool, cause.agent, cause.message)
