"""What a person orders on a workspace, by a command or through the server: both do the same and say the same.

Whoever calls these has seen to it that a person asks (issue 6, "By hand").
"""

import os
import pwd
from typing import Final

import msgspec

from instar.plugin import document, git, process
from instar.plugins.evolve.candidate import Refused
from instar.plugins.evolve.engine import Engine
from instar.plugins.evolve.evolution import Progress
from instar.plugins.evolve.gate.pending import Listing, NotPending, PendingEntry
from instar.plugins.evolve.history.blame import NoLine
from instar.plugins.evolve.history.pins import BadPin, Pin
from instar.plugins.evolve.history.revision import NoSuchChange
from instar.plugins.evolve.ledger.book import LedgerError
from instar.plugins.evolve.ledger.lock import Busy
from instar.plugins.evolve.made import Made
from instar.plugins.evolve.making import Cause, NotChanged
from instar.plugins.evolve.trial import NoTrial

FAILURES: Final = (
    *(NotChanged, NotPending, NoSuchChange, NoLine, NoTrial, Refused, BadPin, LedgerError, Busy),
    *(git.GitError, process.ProcessError, document.DocumentError),
)
"""What evolve refuses, and what fails on its way, with a sentence for the person."""
NO_REPOSITORY: Final = "{} is no git repository yet: evolve makes it when it runs"
PERSON: Final = Cause(by="person")


class Rejected(msgspec.Struct, frozen=True):
    """A change that was refused for good."""

    id: str
    file: str


def who() -> str:
    """Return the login name of whoever gives the order: instar's own user, who alone can."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


async def roll_back(engine: Engine, ref: str) -> Made:
    """Take the change `ref` back ("": the newest). Raises `NotChanged` and `NoSuchChange`."""
    demand_live(engine)
    changed = await engine.back.roll_back(ref, PERSON)
    return Made.of(engine, changed.files, changed.epoch, changed.commit)


def pin(engine: Engine, file: str) -> Pin:
    """Keep the agent from changing a file, or what is in a folder. Raises `BadPin`, `OSError`."""
    done = engine.books.pins.add(file, who())
    engine.making.happened("pinned", PERSON, [done.file], f"by {done.by}")
    return done


def unpin(engine: Engine, file: str) -> Pin:
    """Let the agent change a file again. Raises `NotChanged` where it has no pin of its own, `BadPin`, `OSError`."""
    done = engine.books.pins.remove(file)
    if done is None:
        raise NotChanged(_unpinned(engine, file))
    engine.making.happened("unpinned", PERSON, [done.file], f"by {who()}")
    return done


def pending(engine: Engine, *, rejected: bool) -> Listing:
    """Return what waits for a person, with what was rejected or without."""
    listed = engine.books.pending.list()
    shown = [one for one in listed.entries if rejected or one.state != "rejected"]
    return Listing(shown, listed.problems)


async def approve(engine: Engine, id: str, said: Progress = lambda stage: None) -> Made:  # noqa: A002 - the word that they type
    """Install what waits under `id`. Raises `NotPending`, `Refused`, `NotChanged`."""
    demand_live(engine)
    installed = await engine.evolution.approve(id, who(), said)
    return Made.of(engine, [installed.path], installed.epoch, installed.commit)


async def reject(engine: Engine, id: str, why: str) -> PendingEntry:  # noqa: A002 - as above
    """Refuse what waits under `id` for good. Raises `NotPending`."""
    return await engine.evolution.reject(id, who(), why)


def demand_live(engine: Engine) -> None:
    """Raise `NotChanged` in a safe run, in which nothing changes and no heart beats."""
    if engine.safe is not None:
        raise NotChanged(engine.safe.why)


def _unpinned(engine: Engine, file: str) -> str:
    """Why there is no pin of this file to take away."""
    standing = engine.books.pins.find(file)
    if standing is None:
        return f"{file} is not pinned"
    if standing.by == "settings":
        return f'{file} is pinned by the settings: take {standing.file} out of "evolve": {{"pins": […]}}'
    return f"{file} is pinned with all that is in {standing.file}: unpin that"
