"""Several candidates for one file: which of those that passed their trials is the best, and what became of each."""

from typing import Final, Literal, NamedTuple

import msgspec

from instar.plugins.evolve.gate.score import EvalLine
from instar.plugins.evolve.gate.stages import GateVerdict

MOST: Final = 5
"""Candidates that may be proposed at once."""


class Fate(msgspec.Struct, frozen=True):
    """What became of one candidate; `why` it was not installed, with what its trial printed.

    `stage` is the gate's that refused it. One is ``not tried`` where it changes nothing, or is the same as another.
    """

    outcome: Literal["installed", "waits", "refused", "passed over", "not tried"]
    why: str = ""
    stage: str = ""


class Rank(NamedTuple):
    """By what candidates are compared: the lowest is the best, and the first entry that differs decides."""

    better: int
    raised: int
    ahead: float
    answers: int
    lines: int


_WORDS: Final = (
    "is better in {:g} evals",
    "needs a person's word on {:g} things",
    "is ahead of the reference by {:g} of its score",
    "changes {:g} past answers",
    "changes {:g} lines",
)


def rank(verdict: GateVerdict, diff: str) -> Rank:
    """Return the rank of a candidate that passed its trials; `diff` is what it changes.

    First in how many evals it was shown to be better, then how few things a person has to allow; then by how much it is
    better, how few past answers it changes, and how few lines.
    """
    better = [line for line in verdict.score.lines if line.verdict == "better"] if verdict.score else []
    answers = len(verdict.replay.changed) if verdict.replay else 0
    lines = sum(line.startswith(("+", "-")) for line in diff.split("\n")[2:])
    return Rank(-len(better), len(verdict.raised), -round(sum(map(_ahead, better)), 2), answers, lines)


def preferred(best: Rank, other: Rank) -> str:
    """Return why the candidate of the rank `best` comes before another one."""
    for words, its, mine in zip(_WORDS, best, other, strict=True):
        if its != mine:
            return f"it {words.format(abs(its))}, this one {abs(mine):g}"
    return "it was given first"


def _ahead(line: EvalLine) -> float:
    return line.lead / (abs(line.reference) or 1.0)
