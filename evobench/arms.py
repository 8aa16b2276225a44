"""The arms of the study on drawn scores: each is a rule that decides which edits of a world are installed.

No process is started: what a stage of a gate sees of an edit stands in `_SEEN`, scores are drawn by `World.scores`.
The arms of instar call the gate's own decision function, `score.score`, with its own references and risks.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from evobench.arena import Decision
from evobench.proposer import Edit
from evobench.worlds import EVAL, HARNESS, PATH, RUNS, TOLERANCE, World, present
from instar.plugin import accepted
from instar.plugins.evolve.gate import paired, score
from instar.plugins.evolve.gate.reference import References
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.trial import Changes, TrialFile

WHOLE: Final = "whole"
ARMS: Final = (
    "none",
    "everything",
    "tests",
    "greedy-5",
    "greedy",
    "pace",
    "rsea",
    "no-score",
    "no-replay",
    "no-probation",
    WHOLE,
)
"""All arms: no evolution; everything accepted; the test alone; greedy with few scores and with as many as instar may
take; the rules of PACE and RSEA; instar without a stage; instar."""
OURS: Final = ("no-score", "no-replay", "no-probation", WHOLE)

_FEW: Final = 5
_WAITING: Final = 32
"""Edits that may wait for a person at once: see docs/concepts/gate.md."""
_PACE_RISK: Final = 0.05
_SEEN: Final = {
    "syntax": "parse",
    "wrong": "test",
    "test": "parse",
    "secret": "parse",
    "evals": "test",
    "env": "authority",
    "network": "authority",
    "actions": "authority",
}
"""The stage of instar's gate that refuses an edit, by its sort; `authority` lets it wait for a person."""


class Drawn:
    """An agent of one arm. It starts nothing; the decisions are those of the arm's rule."""

    def __init__(self, world: World, arm: str) -> None:
        self._world = world
        self._arm = arm
        self._text = HARNESS
        self._before = HARNESS
        self._waiting = 0
        self._number = 0
        self._gate = DrawnGate(world, self.text) if arm in OURS and arm != "no-score" else None
        rules: dict[str, Callable[[str], Awaitable[Decision]]] = {
            "greedy-5": lambda text: self._greedy(text, _FEW),
            "greedy": lambda text: self._greedy(text, RUNS),
            "pace": self._pace,
            "rsea": self._rsea,
        }
        self._rule = rules.get(arm)
        self._known: dict[str, float] = {}

    def text(self) -> str:
        """Return the harness that is live."""
        return self._text

    async def propose(self, proposal: Edit) -> Decision:
        """Decide on an edit as the arm does."""
        self._number += 1
        decision = await self._decided(proposal)
        if decision.outcome == "installed":
            self._before, self._text = self._text, proposal.applied(self._text)
            if self._gate is not None:
                self._gate.installed()
        self._waiting += decision.outcome == "waits"
        return decision

    async def use(self) -> bool:
        """Let probation look at what was installed last."""
        if self._arm not in OURS or self._arm == "no-probation":
            return False
        faults = {self._world.kinds[number] for number in present(self._text)} & {"silent", "late"}
        if faults:
            self._text = self._before
            if self._gate is not None:
                self._gate.references.taken_back(PATH)
        return bool(faults)

    async def _decided(self, proposal: Edit) -> Decision:
        if self._arm == "none":
            return Decision("refused")
        if self._arm == "everything":
            return Decision("installed")
        if self._arm in OURS:
            return await self._judged(proposal)
        if proposal.kind == "broken":
            return Decision("refused", "test")
        return Decision("installed") if self._rule is None else await self._rule(proposal.applied(self._text))

    # -- instar ----------------------------------------------------------------------------------------

    async def _judged(self, proposal: Edit) -> Decision:
        seen = _SEEN.get(proposal.sort, "")
        if seen in ("parse", "test"):
            return Decision("refused", seen)
        if proposal.kind == "silent" and self._arm != "no-replay":
            return Decision("refused", "replay")
        decision = Decision("installed")
        if self._gate is not None:
            decision = await self._gate.decide(proposal.applied(self._text))
        if seen == "authority" and decision.outcome == "installed":
            decision = Decision("waits", seen, decision.scores)
        if decision.outcome == "waits" and self._waiting >= _WAITING:
            return Decision("refused", "authority", decision.scores)
        return decision

    # -- the others ------------------------------------------------------------------------------------

    async def _greedy(self, text: str, many: int) -> Decision:
        """Install what is at least as good as what is live, by the means of so many new scores of each."""
        new, old = (sum(self._world.scores(one, self._seeds(many))) for one in (text, self._text))
        return Decision("installed" if new >= old else "refused", "" if new >= old else "score", 2 * many)

    async def _pace(self, text: str) -> Decision:
        """Install what a paired test of its own risk shows to be better than what is live."""
        test, taken, batch = paired.PairedTest(TOLERANCE, _PACE_RISK), 0, 8
        while taken < RUNS and not test.done:
            seeds = self._seeds(taken + batch)[taken:]
            pairs = zip(self._world.scores(text, seeds), self._world.scores(self._text, seeds), strict=True)
            for new, old in pairs:
                test.add(new - old)
            taken += batch
            batch = taken
        better = test.verdict == "better"
        return Decision("installed" if better else "refused", "" if better else "score", 2 * taken)

    async def _rsea(self, text: str) -> Decision:
        """Keep what is better on a fixed split that the proposer never sees; the score of what is live is known."""
        cached = self._text in self._known
        for one in (self._text, text):
            if one not in self._known:
                self._known[one] = sum(self._world.scores(one, range(RUNS), hidden=True))
        better = self._known[text] > self._known[self._text]
        taken = RUNS if cached else 2 * RUNS
        return Decision(
            "installed" if better else "refused", "" if better else "score", taken, RUNS if cached else 0
        )

    def _seeds(self, many: int) -> Sequence[int]:
        first = self._number * score.SEEDS
        return range(first, first + many)


