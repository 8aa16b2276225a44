"""Held-out evals: they only watch. The gate never runs them, and nothing that runs for the model can read them.

They are programs of the protocol of `gate.score`, kept in instar's data. After each change of the agent's they compare
what is live with what a person accepted, by the same test; where it is shown to be worse, the change is taken back.
A change that learned the evals of the gate by heart is found out so. What a process that ends cuts short is begun anew
by the next one.
"""

import asyncio
import logging
import shutil
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import document, process
from instar.plugins.evolve.candidate import Candidates
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.gate import score
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.state import RollBack
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile
from instar.plugins.evolve.workspace import visible

log = logging.getLogger("instar.evolve")

_NOTE: Final = "held-out"
_MOST: Final = 50
"""Changes that are remembered until they were watched."""
_PREFIX: Final = "held-out-"
"""Before their names in a copy, so that none stands in the place of an eval of the workspace."""


class BadHeldOut(Exception):
    """A held-out eval that cannot be added or removed; the text says why."""


class HeldOutChange(msgspec.Struct, frozen=True):
    """A change that is to be watched: its file, the version that it made live, and the one before."""

    path: str
    version: str
    before: str


class HeldOutEvals:
    """The held-out evals of one workspace. `settle` is called once a rollback is owed."""

    def __init__(
        self,
        storage: Storage,
        policy: ExecutionPolicy,
        candidates: Candidates,
        observer: Observer,
        limits: score.ScoreLimits,
    ) -> None:
        self._storage = storage
        self._policy = policy
        self._candidates = candidates
        self._observer = observer
        self._limits = limits
        self._folder = storage.folder / "held-out"

    def names(self) -> list[str]:
        """Return their names in alphabetical order."""
        try:
            return sorted(path.name for path in self._folder.iterdir() if visible(path.name))
        except FileNotFoundError:
            return []

    def add(self, program: Path) -> str:
        """Keep a copy of a program, in place of one with its name, and return the name.

        Raises `BadHeldOut` for what is no executable file, and `OSError`.
        """
        if not visible(program.name) or not program.is_file() or not program.stat().st_mode & stat.S_IXUSR:
            raise BadHeldOut(f"{program} is no executable file: chmod +x it")
        document.private_folder(self._folder)
        shutil.copyfile(program, self._folder / program.name)
        return program.name

    def remove(self, name: str) -> None:
        """Forget one. Raises `BadHeldOut` where there is none of this name, and `OSError`."""
        if name not in self.names():
            raise BadHeldOut(f"there is no held-out eval {name!r}")
        (self._folder / name).unlink()

    def installed(self, change: HeldOutChange) -> None:
        """Let the next `watch` watch a change of the agent's. Raises `OSError`."""
        if self.names():
            self._keep([*self._unwatched(), change])

    def due(self) -> HeldOutChange | None:
        """Return the newest change that is to be watched and is live."""
        return next((one for one in reversed(self._unwatched()) if self.is_live(one)), None)

    def is_live(self, change: HeldOutChange) -> bool:
        """Whether the version that a change made live is so now."""
        live = self._storage.ledger.files.get(change.path)
        return live is not None and live.blob == change.version

    async def watch(self, change: HeldOutChange) -> str:
        """Compare what is live with the reference. Return why the change is owed a rollback, "" where it is not.

        What is live holds all changes that are to be watched: where it is no worse, none of them is.
        Raises `NotChanged` where there is nothing to compare with.
        """
        restored, _ = await self._candidates.restored()
        root, references = self._storage.ledger.root, self._storage.references
        names = self.names()
        programs = {
            f"{score.FOLDER}/{_PREFIX}{name}": TrialFile((self._folder / name).read_bytes(), 0o755)
            for name in names
        }
        bench = await self._policy.bench()
        evals = [
            score.ProgramEval(f"{_PREFIX}{name}", bench.trials, root, change.path, bench.timeout)
            for name in names
        ]
        against = {one.name: {**restored, **await references.changes(one.name), **programs} for one in evals}
        drawn = references.draw(counted=False)
        contest = score.Contest({**restored, **programs}, against, evals, drawn.risk, drawn.first_seed)
        report = await score.score(contest, self._limits)
        log.info("evolve=held-out file=%s found=%r", change.path, report.found())
        if self.due() != change:
            return ""  # something else went live meanwhile
        worse = next((line for line in report.lines if line.verdict == "worse"), None)
        # One that is taken back may not have been the one that harmed: those before it are watched again.
        self._keep([] if worse is None else [one for one in self._unwatched() if one != change])
        if worse is None:
            references.moved(change.path, report.better, report.leads)
            return ""
        why = (
            f"the held-out eval {worse.name.removeprefix(_PREFIX)} shows that it is worse than what a person accepted "
            f"(by more than {worse.margin:.6g}, in {worse.pairs} pairs)"
        )
        self._observer.condemned(RollBack(change.path, change.version, change.before, why))
        return why

    def _unwatched(self) -> list[HeldOutChange]:
        """The changes that are to be watched, the oldest first."""
        try:
            return msgspec.convert(self._storage.note(_NOTE), list[HeldOutChange])
        except msgspec.ValidationError:
            return []

    def _keep(self, changes: list[HeldOutChange]) -> None:
        self._storage.keep(_NOTE, msgspec.to_builtins(changes[-_MOST:]))


class HeldOutWatch:
    """Runs `HeldOutEvals` beside the sessions, one change at a time. `settle` takes back what is owed."""

    def __init__(self, evals: HeldOutEvals, settle: Callable[[], Awaitable[None]]) -> None:
        self._evals = evals
        self._settle = settle
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Watch what is due, where nothing is being watched."""
        if (self._task is None or self._task.done()) and self._evals.due() is not None:
            self._task = asyncio.create_task(self._run(), name="held-out evals")

    async def close(self) -> None:
        """End what is being watched; the next process begins it anew."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while (change := self._evals.due()) is not None:
            try:
                if await self._evals.watch(change):
                    await self._settle()
                    if self._evals.is_live(change):
                        return  # it could not be taken back, and says nothing of those before it
            except (NotChanged, OSError, process.ProcessError) as error:
                log.warning("evolve=held-out problem=%r", str(error))
                return
