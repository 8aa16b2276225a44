"""Evals by hand: what each measures of what is live, with how much that says, as a table."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from instar.plugins.evolve.evals.case import Case
from instar.plugins.evolve.evals.cases import AT_ONCE
from instar.plugins.evolve.evals.run import CaseRun, CaseRunner, each
from instar.plugins.evolve.gate.score import Eval, Failed, Statement
from instar.plugins.evolve.trial import Changes, NoTrial

RUNS: Final = 5
"""Runs of an eval where chance plays a part and nobody says how many."""
_Z: Final = 1.96
_T: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5 % quantile of Student's t, for 1 to 10 degrees of freedom."""
_HEAD: Final = ("eval", "n", "mean", "spread", "95 %", "seconds", "tokens", "cost")
_BESIDE: Final = ("before", "difference", "spread", "95 %")


class Estimate(msgspec.Struct, frozen=True):
    """What scores say of their mean: `spread` is their standard deviation, `low` and `high` bound the 95 % interval.

    What cannot be told from them is None.
    """

    n: int
    mean: float
    spread: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, scores: Sequence[float], least: float, most: float) -> "Estimate":
        """Return what scores from `least` to `most` say."""
        n, mean = len(scores), statistics.fmean(scores)
        if n < 2:
            return cls(n, mean)
        spread = statistics.stdev(scores)
        if not spread or set(scores) <= {least, most}:
            low, high = _wilson((mean - least) / (most - least), n)
            return cls(n, mean, spread, least + low * (most - least), least + high * (most - least))
        half = _quantile(n - 1) * spread / math.sqrt(n)
        return cls(n, mean, spread, max(least, mean - half), min(most, mean + half))


class EarlierScores(msgspec.Struct, frozen=True):
    """What an eval measured of an earlier version, and by how much the scores of what is live are higher, in pairs."""

    mean: float
    difference: Estimate


class EvalRow(msgspec.Struct, frozen=True):
    """One eval. `scores` are those of the runs that came to an end; `failed` says why there are no more.

    `runs` has more of each run of a file. `accepted`: the gate uses it. `cost` is in US dollars, None where unknown.
    """

    name: str
    scores: tuple[float, ...] = ()
    estimate: Estimate | None = None
    better: Literal["higher", "lower"] = "higher"
    seconds: float = 0.0
    tokens: int = 0
    cost: float | None = 0.0
    failed: str = ""
    accepted: bool = True
    before: EarlierScores | None = None
    runs: tuple[CaseRun, ...] = ()

    def cells(self, beside: bool) -> list[str]:
        """Return what the table shows of it."""
        found = self.estimate
        if found is None:
            return [self.name, "0"]
        cost = "unknown" if self.cost is None else f"${self.cost:.4f}" if self.cost else "-"
        took = [f"{self.seconds:.1f}", str(self.tokens) if self.tokens else "-", cost]
        cells = [self.name, str(found.n), _shown(found.mean), _shown(found.spread), _bounds(found), *took]
        if beside and self.before is not None:
            there = self.before.difference
            cells += [_shown(self.before.mean), f"{there.mean:+.3g}", _shown(there.spread), _bounds(there)]
        return cells


class EvalTable(msgspec.Struct, frozen=True):
    """The evals that were run, with `seed`; `against` is the commit that they were compared with, "" for none."""

    rows: tuple[EvalRow, ...]
    seed: int
    against: str = ""

    def text(self, verbose: bool = False) -> str:
        """Return it for a terminal; `verbose` with a line for each run."""
        head = [*_HEAD, *(_BESIDE if self.against else ())]
        lines = [head, *(row.cells(bool(self.against)) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines if at < len(line)) for at in range(len(head))]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
            for line in lines
        ]
        said = [shown[0]]
        for row, line in zip(self.rows, shown[1:], strict=True):
            said += [line, *_notes(row), *(_of_runs(row) if verbose else ())]
        if not verbose and any(run.score < 1 for row in self.rows for run in row.runs):
            said.append("-v shows what each check found")
        return "\n".join(said)


