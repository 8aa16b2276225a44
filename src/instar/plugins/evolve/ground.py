"""The ground that scripts run on: as the person's own, behind the shield, in a sandbox of their own, or in a trial.

Issue 5, items 1 to 3; issue 6, stage 5. A script of the person's own runs as they do; from its first version that the
agent made on it runs behind the shield, or as its manifest says.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from instar.plugin import Means, PluginInput, document, process, sandbox
from instar.plugins.evolve import script, settings
from instar.plugins.evolve.books import Books
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.gate.authority import Authority, Terms
from instar.plugins.evolve.gate.judge import Bench
from instar.plugins.evolve.grants import Held
from instar.plugins.evolve.trial import Trials
from instar.plugins.evolve.workspace import GUARDED, SCRIPTS_OWN, VARIABLES

log = logging.getLogger("instar.evolve")

_CLOSED = Held(Authority("shield"))
"""How a version is held of which nothing can be told."""
_BESIDE = Held(Authority("shield", actions=None))
"""How a person's own script is held beside one that the agent made anew: what it imports may be that."""


class Ground:
    """Says how a script of one workspace is started, and where a candidate is tried."""

    def __init__(
        self,
        given: PluginInput | Means,
        root: Path,
        processes: process.Processes,
        books: Books,
        config: EvolveConfig,
    ) -> None:
        self._input = given
        self._root = root
        self._processes = processes
        self._books = books
        self._config = config
        self._settings = settings.Settings()
        self._environment: dict[str, str] = {}
        self._level: asyncio.Task[sandbox.Level] | None = None

    def begin(self) -> None:
        """Guard the workspace in every child from now on, and begin to find out how far children can be confined."""
        guarded = [self._root / name for name in GUARDED]
        self._input.children.guard(readonly=[*guarded, *self._books.shown])
        self._level = asyncio.create_task(self._input.children.level())

    def take(self, chosen: settings.Settings) -> None:
        """Go by these settings from now on."""
        self._settings = chosen
        self._environment = self._input.children.environment(self._input.environment, self._named())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables that scripts are given."""
        return tuple(sorted(self._environment))

    async def place(self, file: str, version: str, root: Path) -> script.Place:
        """Return how this version of ``hooks/FILE`` is started now, in `root`: the workspace or its last good tree."""
        chosen, held = self._settings, self.held(file, version)
        environment = self._environment | dict.fromkeys(VARIABLES, str(root))
        confine: process.Confinement | None = None
        timeout = chosen.timeout
        if held is not None:
            shield = await self._input.children.shield()
            confine = shield
            manifest = held.manifest
            if manifest is None and shield.level.name == "landlock":
                self._make_folders()
            if manifest is not None:
                # What it names and no more of what looks like a secret, also where no sandbox is enforced.
                given = self._input.children.environment(self._input.environment, manifest.env)
                environment = given | dict.fromkeys(VARIABLES, str(root))
            if manifest is not None and shield.level.name != "none":
                # In a last good tree its folders are links into the workspace.
                live = sandbox.Live(
                    self._root,
                    tuple(Path(name) for name in sorted(manifest.write)),
                    tuple(self._root / name for name in GUARDED),
                    shield.hidden,
                    manifest.network,
                    () if root == self._root else (root,),
                )
                keep = frozenset((*VARIABLES, *manifest.env))
                confine = sandbox.Sandbox(shield.level, live, manifest.sandboxed(), keep=keep)
                timeout = min(timeout, float(manifest.limits.seconds or timeout))
        return script.Place(root, environment, timeout, chosen.spawn == "warm", confine)

    def held(self, file: str, version: str) -> Held | None:
        """Return how this version is held; None for a person's own. What cannot be read holds as the shield does."""
        try:
            found = self._books.grants.held(file, version)
            if found is not None:
                return found
            # In a clone nothing is granted yet, and git's history tells that the agent has changed it.
            own = self._books.own
            if own.is_changed(f"hooks/{file}"):
                return _CLOSED
            # ``hooks/`` is where an interpreter looks for modules first: one that is called json.py runs in each script
            # that imports json, or anything that does. In a safe run none of the agent's is there.
            return _BESIDE if self._books.safe is None and own.has_made("hooks/") else None
        except (document.DocumentError, OSError) as error:
            log.error("evolve=grants problem=%s", script.show(str(error)))
            return _CLOSED

    def loose(self, file: str, version: str) -> bool:
        """Whether a person put this version where less was granted: it runs behind the shield alone."""
        try:
            known = self._books.grants.of(file)
        except (document.DocumentError, OSError):
            return False
        held = self.held(file, version)
        granted = known is not None and known.grant.hold == "sandbox"
        return granted and held is not None and held.manifest is None

    def granted(self) -> list[Authority]:
        """Return what the scripts of the workspace were granted; nothing where that cannot be read."""
        try:
            return self._books.grants.all()
        except (document.DocumentError, OSError) as error:
            log.error("evolve=grants problem=%s", script.show(str(error)))
            return []

    async def bench(self) -> Bench:
        """Return where a candidate is tried now."""
        level = await self.level()
        unsafe = self._config.unsafe and self._config.sandbox != "require"
        trials = Trials(self._processes, level, self._input.environment, unsafe=unsafe)
        return Bench(
            trials,
            self._books.checkouts,
            self._settings.timeout,
            float(self._config.replay_seconds),
            self._config.replay == "strict",
        )

    async def terms(self) -> Terms:
        """Return what no script has a say in."""
        return Terms(frozenset(self._named()), (await self.level()).name != "none")

    async def level(self) -> sandbox.Level:
        """Return how far children can be confined here."""
        return await (self._level or self._input.children.level())

    async def frozen(self) -> str:
        """Return why nothing of the workspace may change on this machine or by its settings; empty when it may."""
        if self._config.frozen:
            return 'changes are frozen by "evolve": {"frozen": true} in the person\'s settings'
        level = await self.level()
        if level.name != "none" or (self._config.unsafe and self._config.sandbox != "require"):
            return ""
        # The settings' own doing has its own words: there may be nothing to install.
        why = (
            'the settings ask for no shield: {"shield": {"level": "none"}}'
            if self._input.children.at_most == "none"
            else f"{level.missing}; {level.todo}"
        )
        return f"changes are frozen, since nothing can be tried safely here: {why}"

    def _make_folders(self) -> None:
        """Make the folders that scripts write: at this level nothing new can be made beside the guarded ones."""
        for name in SCRIPTS_OWN:
            # What cannot be made, or is something else, fails the script that needs it, and that is said.
            with contextlib.suppress(OSError):
                (self._root / name).mkdir()

    def _named(self) -> set[str]:
        return {*self._settings.pass_environment, *self._config.env}
