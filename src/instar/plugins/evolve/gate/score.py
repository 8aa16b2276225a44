"""Score, the fourth stage of the gate: a candidate may not be worse than what a person accepted.

Each executable in ``evals/`` is an *eval*. It is started as ``evals/<name>`` in the workspace, in a sandboxed copy of
its own for each run, with ``{"file": "hooks/x.py", "seeds": [3000001, 3000002]}`` on its standard input: the file that
is to be changed, and numbers of which each stands for an input and its chance. It ends with exit code 0, and the last
line that it prints (empty ones do not count) is a number, or an object::

    {"scores": [0.8, 0.6], "range": [0, 1], "tolerance": 0.05, "better": "higher", "runs": 400, "tokens": 1200}

`scores` has one score for each seed, in their order; an eval that heeds no seeds prints `score`, a number, instead.
`range` is between which scores lie (default 0 to 1), `tolerance` how much worse a candidate may be, in the score's own
unit, `better` is ``"higher"`` (default) or ``"lower"``. `runs` (1 to `MAX_RUNS`) is how many pairs of scores may be
taken where chance plays a part; `tokens` is what the run used, and `cost` what it cost in US dollars. Other keys are
for people.

A candidate is compared with the *reference* of each eval: what stood when a person last accepted something, or the
version since then that has shown itself better in that eval. What is live may be a little worse than the reference, by
what could not be told from chance; were it the measure, many such steps would lead anywhere.

- Where chance plays no part (`score`, and `runs` is 1 or left out) the eval is run once with each. The candidate is
  refused when it is worse by more than the tolerance (default 0).
- Where it does, reference and candidate get the same seeds, which no candidate before had, in batches that grow, and
  take turns in who begins, until `paired.PairedTest` has decided; the tolerance is its margin (default and at least a
  fiftieth of the range). A candidate that is shown to be worse is refused, and so is one that is no worse and whose
  mean is behind that of what is live, when that was judged, by more than a quarter of the margin: else each gain that
  is not yet shown could be lost again. One that is not shown to be no worse when
  the runs, the time or the tokens for evals are used up is *undecided*: it waits for a person.

What a statement says beside the scores is read from the reference's first run, never from the candidate's: an eval runs
the candidate's code, which might say what it likes. A run that fails (exit code, signal, time, no score, out of the
range) refuses the candidate; an eval whose first run with the reference fails is named and does not count.
"""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

import msgspec

from instar.plugin import process
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.gate.paired import PairedTest, Verdict
from instar.plugins.evolve.trial import Changes, NoTrial, Trials, listed

FOLDER: Final = "evals"
MAX_RUNS: Final = 4096
SEEDS: Final = 1_000_000
"""Seeds that one candidate may be given: those of another begin at the next multiple."""
_MARGIN: Final = 0.02
"""The least margin where chance plays a part, as a part of the range: less takes more pairs than anybody has."""
_BEHIND: Final = 0.25
"""How far a candidate that is not shown to be better may be behind what is live, as a part of the margin."""
_FIRST: Final = 8
"""Pairs of the first batch. Each further one has as many as all before."""
_SHOWN: Final = 2000
_ALMOST: Final = 0.05
"""Seconds below which no further run is begun: a sandbox alone takes that long."""


