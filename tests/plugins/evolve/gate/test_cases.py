"""Evals that are files, as the gate measures with them: which case a seed draws, and what is run once."""

import math
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from instar.plugin import process, sandbox
from instar.plugins.evolve.evals.case import load
from instar.plugins.evolve.evals.cases import FileEvals
from instar.plugins.evolve.evals.run import CaseRunner
from instar.plugins.evolve.gate.paired import risk_of
from instar.plugins.evolve.gate.score import Contest, OutOfTime, ScoreLimits, Statement, score
from instar.plugins.evolve.trial import Changes, NoTrial, TrialFile, Trials

FILE = "hooks/x.sh"
SCRIPT = """\
#!/bin/sh
echo "$1" >>{calls}
case "$1" in
one) echo '{{"result": "one"}}' ;;
two) echo '{{"result": "two"}}' ;;
esac
"""


class Workspace:
    """A workspace with a script and evals that are calls of it; it notes its calls outside."""

    def __init__(self, folder: Path, trials: Trials) -> None:
        self.root, self.calls, self.trials = folder / "ws", folder / "calls", trials
        for name in ("hooks", "evals", "tests"):
            (self.root / name).mkdir(parents=True)
        (self.root / FILE).write_text(SCRIPT.format(calls=self.calls))
        (self.root / FILE).chmod(0o755)

    def case(self, name: str, hook: str, result: str, repeats: int = 1, tolerance: float = 0) -> None:
        head = f"call: x.sh {hook}\nrepeats: {repeats}\ntolerance: {tolerance}\n"
        text = f"---\n{head}checks: [{{equals: {{result: {result}}}}}]\n---\n{{}}\n"
        (self.root / "evals" / f"{name}.md").write_text(text)

    def evals(self, changes: Changes | None = None) -> FileEvals:
        return FileEvals(load(self.root, changes or {}), CaseRunner(self.trials, self.root, 20))

    def candidate(self, old: str, new: str) -> Changes:
        text = (self.root / FILE).read_text().replace(old, new)
        return {FILE: TrialFile(text.encode(), 0o755)}

    async def run(self, *seeds: int, changes: Changes | None = None) -> Statement:
        return await self.evals(changes).run(changes or {}, seeds, math.inf)


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    """Where nothing is confined: what a case means is the same at each level, and this is the quickest."""
    processes = process.Processes()
    yield Workspace(tmp_path, Trials(processes, sandbox.Level("none"), os.environ, unsafe=True))
    await processes.close()


async def test_without_chance_each_case_is_run_once_and_the_score_is_the_mean(workspace: Workspace) -> None:
    workspace.case("a", "one", "one")
    workspace.case("b", "two", "three")
    evals = workspace.evals()
    live: Changes = {}
    said = await evals.run(live, [1, 2, 3], math.inf)
    assert (said.score, said.is_exact) == (0.5, True)
    assert await evals.run(live, [4], math.inf) == said
    assert sorted(workspace.calls.read_text().split()) == ["one", "two"]


async def test_a_seed_draws_the_same_case_whatever_other_seeds_there_are(workspace: Workspace) -> None:
    workspace.case("a", "one", "one", repeats=2)
    workspace.case("b", "two", "three")
    alone = [(await workspace.run(seed)).scores[0] for seed in range(12)]
    together = await workspace.run(*range(12))
    assert (list(together.scores), together.is_exact) == (alone, False)
    assert 0.0 in alone
    assert 1.0 in alone


async def test_a_candidate_that_does_worse_in_one_of_several_cases_is_refused(workspace: Workspace) -> None:
    workspace.case("a", "one", "one", repeats=2)
    workspace.case("b", "two", "two")
    evals = workspace.evals()
    candidate, reference = workspace.candidate('"one"', '"1"'), workspace.candidate("none of it", "")
    contest = Contest(candidate, {"cases": reference}, [evals], risk_of(1), 1_000_000)
    report = await score(contest, ScoreLimits())
    assert report.refusal is not None
    assert "evals/cases" in report.refusal
    assert evals.worse(reference, candidate) == ["a"]


async def test_two_alike_with_chance_are_told_from_a_few_pairs_at_a_wide_tolerance(
    workspace: Workspace,
) -> None:
    workspace.case("a", "one", "one", tolerance=0.5)
    workspace.case("b", "two", "three", repeats=2, tolerance=0.5)
    evals = workspace.evals()
    contest = Contest({}, {"cases": {}}, [evals], risk_of(1), 1_000_000)
    (line,) = (await score(contest, ScoreLimits())).lines
    assert (line.verdict, line.margin) == ("no worse", 0.5)
    assert line.pairs <= 32
    # A case without chance is run once with each version, however often it is drawn.
    assert workspace.calls.read_text().split().count("one") == 2


async def test_the_accepted_files_judge_and_not_what_stands_there(workspace: Workspace) -> None:
    workspace.case("a", "one", "nothing")
    workspace.case("new", "one", "nothing")
    accepted = b"---\ncall: x.sh one\nchecks: [{equals: {result: one}}]\n---\n{}\n"
    restored = {"evals/a.md": TrialFile(accepted), "evals/new.md": None, "evals/gone.md": TrialFile(accepted)}
    assert (await workspace.run(1, changes=restored)).score == 1.0
    assert [case.name for case in load(workspace.root, restored).cases] == ["a", "gone"]


async def test_one_file_that_cannot_be_used_measures_nothing(workspace: Workspace) -> None:
    workspace.case("a", "one", "one")
    (workspace.root / "evals" / "b.md").write_text("---\nchecks: 1\n---\nx\n")
    with pytest.raises(NoTrial, match=r"evals/b\.md:2: checks: expected a list"):
        await workspace.run(1)


async def test_a_script_that_hangs_ends_with_the_time_for_all(workspace: Workspace) -> None:
    workspace.case("a", "one", "one")
    changes = workspace.candidate("one) ", "one) sleep 50; ")
    with pytest.raises(OutOfTime):
        await workspace.evals().run(changes, [1], time.monotonic() + 1)
    assert workspace.calls.read_text().split() == ["one"]