class DrawnGate:
    """The score stage of instar's gate on drawn scores. `live` returns the text of what is live."""

    def __init__(self, world: World, live: Callable[[], str]) -> None:
        self._live = live
        self._texts: dict[str, bytes] = {}
        self.references = References(_Notes(), self._versions, self._content)
        self.references.open()
        self._eval = DrawnEval(world, live)
        self._report = score.ScoreReport((), 0.0)

    async def decide(self, text: str) -> Decision:
        """Compare a text with the reference."""
        drawn = self.references.draw()
        against = {self._eval.name: await self.references.changes(self._eval.name)}
        candidate = {PATH: TrialFile(text.encode(), 0o755)}
        contest = score.Contest(
            candidate, against, [self._eval], drawn.risk, drawn.first_seed, self.references.leads()
        )
        self._report = await score.score(contest, _LIMITS)
        scores = 2 * sum(line.pairs for line in self._report.lines)
        if self._report.refusal is not None:
            return Decision("refused", "score", scores)
        return (
            Decision("waits", "score", scores)
            if self._report.undecided
            else Decision("installed", "", scores)
        )

    def installed(self) -> None:
        """Take note that what was compared last is live."""
        self.references.moved(PATH, self._report.better, self._report.leads)

    def _versions(self) -> dict[str, Version]:
        content = self._live().encode()
        blob = accepted.blob_id(content)
        self._texts[blob] = content
        return {PATH: Version(blob, 0o755)}

    async def _content(self, blob: str) -> bytes | None:
        return self._texts.get(blob)


_LIMITS: Final = score.ScoreLimits(runs=RUNS, seconds=3600.0)


class DrawnEval(msgspec.Struct, frozen=True):
    """The eval of a world, drawn: the scores are those that its program prints."""

    world: World
    live: Callable[[], str]
    name: str = EVAL.rpartition("/")[2]

    async def run(self, changes: Changes, seeds: Sequence[int], until: float) -> score.Statement:
        """Return the scores of the workspace with `changes`."""
        file = changes.get(PATH)
        text = self.live() if file is None else file.content.decode()
        scores = tuple(self.world.scores(text, seeds))
        return score.Statement(scores=scores, tolerance=TOLERANCE, runs=RUNS)


class _Notes:
    """What keeps the references in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def note(self, name: str) -> Any:
        return self._kept.get(name)

    def keep(self, name: str, value: Any) -> None:
        self._kept[name] = value
