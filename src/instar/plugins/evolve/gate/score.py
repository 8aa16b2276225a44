"""Score, the fourth stage of the gate: a candidate may not be worse than what is live.

Each executable in ``evals/`` is an *eval*. It is started as ``evals/<name>`` in the workspace, in a sandboxed copy of
its own for each run, with ``{"file": "hooks/x.py"}`` on its standard input: the file that is to be changed. It ends
with exit code 0, and the last line that it prints (empty ones do not count) is a number, or an object::

    {"score": 0.83, "tolerance": 0.02, "better": "higher", "runs": 5}

`tolerance` (0 or more, default 0) is how much worse a candidate may be, in the score's own unit; `better` is
``"higher"`` (default) or ``"lower"``; `runs` (1 to `MAX_RUNS`, default 1) how often to run it where chance plays a
part. Other keys are for people.

The rule: with `runs` = n the eval is run n times with the live file and n times with the candidate, in the order live,
candidate, candidate, live, …, so that a machine that becomes slower meanwhile slows both alike. The candidate is
refused when its median is worse than live's by more than ``tolerance + 2 * e``, where e = 1.2533 * s * sqrt(2 / n) is
the standard error of the difference of two medians, and s the standard deviation of *live's* scores. The candidate's
own spread is left out on purpose: one that scores at random must not earn a wider margin by that.

What `tolerance`, `better` and `runs` are is read from live's first run, never from the candidate's: an eval runs the
candidate's code, which might say what it likes. A run that fails (exit code, signal, time, no number) refuses the
candidate; an eval that fails with the live file is named and does not count. The time for
all evals together is limited; what did not finish in it refuses (a gate fails closed).
"""

import math
import os
import stat
import statistics
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import msgspec

from instar.plugin import process
from instar.plugins.evolve.trial import Changes, NoTrial, Trials

FOLDER: Final = "evals"
MAX_RUNS: Final = 32
_SHOWN: Final = 2000
_ALMOST: Final = 0.05
"""Seconds below which no further run is begun: a sandbox alone takes that long."""
_MEDIAN: Final = 1.2533
"""The standard error of a median over that of a mean, for normal errors: sqrt(pi / 2)."""


class Statement(msgspec.Struct, frozen=True):
    """What one run of an eval said."""

    score: float
    tolerance: float = 0.0
    better: Literal["higher", "lower"] = "higher"
    runs: int = 1


class Failed(Exception):
    """A run of an eval that gave no score; the text says why, and what it printed."""

    def __init__(self, why: str, printed: str = "") -> None:
        super().__init__(f"{why}; it printed:\n{printed}" if printed else why)


class Contest(msgspec.Struct, frozen=True):
    """What is compared: `file` of the workspace `source` with the changes `live`, and with `candidate`.

    `live` is empty where the workspace stands as accepted. `evals` are names in ``evals/``, see `find`.
    """

    source: Path
    file: str
    candidate: Changes
    live: Changes
    evals: Sequence[str]


class EvalLine(msgspec.Struct, frozen=True):
    """One eval: its scores in the order of the runs, by how much the candidate might be worse, and what came of it.

    `ignored` says why it does not count, `refused` why the candidate may not be installed; at most one is set.
    """

    name: str
    live: tuple[float, ...] = ()
    candidate: tuple[float, ...] = ()
    margin: float = 0.0
    better: Literal["higher", "lower"] = "higher"
    ignored: str | None = None
    refused: str | None = None


class ScoreReport(msgspec.Struct, frozen=True):
    """What the evals said; those after one that refuses were not run. `seconds` is what they took."""

    lines: tuple[EvalLine, ...]
    seconds: float

    @property
    def refusal(self) -> str | None:
        """Why the candidate may not be installed, for the model; None when it may."""
        refusing = (line for line in self.lines if line.refused is not None)
        return next((f"the eval evals/{line.name} refuses it. {_shown(line)}" for line in refusing), None)

    def text(self) -> str:
        """Return the report for the model and for a person: a line for each eval."""
        if not self.lines:
            return "no evals"
        return "\n".join(_shown(line) for line in self.lines)


def find(source: Path) -> list[str]:
    """Return the evals of a workspace in alphabetical order: executable files, no links, no hidden names."""
    try:
        entries = list(os.scandir(source / FOLDER))
    except OSError:
        return []
    return sorted(entry.name for entry in entries if not entry.name.startswith((".", "__")) and _runs(entry))


async def score(trials: Trials, contest: Contest, *, timeout: float, seconds: float) -> ScoreReport:
    """Run the evals of `contest` and compare. `timeout` is for one run, `seconds` for all, both in seconds."""
    begun = time.monotonic()
    judge = _Judge(trials, contest, timeout, begun + seconds, seconds)
    lines: list[EvalLine] = []
    for name in contest.evals:
        lines.append(await judge.line(name))
        if lines[-1].refused is not None:
            break
    return ScoreReport(tuple(lines), time.monotonic() - begun)