class Measuring(msgspec.Struct):
    """Evals at work: the `rows` that are finished. `told` hears of each run, `until` bounds none.

    With `before`, the changes of an earlier version, each eval is run on that too.
    """

    runner: CaseRunner
    live: Changes
    seed: int
    count: int | None
    told: Callable[[str], None]
    before: Changes | None = None
    rows: list[EvalRow] = []

    async def case(self, case: Case, accepted: bool) -> None:
        """Run an eval that is a file."""
        many = self.count or (case.repeats if case.is_exact or case.repeats > 1 else RUNS)
        name, runs, old = f"{case.name}.md", list[CaseRun](), list[CaseRun]()
        failed = ""

        async def measure(changes: Changes, found: list[CaseRun], of: str) -> None:
            def told(run: CaseRun) -> None:
                found.append(run)
                self.told(
                    f"{name}{of}: run {len(found)} of {many}: {_shown(run.score)} ({run.seconds:.1f} s)"
                )

            await each(self.runner, [(case, changes)] * many, math.inf, AT_ONCE, told)

        try:
            await measure(self.live, runs, "")
            if self.before is not None:
                await measure(self.before, old, " before")
        except (Failed, NoTrial) as error:
            failed = str(error)
        finally:
            # Also of what was cut short: it took time and money.
            both, costs = [*runs, *old], [run.cost for run in (*runs, *old)]
            self._add(
                name,
                Statement(scores=tuple(run.score for run in runs)),
                [run.score for run in old],
                failed=failed,
                accepted=accepted,
                seconds=sum(run.seconds for run in both),
                tokens=sum(run.tokens for run in both),
                cost=None if None in costs else sum(cost or 0.0 for cost in costs),
                runs=tuple(runs),
            )

    async def program(self, program: Eval, clock: Callable[[], float], accepted: bool) -> None:
        """Run an eval that is a program."""
        begun, failed = clock(), ""
        said, old = Statement(), Statement()
        try:
            said = await self._program(program, self.live)
            self.told(f"{program.name}: {len(said.found)} scores ({clock() - begun:.1f} s)")
            if self.before is not None:
                old = await self._program(program, self.before)
        except (Failed, NoTrial) as error:
            failed = str(error)
        self._add(
            program.name,
            said,
            old.found,
            failed=failed,
            accepted=accepted,
            seconds=clock() - begun,
            tokens=said.tokens + old.tokens,
            cost=said.cost + old.cost,
        )

    async def _program(self, program: Eval, changes: Changes) -> Statement:
        """What a program says with all seeds; one that heeds none is run once for each, if it plays with chance."""
        seeds = [self.seed + at for at in range(self.count or RUNS)]
        said = await program.run(changes, seeds, math.inf)
        if said.scores and len(said.scores) != len(seeds):
            raise Failed(f"it printed {len(said.scores)} scores for {len(seeds)} seeds")
        if said.scores or said.is_exact:
            return said
        more = [said, *[await program.run(changes, [seed], math.inf) for seed in seeds[1:]]]
        return msgspec.structs.replace(
            said,
            score=None,
            scores=tuple(score for one in more for score in one.found),
            tokens=sum(one.tokens for one in more),
            cost=sum(one.cost for one in more),
        )

    def _add(self, name: str, said: Statement, old: Sequence[float], **more: Any) -> None:
        scores, (least, most) = said.found, said.range
        pairs = [new - before for new, before in zip(scores, old, strict=False)]
        row = EvalRow(
            name,
            scores,
            Estimate.of(scores, least, most) if scores else None,
            said.better,
            before=_before(old, pairs, most - least) if pairs else None,
            **more,
        )
        self.rows.append(row)


def _before(old: Sequence[float], pairs: Sequence[float], width: float) -> EarlierScores:
    return EarlierScores(statistics.fmean(old), Estimate.of(pairs, -width, width))


def _quantile(freedom: int) -> float:
    return _T[freedom - 1] if freedom <= len(_T) else _Z + 2.5 / freedom


def _wilson(part: float, n: int) -> tuple[float, float]:
    """The interval of a share, which is none of no width where all runs came out alike."""
    square = _Z * _Z / n
    middle = part + square / 2
    half = _Z * math.sqrt(part * (1 - part) / n + square / (4 * n))
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _bounds(found: Estimate) -> str:
    return "-" if found.low is None else f"{_shown(found.low)} to {_shown(found.high)}"


def _notes(row: EvalRow) -> list[str]:
    notes = [f"  failed: {row.failed}"] if row.failed else []
    if not row.accepted:
        notes.append(f"  the gate does not use it as it stands: instar evolve accept evals/{row.name}")
    return notes


def _of_runs(row: EvalRow) -> list[str]:
    lines = []
    for number, run in enumerate(row.runs, 1):
        lines.append(f"  run {number}: {_shown(run.score)}{f', {run.why}' if run.why else ''}")
        lines += [f"    {one.check}: {_shown(one.score)}, {one.why}" for one in run.checks if one.score < 1]
    return lines
