"""How a workspace stands: what it is made of, what goes on in it, what is wrong; for commands and the server."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve import discovery
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.evals.case import load
from instar.plugins.evolve.history.commits import is_repository
from instar.plugins.evolve.history.repository import FAILED, is_start
from instar.plugins.evolve.history.timeline import SEARCHED
from instar.plugins.evolve.history.trailers import one_line
from instar.plugins.evolve.ledger.ledger import Departure
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.workspace import Workspace

_NO_REPOSITORY: Final = "no repository yet; evolve makes it when it runs"
_WIDTH: Final = 4000
"""Characters of one line."""


class HookScript(msgspec.Struct, frozen=True):
    """A hook script as `status` shows it; the rest is unknown when it was not run."""

    file: str
    name: str | None = None
    test: str | None = None
    tools: list[str] = []

    def text(self) -> str:
        """Return it as one line."""
        if not self.name:
            return f"{self.file} (not run)"
        return f"{self.file}: name {self.name}, test {self.test or 'none'}, tools {', '.join(self.tools) or 'none'}"


class WaitingChange(msgspec.Struct, frozen=True):
    """A change that waits for a person, and what it would reach."""

    id: str
    file: str
    raised: tuple[str, ...]


class EvolveStatus(msgspec.Struct, frozen=True):
    """How a workspace stands. `active` says whether evolve would be on, and so whether scripts were run.

    `epoch` is None for a workspace that evolve has not worked on yet, `level` how far children are confined here,
    `frozen` why nothing may change ("": it may), `probation` how the trial of each file stands. `learned` counts the
    agent's changes that are live: of the newest 1,000 commits those that were not taken back.
    """

    workspace: str
    source: str
    active: bool
    scripts: list[HookScript]
    history: str | None
    problems: list[str]
    epoch: int | None = None
    level: str | None = None
    frozen: str = ""
    departures: list[Departure] = []
    probation: dict[str, str] = {}
    waiting: list[WaitingChange] = []
    learned: int = 0

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [("workspace", f"{self.workspace} ({self.source})")]
        lines += [("script", one.text()) for one in self.scripts]
        lines += [] if self.history is None else [("history", self.history)]
        if self.epoch is not None:
            lines += [("epoch", str(self.epoch)), ("sandbox", str(self.level))]
        lines += [("probation", f"{file}: {said}") for file, said in self.probation.items()]
        lines += [("waits", f"{one.id} {one.file}: {'; '.join(one.raised)}") for one in self.waiting]
        lines += [("problem", problem) for problem in self.problems]
        return "\n".join(f"{name:11}{one_line(said, _WIDTH)}" for name, said in lines)


class HookCalls(msgspec.Struct, frozen=True):
    """How the newest calls of one hook of a script went, those that are kept for the replay.

    `failed` counts by kind, `median` and `slowest` are ms, `last` is when the newest began (ms since 1970).
    """

    script: str
    hook: str
    calls: int
    failed: dict[str, int]
    median: float
    slowest: int
    last: int


def unread(workspace: Workspace, source: str, problems: Sequence[str]) -> EvolveStatus:
    """Return what can be said of a workspace of which nothing is run; `source` is what named it."""
    files = [HookScript(f"hooks/{entry.name}") for entry in workspace.hook_files()]
    return EvolveStatus(str(workspace.root), source, False, files, None, list(problems))


def departed(engine: EvolveEngine) -> list[str]:
    """Return a sentence on each file that was changed behind the gate's back."""
    ledger = engine.storage.ledger
    return [one.text for one in ledger.check()] if ledger.is_known() else []


async def read(engine: EvolveEngine, scripts: Scripts, source: str, problems: Sequence[str]) -> EvolveStatus:
    """Return how a workspace stands whose `scripts` are discovered; `problems` are those of its settings."""
    ledger = engine.storage.ledger
    seen = ledger.is_known()
    frozen = await engine.evolution.frozen()
    evals = [
        f"{why} (no change is installed until it is mended)"
        for why in load(ledger.root, {}).problems.values()
    ]
    said = [frozen, *engine.problems, *scripts.notes, *scripts.problems, *_tests_missing(scripts), *evals]
    collisions = discovery.collisions(scripts.registrations)[1]
    paths = sorted(ledger.files)
    waiting = engine.storage.pending.list()
    return EvolveStatus(
        workspace=str(engine.real.root),
        source=source,
        active=True,
        scripts=[
            HookScript(
                f"hooks/{one.file}",
                one.name,
                f"tests/{one.test}" if one.test else None,
                [tool.full for tool in one.tools],
            )
            for one in scripts.registrations
        ],
        history=await _newest(engine),
        problems=list(
            dict.fromkeys([*problems, *(text for text in said if text), *collisions, *waiting.problems])
        ),
        epoch=ledger.epoch if seen else None,
        level=(await engine.policy.level()).name if seen else None,
        frozen=frozen,
        departures=ledger.check() if seen else [],
        probation={path: trial for path in paths if (trial := engine.observer.describe(path)) is not None},
        waiting=[
            WaitingChange(one.id, one.proposal.file, one.proposal.raised)
            for one in waiting.entries
            if one.state == "waiting"
        ],
        learned=await _learned(engine),
    )


async def calls(engine: EvolveEngine) -> list[HookCalls]:
    """Return how the calls of each script's hooks went lately."""
    records = (await engine.storage.records.read()).records
    lately = []
    for script, hook in sorted({(one.script, one.hook) for one in records}):
        found = [one for one in records if (one.script, one.hook) == (script, hook)]
        failed = Counter[str](one.failure for one in found if one.failure is not None)
        took = [one.duration for one in found]
        newest = max(one.at for one in found)
        lately.append(
            HookCalls(script, hook, len(found), dict(failed), statistics.median(took), max(took), newest)
        )
    return lately


def _tests_missing(scripts: Scripts) -> list[str]:
    return [
        f"hooks/{one.file}: its test tests/{one.test} is missing, so no change of it can go live"
        for one in scripts.registrations
        if one.test and not (scripts.workspace.tests / one.test).is_file()
    ]


async def _newest(engine: EvolveEngine) -> str:
    if not is_repository(engine.real.root):
        return _NO_REPOSITORY
    try:
        return next(iter(await engine.history.entries(1)), "no commits yet")
    except (git.GitError, process.ProcessError) as error:
        return str(error).splitlines()[0]


async def _learned(engine: EvolveEngine) -> int:
    try:
        commits = await engine.storage.revisions.newest(SEARCHED) if is_repository(engine.real.root) else []
    except FAILED:
        return 0
    gone = [one.trailers.rolls_back for one in commits if one.trailers.rolls_back]
    own = [one for one in commits if one.trailers.call and not one.trailers.rolls_back]
    return sum(not any(is_start(named, one.id) for named in gone) for one in own)