def margin(live: Sequence[float], tolerance: float) -> float:
    """Return by how much a candidate's median may be worse than that of the `live` scores: the module's rule."""
    if len(live) < 2:
        return tolerance
    return tolerance + 2 * _MEDIAN * statistics.stdev(live) * math.sqrt(2 / len(live))


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
    if not math.isfinite(statement.score) or not math.isfinite(statement.tolerance):
        raise Failed("its score is not a finite number", shown)
    if statement.tolerance < 0 or not 1 <= statement.runs <= MAX_RUNS:
        raise Failed(f"its tolerance must be 0 or more and its runs 1 to {MAX_RUNS}", shown)
    return statement


class _Late(Exception):
    """The time for all evals is over."""


class _Judge(msgspec.Struct, frozen=True):
    """One contest being decided. `until` is on the monotonic clock, `seconds` what it allows in all."""

    trials: Trials
    contest: Contest
    timeout: float
    until: float
    seconds: float

    async def line(self, name: str) -> EvalLine:
        """Run one eval to its verdict."""
        live = self.contest.live.items()
        touched = [path for path, _ in self.contest.candidate.items() - live if _in_evals(path)]
        if touched:
            return EvalLine(name, refused=f"a candidate may not change {touched[0]}: evals are a person's")
        try:
            return await self._contested(name)
        except NoTrial as error:
            return EvalLine(name, refused=str(error))
        except _Late:
            why = f"the evals did not finish within {self.seconds:g} s: make them quicker, or ask a person to"
            return EvalLine(name, refused=why)

    async def _contested(self, name: str) -> EvalLine:
        live, candidate = list[float](), list[float]()
        first: Statement | None = None
        turns = "l"
        while turns:
            turn, turns = turns[0], turns[1:]
            try:
                said = await self._run(name, self.contest.live if turn == "l" else self.contest.candidate)
            except Failed as error:
                if turn == "l":
                    return EvalLine(name, ignored=f"with the live file {error}")
                return EvalLine(name, refused=f"with the candidate {error}")
            (live if turn == "l" else candidate).append(said.score)
            if first is None:
                first = said
                turns = "".join("lc" if run % 2 == 0 else "cl" for run in range(said.runs))[1:]
        assert first is not None
        return _compared(name, first, live, candidate)

    async def _run(self, name: str, changes: Changes) -> Statement:
        """One run in a copy of its own: what a run leaves behind must not reach the next one."""
        async with self.trials.copy(self.contest.source, changes) as trial:
            left = self.until - time.monotonic()
            if left < _ALMOST:
                raise _Late
            timeout = min(self.timeout, left)
            stdin = msgspec.json.encode({"file": self.contest.file})
            changed = trial.watch()
            try:
                output = await trial.run([str(trial.root / FOLDER / name)], stdin=stdin, timeout=timeout)
            except process.ProcessError as error:
                raise Failed("it could not be started", str(error)) from None
            if touched := changed():
                raise Failed(f"{', '.join(touched[:5])} was changed while it ran, so it proves nothing")
        if output.timed_out and timeout < self.timeout:
            raise _Late
        return read(output, self.timeout)


def _compared(name: str, said: Statement, live: Sequence[float], candidate: Sequence[float]) -> EvalLine:
    allowed = margin(live, said.tolerance)
    worse = statistics.median(live) - statistics.median(candidate)
    if said.better == "lower":
        worse = -worse
    refused = None
    # The last bits of a difference are not a difference: 0.83 - 0.02 and 0.81 are the same score.
    if worse > allowed and not math.isclose(worse, allowed, rel_tol=1e-9, abs_tol=1e-12):
        refused = f"worse by {worse:.6g}, and no more than {allowed:.6g} is allowed"
    return EvalLine(name, tuple(live), tuple(candidate), allowed, said.better, refused=refused)


def _shown(line: EvalLine) -> str:
    said = f"evals/{line.name}:"
    if line.live and line.candidate:
        was, now = statistics.median(line.live), statistics.median(line.candidate)
        runs = f", medians of {len(line.live)} runs" if len(line.live) > 1 else ""
        said += f" live {was:.6g}, candidate {now:.6g} ({line.better} is better{runs})"
    if line.ignored is not None:
        return f"{said} does not count: {line.ignored}"
    return f"{said} {line.refused}" if line.refused is not None else said


def _tail(output: process.Output) -> str:
    """The end of what a run printed: a few lines of its output, and of its standard error."""
    parts = (stream[-_SHOWN:].decode(errors="replace").strip() for stream in (output.stdout, output.stderr))
    return "\n".join(part for part in parts if part)


def _in_evals(path: str) -> bool:
    parts = [part.casefold() for part in PurePosixPath(os.path.normpath(path)).parts]
    return parts[:1] == [FOLDER]


def _runs(entry: "os.DirEntry[str]") -> bool:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(info.st_mode) and bool(info.st_mode & stat.S_IXUSR)
