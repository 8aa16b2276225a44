"""The gate: the stages that a candidate passes in order; the first that fails refuses it.

Parse, test, replay, score, authority. Nothing here writes in the workspace or asks a person.
"""

import stat
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.plugins.evolve.candidate import Candidate, CandidateRefused, text
from instar.plugins.evolve.discovery import Registration, collisions
from instar.plugins.evolve.gate import authority, parse, replay, score, testing
from instar.plugins.evolve.gate.authority import Authority, Terms
from instar.plugins.evolve.gate.checkout import ReplayCheckouts
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.report import ReplayReport
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.trial import Changes, NoTrial, TrialFile, Trials
from instar.plugins.evolve.workspace import visible

_WHOLE: Final = 60.0
"""Seconds that the evals of one candidate may take in all."""


class Bench(msgspec.Struct, frozen=True):
    """Where and how candidates are tried: `timeout` in seconds a start, `replay_seconds` for a whole replay."""

    trials: Trials
    checkouts: ReplayCheckouts
    timeout: float
    replay_seconds: float = 10.0
    strict: bool = False


class GateContext(msgspec.Struct, frozen=True):
    """What is live around a candidate.

    `root` is the workspace, `restored` what puts departed files back in a copy of it. `live` is what its script last
    registered, `others` the workspace's other scripts, `hooks` the live scripts by file name, `prompts` by stage.
    `records` are past calls, newest first, `unread` a sentence on each that could not be read. `grant` is what its
    script was granted (None: a prompt), `neighbours` what the others were.
    """

    root: Path
    restored: Changes
    live: Registration | None
    others: Sequence[Registration]
    hooks: Mapping[str, TrialFile]
    prompts: Mapping[str, str]
    records: Sequence[HookCallRecord]
    terms: Terms
    unread: Sequence[str] = ()
    grant: Authority | None = None
    neighbours: Sequence[Authority] = ()


class StagePassed(msgspec.Struct, frozen=True):
    """One stage that was passed: what it found, in a line, and the ms that it took."""

    name: str
    found: str
    ms: int


class GateVerdict(msgspec.Struct, frozen=True):
    """A candidate that passed. `raised` is what a person must allow first; empty: it may be installed.

    `registration` is what its script registers, None for a prompt; `test` what its test printed, None without one.
    `settled` is the script's grant once it is installed.
    """

    stages: tuple[StagePassed, ...]
    registration: Registration | None = None
    test: str | None = None
    replay: ReplayReport | None = None
    score: str = ""
    raised: tuple[str, ...] = ()
    held: GrantedVersion | None = None
    settled: Authority | None = None

    @property
    def ms(self) -> int:
        """What the gate took."""
        return sum(stage.ms for stage in self.stages)


async def judge(
    candidate: Candidate,
    gate_context: GateContext,
    bench: Bench,
    said: Callable[[str], None] = lambda stage: None,
) -> GateVerdict:
    """Take a candidate through the stages. `said` hears of each as it begins. Raises `CandidateRefused`."""
    return await _Judge(candidate, gate_context, bench, said).verdict()


async def replayed(
    candidate: Candidate, before: TrialFile, gate_context: GateContext, bench: Bench, shown: int = 5
) -> ReplayReport:
    """Replay past calls with a candidate and with `before`, what is live; at most `shown` changed answers are shown.

    Raises `NoTrial`.
    """
    if candidate.is_hook:
        live, mine = replay.of_hook(candidate.file, before, candidate.after)
    else:
        stage = candidate.file.removesuffix(".md")
        live, mine = replay.of_prompt(
            stage, text(before.content), text(candidate.after.content), gate_context.hooks
        )
    plan = replay.ReplayPlan(
        live=live,
        candidate=mine,
        timeout=bench.timeout,
        limit=bench.replay_seconds,
        strict=bench.strict,
        shown=shown,
    )
    return await replay.replay(bench.trials, bench.checkouts, gate_context.records, plan, gate_context.unread)


