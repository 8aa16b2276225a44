"""What a person orders on a workspace, by a command or through the server: both do the same and say the same.

Whoever calls these has seen to it that a person asks.
"""

import os
import pwd
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from instar.plugin import document, git, process
from instar.plugins.evolve.attempt import Progress
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate.pending import Listing, NotPending, PendingEntry
from instar.plugins.evolve.history.blame import NoLine
from instar.plugins.evolve.history.commits import WorkspaceCommit
from instar.plugins.evolve.history.pins import BadPin, Pin
from instar.plugins.evolve.history.repository import NoSuchChange
from instar.plugins.evolve.install import ChangeCause, NotChanged
from instar.plugins.evolve.ledger.ledger import LedgerError, WorkspaceBusy
from instar.plugins.evolve.trial import NoTrial


class Made(msgspec.Struct, frozen=True):
    """Files that were changed by an order: the epoch that it made, and its commit ("": git failed, `problem` says how).

    `probation` says how the trial of each file stands that is on trial.
    """

    files: list[str]
    epoch: int
    commit: str
    problem: str = ""
    probation: dict[str, str] = {}

    @classmethod
    def of(
        cls, engine: EvolveEngine, files: Sequence[str], epoch: int, commit: WorkspaceCommit | None
    ) -> Self:
        """Return what was changed."""
        trials = {file: said for file in files if (said := engine.observer.describe(file)) is not None}
        made = "" if commit is None else commit.id
        return cls(list(files), epoch, made, engine.history.problem or "", trials)

    def text(self, did: str) -> str:
        """Return it for a terminal; `did` is what was done."""
        commit = f"commit {self.commit}" if self.commit else self.problem or "as git has it already"
        lines = [f"{did} {', '.join(self.files)} (epoch {self.epoch}, {commit})"]
        lines += [f"{file} is {said}" for file, said in self.probation.items()]
        return "\n".join(lines)


FAILURES: Final = (
    *(
        NotChanged,
        NotPending,
        NoSuchChange,
        NoLine,
        NoTrial,
        CandidateRefused,
        BadPin,
        LedgerError,
        WorkspaceBusy,
    ),
    *(git.GitError, process.ProcessError, document.DocumentError),
)
"""What evolve refuses, and what fails on its way, with a sentence for the person."""
NO_REPOSITORY: Final = "{} is no git repository yet: evolve makes it when it runs"
PERSON: Final = ChangeCause(by="person")


class Rejected(msgspec.Struct, frozen=True):
    """A change that was refused for good."""

    id: str
    file: str


class Again(msgspec.Struct, frozen=True):
    """A file of which refused candidates, `count` of them, may be tried again."""

    file: str
    count: int


def who() -> str:
    """Return the login name of whoever gives the order: instar's own user, who alone can."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


async def roll_back(engine: EvolveEngine, ref: str) -> Made:
    """Take the change `ref` back ("": the newest). Raises `NotChanged` and `NoSuchChange`."""
    demand_live(engine)
    changed = await engine.rollback.roll_back(ref, PERSON)
    return Made.of(engine, changed.files, changed.epoch, changed.commit)


def pin(engine: EvolveEngine, file: str) -> Pin:
    """Keep the agent from changing a file, or what is in a folder. Raises `BadPin`, `OSError`."""
    done = engine.storage.pins.add(file, who())
    engine.change_installer.happened("pinned", PERSON, [done.file], f"by {done.by}")
    return done


def unpin(engine: EvolveEngine, file: str) -> Pin:
    """Let the agent change a file again. Raises `NotChanged` where it has no pin of its own, `BadPin`, `OSError`."""
    done = engine.storage.pins.remove(file)
    if done is None:
        raise NotChanged(_unpinned(engine, file))
    engine.change_installer.happened("unpinned", PERSON, [done.file], f"by {who()}")
    return done


def again(engine: EvolveEngine, file: str) -> Again:
    """Let the agent propose once more what was refused for a file. Raises `OSError`."""
    done = Again(file, engine.storage.known.again(file))
    engine.change_installer.happened("again", PERSON, [file], f"by {who()}")
    return done


def pending(engine: EvolveEngine, *, rejected: bool) -> Listing:
    """Return what waits for a person, with what was rejected or without."""
    listed = engine.storage.pending.list()
    shown = [one for one in listed.entries if rejected or one.state != "rejected"]
    engine.storage.ledger.refresh()
    version = engine.change_installer.version
    stale = [one.id for one in shown if one.stale(version(one.proposal.file))]
    return Listing(shown, listed.problems, stale)


async def approve(engine: EvolveEngine, id: str, said: Progress = lambda stage: None) -> Made:  # noqa: A002 - the word that they type
    """Install, or take back, what waits under `id`. Raises `NotPending`, `CandidateRefused`, `NotChanged`."""
    demand_live(engine)
    entry = engine.storage.pending.get(id)
    if entry.proposal.takes_back:
        changed = await engine.forgetting.approve(entry, who(), said)
        return Made.of(engine, changed.files, changed.epoch, changed.commit)
    installed = await engine.evolution.approve(id, who(), said)
    return Made.of(engine, [installed.path], installed.epoch, installed.commit)


async def reject(engine: EvolveEngine, id: str, why: str) -> PendingEntry:  # noqa: A002 - as above
    """Refuse what waits under `id` for good. Raises `NotPending`."""
    return await engine.evolution.reject(id, who(), why)


def demand_live(engine: EvolveEngine) -> None:
    """Raise `NotChanged` in a safe run, in which nothing changes and no heart beats."""
    if engine.safe is not None:
        raise NotChanged(engine.safe.why)


def _unpinned(engine: EvolveEngine, file: str) -> str:
    """Why there is no pin of this file to take away."""
    standing = engine.storage.pins.find(file)
    if standing is None:
        return f"{file} is not pinned"
    if standing.by == "settings":
        return f'{file} is pinned by the settings: take {standing.file} out of "evolve": {{"pins": […]}}'
    return f"{file} is pinned with all that is in {standing.file}: unpin that"