class Statement(msgspec.Struct, frozen=True):
    """What one run of an eval said: one score (`score`), or one for each seed. `runs` 0: it did not say."""

    score: float | None = None
    scores: tuple[float, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    tolerance: float | None = None
    better: Literal["higher", "lower"] = "higher"
    runs: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether chance plays no part, so that one run of each says all."""
        return not self.scores and self.runs <= 1

    @property
    def found(self) -> tuple[float, ...]:
        """Return the scores, also where it is one."""
        return self.scores or ((self.score,) if self.score is not None else ())


class Failed(Exception):
    """A run of an eval that gave no score; the text says why, and what it printed."""

    def __init__(self, why: str, printed: str = "") -> None:
        super().__init__(f"{why}; it printed:\n{printed}" if printed else why)


class OutOfTime(Exception):
    """The time for all evals is over."""


class Eval(Protocol):
    """What measures a workspace."""

    @property
    def name(self) -> str:
        """What people call it: in ``evals/`` its file's name."""
        ...

    async def run(self, changes: Changes, seeds: Sequence[int], until: float) -> Statement:
        """Measure the workspace with `changes`, with these seeds.

        Raises `Failed`, `OutOfTime` when the monotonic clock has passed `until`, and `NoTrial`.
        """
        ...


class Contest(msgspec.Struct, frozen=True):
    """What is compared: the workspace with the changes `candidate`, and with those of each eval's reference, by name.

    `risk` is what `paired.risk_of` gives, `first_seed` the first of `SEEDS` numbers that no contest before had. `leads`
    is by how much what is live is ahead of the reference of an eval, as far as is known: `References.leads`.
    """

    candidate: Changes
    references: Mapping[str, Changes]
    evals: Sequence[Eval]
    risk: float
    first_seed: int
    leads: Mapping[str, float] = {}


class ScoreLimits(msgspec.Struct, frozen=True):
    """What all evals of a candidate may use: pairs for each of them, seconds and tokens (0: any number) together."""

    runs: int = 512
    seconds: float = 60.0
    tokens: int = 0

    @classmethod
    def of(cls, config: EvolveConfig) -> Self:
        """Return the limits of the person's settings."""
        return cls(config.score_runs, config.score_seconds, config.score_tokens)


class EvalLine(msgspec.Struct, frozen=True):
    """One eval: means over its pairs, the standard deviation of their differences, and what came of it.

    `margin` is by how much the candidate might be worse, in the score's unit. `ignored` says why it does not count,
    `refused` why the candidate may not be installed, `undecided` why a person has to decide; at most one is set.
    """

    name: str
    verdict: Verdict = "undecided"
    pairs: int = 0
    reference: float = 0.0
    candidate: float = 0.0
    spread: float = 0.0
    margin: float = 0.0
    better: Literal["higher", "lower"] = "higher"
    ignored: str | None = None
    refused: str | None = None
    undecided: str | None = None

    @property
    def lead(self) -> float:
        """By how much the candidate is ahead of the reference, in the score's unit."""
        ahead = self.candidate - self.reference
        return ahead if self.better == "higher" else -ahead

    def text(self) -> str:
        """Return the line for the model and for a person."""
        said = f"evals/{self.name}:"
        if self.pairs:
            many = f", means of {self.pairs} pairs, spread {self.spread:.3g}" if self.pairs > 1 else ""
            said += f" reference {self.reference:.6g}, candidate {self.candidate:.6g} ({self.better} is better{many})"
        if self.ignored is not None:
            return f"{said} does not count: {self.ignored}"
        return f"{said} {self.refused or self.undecided or self.verdict}"


class ScoreReport(msgspec.Struct, frozen=True):
    """What the evals said; those after one that refuses were not run. `seconds` is what they took."""

    lines: tuple[EvalLine, ...]
    seconds: float

    @property
    def refusal(self) -> str | None:
        """Why the candidate may not be installed, for the model; None when it may."""
        refusing = (line for line in self.lines if line.refused is not None)
        return next((f"the eval evals/{line.name} refuses it. {line.text()}" for line in refusing), None)

    @property
    def undecided(self) -> list[str]:
        """The evals that did not decide."""
        return [line.name for line in self.lines if line.undecided is not None]

    @property
    def leads(self) -> dict[str, float]:
        """By how much the candidate is ahead of the references, where it was compared."""
        return {line.name: line.lead for line in self.lines if line.pairs}

    @property
    def better(self) -> list[str]:
        """The evals in which the candidate was shown to be better."""
        return [line.name for line in self.lines if line.verdict == "better"]

    def found(self) -> str:
        """Return in a few words what came of the evals that count."""
        counts = [line.verdict for line in self.lines if line.ignored is None]
        said = [f"{counts.count(verdict)} {verdict}" for verdict in dict.fromkeys(counts)]
        return f"{', '.join(said) or 'no eval counts'} in {self.seconds:.1f} s"

    def text(self) -> str:
        """Return the report for the model and for a person: a line for each eval."""
        return "\n".join(line.text() for line in self.lines) or "no evals"


class ProgramEval(msgspec.Struct, frozen=True):
    """The program ``evals/<name>`` of the workspace `source`. `timeout`, in seconds, is for one run."""

    name: str
    trials: Trials
    source: Path
    file: str
    timeout: float

    async def run(self, changes: Changes, seeds: Sequence[int], until: float) -> Statement:
        """Run it in a copy of its own: what a run leaves behind must not reach the next one. Raises as `Eval.run`."""
        async with self.trials.copy(self.source, changes) as trial:
            left = until - time.monotonic()
            if left < _ALMOST:
                raise OutOfTime
            timeout = min(self.timeout, left)
            stdin = msgspec.json.encode({"file": self.file, "seeds": seeds})
            changed = trial.watch()
            try:
                output = await trial.run([str(trial.root / FOLDER / self.name)], stdin=stdin, timeout=timeout)
            except process.ProcessError as error:
                raise Failed("it could not be started", str(error)) from None
            if touched := changed():
                raise Failed(f"{', '.join(touched[:5])} was changed while it ran, so it proves nothing")
        if output.timed_out and timeout < self.timeout:
            raise OutOfTime
        return read(output, self.timeout)


def find(source: Path, changes: Changes | None = None) -> list[str]:
    """Return the programs among the evals, in alphabetical order: executable files, no links, no hidden names."""
    return [name for name, runs in listed(source, FOLDER, changes or {}).items() if runs]


async def score(contest: Contest, limits: ScoreLimits) -> ScoreReport:
    """Run the evals of `contest` and compare."""
    begun = time.monotonic()
    judge = _Judge(contest, limits, begun + limits.seconds)
    lines: list[EvalLine] = []
    for one in contest.evals:
        lines.append(await judge.line(one))
        if lines[-1].refused is not None:
            break
    return ScoreReport(tuple(lines), time.monotonic() - begun)


def read(output: process.Output, timeout: float) -> Statement:
    """Return what a run said. Raises `Failed`."""
    if output.timed_out:
        raise Failed(f"it took longer than {timeout:g} s", _tail(output))
    if output.signal is not None:
        raise Failed(f"it died by signal {output.signal}", _tail(output))
    if output.code:
        raise Failed(f"it ended with exit code {output.code}", _tail(output))
    if output.truncated:
        raise Failed(f"it printed more than {process.MIB} bytes")
    lines = [line for line in output.stdout.splitlines() if line.strip()]
    if not lines:
        raise Failed("it printed no score", _tail(output))
    return _statement(lines[-1])


def _statement(line: bytes) -> Statement:
    shown = line[:200].decode(errors="replace")
    try:
        said: Any = msgspec.json.decode(line)
        if isinstance(said, int | float) and not isinstance(said, bool):
            said = {"score": said}
        statement = msgspec.convert(said, Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise Failed(
            "its last line is neither a number nor a score's object", f"{shown}\n({error})"
        ) from None
    if (statement.score is None) == (not statement.scores):
        raise Failed("its object must hold either score or scores", shown)
    numbers = (*statement.found, *statement.range, statement.tolerance or 0.0, statement.cost)
    if not all(map(math.isfinite, numbers)) or statement.range[0] >= statement.range[1]:
        raise Failed("its scores and its range must be finite numbers, and the range not empty", shown)
    if (statement.tolerance or 0.0) < 0 or not 0 <= statement.runs <= MAX_RUNS or statement.tokens < 0:
        raise Failed(f"its tolerance must be 0 or more and its runs 1 to {MAX_RUNS}", shown)
    return statement


class _Side(msgspec.Struct):
    """One side of a contest in an eval: the workspace's changes, and its scores so far."""

    name: Literal["reference", "candidate"]
    changes: Changes
    scores: list[float] = []


class _Judge(msgspec.Struct):
    """One contest being decided. `until` is on the monotonic clock, `tokens` what all evals have used."""

    contest: Contest
    limits: ScoreLimits
    until: float
    tokens: int = 0

    async def line(self, measure: Eval) -> EvalLine:
        """Run one eval to its verdict."""
        reference = _Side("reference", self.contest.references[measure.name])
        candidate = _Side("candidate", self.contest.candidate)
        seeds = self._seeds(0, _FIRST)
        try:
            said = await self._run(measure, reference, seeds)
        except Failed as error:
            return EvalLine(measure.name, ignored=f"with the reference {error}")
        except (NoTrial, OutOfTime) as error:
            return EvalLine(measure.name, refused=str(error) or self._late())
        try:
            await self._run(measure, candidate, seeds, said)
            if said.is_exact:
                return _exact(measure.name, said, reference.scores[0], candidate.scores[0])
            return await self._paired(measure, said, reference, candidate)
        except Failed as error:
            return EvalLine(measure.name, refused=f"with the candidate {error}")
        except (NoTrial, OutOfTime) as error:
            return EvalLine(measure.name, refused=str(error) or self._late())

    async def _paired(self, measure: Eval, said: Statement, reference: _Side, candidate: _Side) -> EvalLine:
        """Take pairs until they have decided, or no more may be taken."""
        margin, most = _margin(said), said.runs or self.limits.runs
        test = PairedTest(margin / _width(said), self.contest.risk)
        taken, why = 0, ""
        while True:
            differences = _differences(said, reference, candidate)
            for one in differences[taken:]:
                test.add(one / _width(said))
            taken = len(differences)
            if test.done or (why := why or self._over(taken, most)):
                break
            seeds = self._seeds(taken, min(taken, most - taken) if said.scores else 1)
            why = await self._pairs(measure, said, (reference, candidate), seeds)
        line = EvalLine(
            measure.name,
            test.verdict,
            taken,
            statistics.fmean(reference.scores[:taken]),
            statistics.fmean(candidate.scores[:taken]),
            round(statistics.stdev(differences), 12) if taken > 1 else 0.0,
            margin,
            said.better,
        )
        return msgspec.structs.replace(line, **self._said(line, why))

    def _said(self, line: EvalLine, why: str) -> dict[str, str]:
        """Return why a candidate that took all its pairs may not be installed, by the field of its line."""
        if line.verdict == "worse":
            return {"refused": f"worse than the reference by more than {line.margin:.6g}"}
        if line.verdict == "undecided":
            return {"undecided": f"not shown to be no worse by more than {line.margin:.6g}: {why}"}
        lead = self.contest.leads.get(line.name, 0.0)
        if line.verdict == "no worse" and line.lead < lead - _BEHIND * line.margin:
            return {
                "refused": f"no worse than the reference, and behind what is live: that was ahead by {lead:.6g}, the "
                f"candidate is by {line.lead:.6g}"
            }
        return {}

    async def _pairs(
        self, measure: Eval, said: Statement, sides: tuple[_Side, _Side], seeds: Sequence[int]
    ) -> str:
        """Run both sides with these seeds, and return why no more may be run, "" for nothing.

        Who goes first changes with each batch, so that a machine that becomes slower slows both alike. Raises `Failed`
        where the candidate fails.
        """
        first = len(seeds).bit_length() % 2 if said.scores else seeds[0] % 2
        for side in sides if first else reversed(sides):
            try:
                await self._run(measure, side, seeds, said)
            except Failed as error:
                if side.name == "candidate":
                    raise
                return f"with the reference {error}"
            except OutOfTime:
                return self._late()
        return ""

    async def _run(
        self, measure: Eval, side: _Side, seeds: Sequence[int], first: Statement | None = None
    ) -> Statement:
        """Run one side. What holds is the `first` statement. Raises `Failed`, `OutOfTime` and `NoTrial`."""
        statement = await measure.run(side.changes, seeds, self.until)
        said = first or statement
        if len(statement.scores) != (len(seeds) if said.scores else 0):
            raise Failed(f"it printed {len(statement.scores)} scores for {len(seeds)} seeds")
        low, high = said.range
        outside = [one for one in statement.found if not (said.is_exact or low <= one <= high)]
        if outside:
            raise Failed(f"its score {outside[0]:.6g} is not in the range, which is {low:g} to {high:g}")
        side.scores += statement.found
        self.tokens += statement.tokens
        return said

    def _over(self, taken: int, most: int) -> str:
        """Why no more pairs may be taken; "" when they may."""
        if taken >= most:
            return f"{taken} pairs are all that may be taken"
        if self.limits.tokens and self.tokens >= self.limits.tokens:
            return f"the evals used up their {self.limits.tokens} tokens"
        return self._late() if time.monotonic() >= self.until else ""

    def _late(self) -> str:
        return f"the evals did not finish within {self.limits.seconds:g} s: make them quicker, or ask a person to"

    def _seeds(self, taken: int, many: int) -> list[int]:
        first = self.contest.first_seed + taken
        return list(range(first, first + many))


def _width(said: Statement) -> float:
    return said.range[1] - said.range[0]


def _margin(said: Statement) -> float:
    """By how much a candidate may be worse where chance plays a part; less than the whole range."""
    return min(max(said.tolerance or 0.0, _MARGIN * _width(said)), 0.5 * _width(said))


def _differences(said: Statement, reference: _Side, candidate: _Side) -> list[float]:
    """By how much the candidate is better, pair by pair, of those that both sides have."""
    sign = 1 if said.better == "higher" else -1
    return [sign * (new - old) for old, new in zip(reference.scores, candidate.scores, strict=False)]


def _exact(name: str, said: Statement, reference: float, candidate: float) -> EvalLine:
    allowed = said.tolerance or 0.0
    ahead = candidate - reference if said.better == "higher" else reference - candidate
    # The last bits of a difference are not a difference: 0.83 - 0.02 and 0.81 are the same score.
    if math.isclose(ahead, 0, abs_tol=1e-12):
        ahead = 0.0
    worse = -ahead > allowed and not math.isclose(-ahead, allowed, rel_tol=1e-9)
    return EvalLine(
        name,
        "worse" if worse else "better" if ahead > 0 else "no worse",
        1,
        reference,
        candidate,
        margin=allowed,
        better=said.better,
        refused=f"worse by {-ahead:.6g}, and no more than {allowed:.6g} is allowed" if worse else None,
    )


def _tail(output: process.Output) -> str:
    """The end of what a run printed: a few lines of its output, and of its standard error."""
    parts = (stream[-_SHOWN:].decode(errors="replace").strip() for stream in (output.stdout, output.stderr))
    return "\n".join(part for part in parts if part)
