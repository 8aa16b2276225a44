"""How scripts run: with the person's rights, behind the write shield, in a sandbox of their own, or in a trial.

A script that the person wrote runs with the person's rights. From the first version that the agent wrote on, it runs
in the sandbox, or as its manifest says.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from instar.plugin import Means, PluginInput, process, sandbox
from instar.plugins.evolve import script, settings
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.gate.authority import Authority, Terms
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import Bench, Trials
from instar.plugins.evolve.workspace import GUARDED, SCRIPTS_OWN, VARIABLES

log = logging.getLogger("instar.evolve")

_CLOSED = GrantedVersion(Authority("shield"))
"""The restriction of a version of which nothing is known."""
_BESIDE = GrantedVersion(Authority("shield", actions=None))
"""The restriction of a person's script beside a new one of the agent's, which it may import."""


class ExecutionPolicy:
    """Decides how a script of one workspace is started, and where a candidate is tried."""

    def __init__(
        self,
        given: PluginInput | Means,
        root: Path,
        processes: process.Processes,
        storage: Storage,
        config: EvolveConfig,
    ) -> None:
        self._input = given
        self._root = root
        self._processes = processes
        self._storage = storage
        self._config = config
        self._settings = settings.EvolveSettings()
        self._environment: dict[str, str] = {}
        self._level: asyncio.Task[sandbox.Level] | None = None

    def begin(self) -> None:
        """Guard the workspace in every child from now on, and begin to detect the sandbox level."""
        guarded = [self._root / name for name in GUARDED]
        self._input.children.guard(readonly=[*guarded, *self._storage.shown])
        self._level = asyncio.create_task(self._input.children.level())

    def take(self, chosen: settings.EvolveSettings) -> None:
        """Use these settings from now on."""
        self._settings = chosen
        self._environment = self._input.children.environment(self._input.environment, self._named())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables that scripts get."""
        return tuple(sorted(self._environment))

    async def place(self, file: str, version: str, root: Path) -> script.ScriptEnvironment:
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
                # Of variables that look like secrets only those that it names, also without a sandbox.
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
        watched = contextlib.nullcontext if confine is None else self._input.children.watched
        return script.ScriptEnvironment(root, environment, timeout, chosen.spawn == "warm", confine, watched)

    def held(self, file: str, version: str) -> GrantedVersion | None:
        """Return the restriction of a version, None for a person's own. An unreadable one is behind the shield."""
        try:
            found = self._storage.grants.held(file, version)
            if found is not None:
                return found
            # In a clone nothing is granted yet; git's history shows that the agent changed it.
            own = self._storage.own
            if own.is_changed(f"hooks/{file}"):
                return _CLOSED
            # ``hooks/`` is where an interpreter looks for modules first: one that is called json.py runs in each script
            # that imports json, or anything that does. In a safe run none of the agent's is there.
            return _BESIDE if self._storage.safe is None and own.has_made("hooks/") else None
        except OSError as error:
            log.error("evolve=grants problem=%s", script.show(str(error)))
            return _CLOSED

    def loose(self, file: str, version: str) -> bool:
        """Return whether a person put this version where less was granted: it runs behind the shield."""
        try:
            known = self._storage.grants.of(file)
        except OSError:
            return False
        held = self.held(file, version)
        granted = known is not None and known.grant.hold == "sandbox"
        return granted and held is not None and held.manifest is None

    def granted(self) -> list[Authority]:
        """Return the grants of the workspace's scripts, none where they cannot be read."""
        try:
            return self._storage.grants.all()
        except OSError as error:
            log.error("evolve=grants problem=%s", script.show(str(error)))
            return []

    async def bench(self) -> Bench:
        """Return the environment in which a candidate is tried."""
        level = await self.level()
        unsafe = self._config.unsafe and self._config.sandbox != "require"
        trials = Trials(self._processes, level, self._input.environment, unsafe=unsafe)
        return Bench(
            trials,
            self._storage.checkouts,
            self._settings.timeout,
            float(self._config.replay_seconds),
            self._config.replay == "strict",
        )

    async def terms(self) -> Terms:
        """Return the limits that no script can change."""
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
        # The settings have a sentence of their own: there may be nothing to install.
        why = (
            'the settings ask for no shield: {"shield": {"level": "none"}}'
            if self._input.children.at_most == "none"
            else f"{level.missing}; {level.todo}"
        )
        return f"changes are frozen, since nothing can be tried safely here: {why}"

    def _make_folders(self) -> None:
        """Make the folders that scripts write: at this sandbox level scripts cannot make them beside guarded ones."""
        for name in SCRIPTS_OWN:
            # If it cannot be made, the script that needs it fails and reports it.
            with contextlib.suppress(OSError):
                (self._root / name).mkdir()

    def _named(self) -> set[str]:
        return {*self._settings.pass_environment, *self._config.env}