class _Judge:
    def __init__(
        self, candidate: Candidate, gate_context: GateContext, bench: Bench, said: Callable[[str], None]
    ) -> None:
        self._candidate = candidate
        self._gate_context = gate_context
        self._bench = bench
        self._said = said
        self._stages: list[StagePassed] = []
        self._registered: parse.Registered | None = None
        self._test: str | None = None
        self._replay: ReplayReport | None = None
        self._score = ""

    async def verdict(self) -> GateVerdict:
        """Run the stages in order."""
        await self._stage("parse", self._parse)
        await self._stage("test", self._run_tests)
        await self._stage("replay", self._run_replay)
        await self._stage("score", self._run_evals)
        if self._registered is None or self._gate_context.grant is None:
            return GateVerdict(tuple(self._stages), None, self._test, self._replay, self._score)
        return await self._weighed(self._registered, self._gate_context.grant)

    async def _stage(self, name: str, work: Callable[[], Awaitable[str]]) -> None:
        """Run one stage; what it returns goes into the report, an empty text means that there was nothing to do."""
        self._said(name)
        begun = time.monotonic()
        try:
            found = await work()
        except NoTrial as error:
            raise CandidateRefused(name, str(error)) from None
        if found:
            self._stages.append(StagePassed(name, found, round((time.monotonic() - begun) * 1000)))

    async def _parse(self) -> str:
        candidate, gate_context = self._candidate, self._gate_context
        if not candidate.is_hook:
            return parse.profile(candidate) if candidate.is_profile else parse.prompt(candidate)
        trial = self._bench.trials.copy(gate_context.root, self._changed())
        async with trial as opened:
            self._registered = await parse.hook(
                opened, candidate, gate_context.live, gate_context.prompts, self._bench.timeout
            )
        mine = self._registered.registration
        _, problems = collisions([*gate_context.others, mine])
        clashes = [problem for problem in problems if candidate.file in problem]
        if clashes:
            raise CandidateRefused("parse", "\n".join(clashes))
        return f"it registers {counted(len(mine.tools), 'tool')}"

    async def _run_tests(self) -> str:
        candidate, gate_context = self._candidate, self._gate_context
        if self._registered is not None:
            tests = [self._registered.registration.test]
        else:
            tests = [one.test for one in gate_context.others]
        names = [test for test in dict.fromkeys(tests) if test]
        printed = []
        for name in names:
            # A copy of its own for each: what ran before must not have touched the test.
            try:
                printed.append(await self._run_test(name, self._changed()))
            except CandidateRefused as error:
                raise await self._explained(name, error) from None
        if not names:
            return ""
        self._test = "\n".join(printed)
        passed = f"{', '.join(f'tests/{name}' for name in names)} passed"
        return f"its test {passed}" if candidate.is_hook else passed

    async def _run_test(self, name: str, changes: Changes) -> str:
        root = self._gate_context.root
        async with self._bench.trials.copy(root, changes) as trial:
            return await testing.run(trial, root, name, self._bench.timeout)

    async def _explained(self, name: str, refusal: CandidateRefused) -> CandidateRefused:
        """Return the refusal by a test, which says so where the test fails without the candidate too."""
        if f"tests/{name}" in self._candidate.changes:
            return refusal
        try:
            await self._run_test(name, self._gate_context.restored)
        except CandidateRefused as before:
            why = str(before).partition("\n")[0]
            return CandidateRefused(
                refusal.stage,
                f"the test failed before your change too, so no change can pass it: {why}. A person can mend "
                f"tests/{name} and run instar evolve accept\n\nWith your change: {refusal}",
            )
        return refusal

    async def _run_replay(self) -> str:
        before, gate_context = self._candidate.before, self._gate_context
        # No script is given a profile: past calls would answer as they did.
        if before is None or not gate_context.records or self._candidate.is_profile:
            return ""
        report = self._replay = await replayed(self._candidate, before, gate_context, self._bench)
        if report.refusal is not None:
            raise CandidateRefused("replay", report.text())
        if report.total and not report.replayed:
            raise CandidateRefused(
                "replay",
                f"none of the recorded calls came to an end within {report.limit:g} s: make it faster",
            )
        return report.text().partition("\n")[0]

    async def _run_evals(self) -> str:
        evals = self._evals()
        if not evals:
            return ""
        contest = score.Contest(
            self._gate_context.root, self._candidate.path, self._changed(), self._gate_context.restored, evals
        )
        report = await score.score(self._bench.trials, contest, timeout=self._bench.timeout, seconds=_WHOLE)
        if report.refusal is not None:
            raise CandidateRefused("score", report.refusal)
        self._score = report.text()
        return f"{counted(len(evals), 'eval')} no worse"

    def _evals(self) -> list[str]:
        """The accepted evals: one that was taken away by hand still judges, one that was put there does not."""
        found = set(score.find(self._gate_context.root))
        for path, file in self._gate_context.restored.items():
            folder, _, name = path.partition("/")
            if folder == score.FOLDER and "/" not in name:
                found.discard(name)
                if file is not None and file.mode & stat.S_IXUSR and visible(name):
                    found.add(name)
        return sorted(found)

    async def _weighed(self, registered: parse.Registered, grant: Authority) -> GateVerdict:
        """The last stage: what the candidate would reach, beside what was granted."""
        gate_context, tools = self._gate_context, registered.registration.tools
        used = self._replay.candidate.actions if self._replay is not None else frozenset()
        asked = authority.asked(tools, registered.manifest, grant, gate_context.terms).using(used)
        raised = authority.raises(grant, asked, gate_context.neighbours)
        found = "more than was granted: a person decides" if raised else "no more than was granted"
        self._stages.append(StagePassed("authority", found, 0))
        return GateVerdict(
            tuple(self._stages),
            registered.registration,
            self._test,
            self._replay,
            self._score,
            tuple(raised),
            GrantedVersion(
                asked, registered.manifest, registered.registration.name, registered.registration.test
            ),
            authority.after(grant, asked, approved=True, others=gate_context.neighbours),
        )

    def _changed(self) -> dict[str, TrialFile | None]:
        return {**self._gate_context.restored, **self._candidate.changes}
