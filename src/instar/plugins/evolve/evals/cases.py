"""What the gate measures with: all evals that are files, as one eval.

A seed draws a case, by a hash of it, so that the cases of several seeds are drawn independently. Where no case plays
with chance (`Case.is_exact`) each is run once instead, and the score is the mean of all.
"""

import hashlib
import statistics
from collections.abc import Hashable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import msgspec

from instar.plugin import Client
from instar.plugins.evolve.evals.case import Case, Suite
from instar.plugins.evolve.evals.run import CaseRun, CaseRunner, each
from instar.plugins.evolve.gate.score import Statement
from instar.plugins.evolve.trial import Bench, Changes, NoTrial

NAME: Final = "cases"
AT_ONCE: Final = 4
"""Runs at the same time: most of one is waiting for its model."""


class FileEvals:
    """The cases of `suite`, one eval (`gate.score.Eval`) of one contest."""

    name = NAME

    def __init__(self, suite: Suite, runner: CaseRunner) -> None:
        self._suite, self._runner = suite, runner
        self._drawn = [case for case in suite.cases for _ in range(case.repeats)]
        # A case without chance is run once with each version. The contest keeps the versions, so ids stay their own.
        self._known: dict[Hashable, CaseRun] = {}
        self._scores: dict[int, dict[str, list[float]]] = {}

    async def run(self, changes: Changes, seeds: Sequence[int], until: float) -> Statement:
        """Measure the workspace with `changes`. Raises as `CaseRunner.run`, and `NoTrial` for an unusable file."""
        if self._suite.problems:
            problems = "; ".join(self._suite.problems.values())
            raise NoTrial(f"{problems} (a person mends it and runs instar evolve accept)")
        exact = all(case.is_exact for case in self._suite.cases)
        wanted = self._suite.cases if exact else [self._draw(seed) for seed in seeds]
        keys: list[Hashable] = [
            (id(changes), case.name) if case.is_exact else at for at, case in enumerate(wanted)
        ]
        todo = {key: case for key, case in zip(keys, wanted, strict=True) if key not in self._known}
        runs = await each(self._runner, [(case, changes) for case in todo.values()], until, AT_ONCE)
        found = self._known | dict(zip(todo, runs, strict=True))
        self._known |= {key: found[key] for key, case in todo.items() if case.is_exact}
        scores = tuple(found[key].score for key in keys)
        for case, score in zip(wanted, scores, strict=True):
            self._scores.setdefault(id(changes), {}).setdefault(case.name, []).append(score)
        tokens, cost = sum(run.tokens for run in runs), sum(run.cost or 0.0 for run in runs)
        tolerance = statistics.fmean(case.tolerance for case in self._drawn)
        said = Statement(tolerance=tolerance, tokens=tokens, cost=cost)
        if exact:
            return msgspec.structs.replace(said, score=statistics.fmean(scores))
        return msgspec.structs.replace(said, scores=scores)

    def worse(self, reference: Changes, candidate: Changes) -> list[str]:
        """Return the cases in which the candidate scored less, in the mean, than the reference."""
        old, new = self._scores.get(id(reference), {}), self._scores.get(id(candidate), {})
        return [
            name for name in old if name in new and statistics.fmean(new[name]) < statistics.fmean(old[name])
        ]

    def _draw(self, seed: int) -> Case:
        mark = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
        return self._drawn[int.from_bytes(mark) % len(self._drawn)]


def asking(suite: Suite, bench: Bench) -> AbstractAsyncContextManager[Client | None]:
    """Return what opens the client that asks models; it gives None where no case needs one.

    Entering it raises `NoTrial` where no model can be asked.
    """
    return bench.client() if any(case.asks_model for case in suite.cases) else nullcontext()
