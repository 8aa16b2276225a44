"""The engine at work on a workspace for the time of one command."""

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from instar.plugin import Means
from instar.plugins.evolve import protocol, script, settings
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.discovery import Registration
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger.lock import WorkspaceBusy
from instar.plugins.evolve.safe import Unkept
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.workspace import Workspace

log = logging.getLogger("instar.evolve")


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
async def books(named: NamedWorkspace, *, safe: bool = False) -> AsyncIterator[tuple[EvolveEngine, Means]]:
    """Open what is kept on a workspace. Nothing of the workspace is run, and nothing is made or mended."""
    async with named.means() as means:

        async def refresh() -> None:
            pass  # a command that runs no scripts has none to discover again

        engine = EvolveEngine(means, named.root, means.processes, _publish, refresh, safe=safe)
        try:
            yield engine, means
        finally:
            await engine.close()


@contextlib.asynccontextmanager
async def ledger(named: NamedWorkspace) -> AsyncIterator[tuple[EvolveEngine, Means]]:
    """Open a workspace to put files of it in place, also one whose settings are broken. No script is run.

    Raises `NotChanged` where the workspace is not trusted: git runs in it.
    """
    if not named.trusted:
        raise NotChanged(named.distrust)
    async with books(named) as (engine, means):
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
            work = await _discovered(engine, means, engine.scripts, named)
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
    async with books(named, safe=safe) as (engine, means):
        engine.policy.begin()
        seen = engine.books.ledger.is_known()
        if safe and not seen:
            raise NotChanged(
                f"instar has not run on {named.root} yet: a first run tells what the agent changed"
            )
        if seen:
            try:
                await engine.books.installer.open()
            except WorkspaceBusy as error:
                engine.books.ledger.notice(str(error))
        if safe:
            await engine.books.own.open()
        stage = _Looked(engine) if seen else _AsItStands(engine)
        found = Scripts(means.processes, Unkept() if safe else means.kv, stage, engine.real)
        yield await _discovered(engine, means, found, named)


async def _discovered(
    engine: EvolveEngine, means: Means, found: Scripts, named: NamedWorkspace
) -> OpenedEngine:
    """Read the settings where scripts run now, and discover the scripts if they can be used."""
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


class _Looked:
    """Where scripts run for a look: as always, but what their calls tell counts for nothing, and not on probation."""

    def __init__(self, engine: EvolveEngine) -> None:
        self._engine = engine

    async def stand(self) -> Workspace:
        return await self._engine.stand()

    def version(self, path: str) -> str:
        return self._engine.version(path)

    async def place(self, file: str, root: Path) -> script.ScriptEnvironment:
        return await self._engine.place(file, root)

    def resting(self, file: str, hook: str) -> bool:
        return self._engine.resting(file, hook)

    def told(self, file: str, called: script.ScriptCall) -> None:
        if called.kind is not None:
            log.info("script=%s hook=%s why=%s", file, called.hook, script.show(called.why))

    def registered(self, said: Registration) -> Registration:
        return self._engine.registered(said)

    def allowed(self, file: str, answer: protocol.Answer) -> protocol.Answer:
        return self._engine.allowed(file, answer)


class _AsItStands(_Looked):
    """Where the scripts of a workspace run for a look that has no books yet: as the person's own, all of them."""

    async def stand(self) -> Workspace:
        return self._engine.real

    async def place(self, file: str, root: Path) -> script.ScriptEnvironment:
        return await self._engine.policy.place(file, "", root)


async def _publish(_event: Any) -> None:
    """A command has no listeners; a run on the same workspace looks at the books before each step."""
