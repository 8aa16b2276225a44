"""The engine at work on a workspace for the time of one command."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeVar

from instar.plugin import Means
from instar.plugins.evolve import settings
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger.lock import WorkspaceBusy
from instar.plugins.evolve.scripts import Scripts

T = TypeVar("T")


class OpenedEngine(NamedTuple):
    """An engine with what it was made of. `scripts` are discovered where `chosen`, the settings, let evolve run.

    `problems` say what is wrong with the settings.
    """

    engine: EvolveEngine
    means: Means
    scripts: Scripts
    chosen: settings.EvolveSettings | None
    problems: list[str]


@contextlib.asynccontextmanager
async def opened(named: NamedWorkspace, *, safe: bool = False) -> AsyncIterator[tuple[EvolveEngine, Means]]:
    """Open what is kept on a workspace. Nothing of the workspace is run, and nothing is made or mended."""
    async with named.means() as means:

        async def refresh() -> None:
            pass  # a command that runs no scripts has none to discover again

        engine = EvolveEngine(means, named.root, means.processes, _publish, refresh, safe=safe)
        try:
            yield engine, means
        finally:
            await engine.close()


async def within(named: NamedWorkspace, action: Callable[[EvolveEngine], T]) -> T:
    """Open a workspace as `opened` does, and return what `action` returns."""
    async with opened(named) as (engine, _):
        return action(engine)


@contextlib.asynccontextmanager
async def ledger(named: NamedWorkspace) -> AsyncIterator[tuple[EvolveEngine, Means]]:
    """Open a workspace to put files of it in place, also one whose settings are broken. No script is run.

    Raises `NotChanged` where the workspace is not trusted: git runs in it.
    """
    if not named.trusted:
        raise NotChanged(named.distrust)
    async with opened(named) as (engine, means):
        engine.policy.begin()
        await engine.open()
        yield engine, means


@contextlib.asynccontextmanager
async def scripts(named: NamedWorkspace) -> AsyncIterator[OpenedEngine]:
    """Open a workspace with its scripts discovered. Raises `NotChanged` where evolve would be off."""
    if not named.trusted:
        raise NotChanged(named.distrust)
    async with named.means() as means:

        async def refresh() -> None:
            await engine.scripts.refresh()

        engine = EvolveEngine(means, named.root, means.processes, _publish, refresh)
        try:
            engine.policy.begin()
            await engine.open()
            work = await _discovered(engine, means, named)
            if work.chosen is None:
                raise NotChanged(work.problems[0])
            yield work
        finally:
            await engine.close()


@contextlib.asynccontextmanager
async def look(named: NamedWorkspace, *, safe: bool = False) -> AsyncIterator[OpenedEngine]:
    """Open a trusted workspace to look at it: as `scripts` does, but nothing is made.

    `safe`: as ``instar run --safe`` would start; raises `NotChanged` where no run has seen the workspace.

    One that evolve has not worked on yet is looked at as it stands, so that what stands there is accepted by the first
    run and not by a look.
    """
    async with opened(named, safe=safe) as (engine, means):
        engine.policy.begin(look=True)
        seen = engine.storage.ledger.is_known()
        if safe and not seen:
            raise NotChanged(
                f"instar has not run on {named.root} yet: a first run tells what the agent changed"
            )
        if seen:
            try:
                await engine.storage.installer.open()
            except WorkspaceBusy as error:
                engine.storage.ledger.notice(str(error))
        if safe:
            await engine.storage.own.open()
        engine.look = "accepted" if seen else "unaccepted"
        yield await _discovered(engine, means, named)


async def _discovered(engine: EvolveEngine, means: Means, named: NamedWorkspace) -> OpenedEngine:
    """Read the settings where scripts run now, and discover the scripts if they can be used."""
    found = engine.scripts
    await found.look()
    problems: list[str] = []
    chosen = None
    try:
        loaded = settings.load(found.workspace.config, named.environment)
        chosen, problems = loaded.settings, list(loaded.warnings)
    except settings.SettingsError as error:
        problems = [f"{error}; evolve is off until it is mended"]
    if chosen is not None:
        engine.policy.take(chosen)
        await found.discover()
    return OpenedEngine(engine, means, found, chosen, problems)


async def _publish(_event: Any) -> None:
    """A command has no listeners; a run on the same workspace looks at the data before each step."""
