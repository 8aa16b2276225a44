"""How scripts run: with the person's rights, behind the write shield, in a sandbox of their own, or in a trial.

A version that the person wrote runs behind the shield. One that the agent made runs in the sandbox, with what its
manifest was granted, and with less where the session's permissions deny it more.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from instar.plugin import Client, Means, PluginInput, message, permission, process, sandbox, wire
from instar.plugins.evolve import script, settings
from instar.plugins.evolve.config import EvolveConfig, local
from instar.plugins.evolve.gate.authority import Authority, Terms
from instar.plugins.evolve.gate.manifest import Manifest, unasked
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import Bench, Trials, nobody
from instar.plugins.evolve.workspace import GUARDED, SCRIPTS_OWN, VARIABLES

log = logging.getLogger("instar.evolve")

_CLOSED = GrantedVersion(Authority("sandbox"), unasked((), ()))
"""The restriction of a version of which nothing is known."""
_OWN = GrantedVersion(Authority("shield", actions=None))
"""The restriction of a person's own version."""
_PYTHON = ("PYTHONSAFEPATH", "PYTHONPATH")
_LOOKED_AT = 10_000
"""Files of a workspace that are held against a denial to read."""


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
        self.client: Callable[[], AbstractAsyncContextManager[Client]] = nobody
        """Opens what asks models for evals."""
        if isinstance(given, PluginInput):
            client = given.client
            self.client = lambda: contextlib.nullcontext(client)

    def begin(self, *, look: bool = False) -> None:
        """Guard the workspace in every child from now on, and begin to detect the sandbox level.

        `look`: nothing is made, so only what is there is guarded.
        """
        guarded = [path for name in GUARDED if (path := self._root / name).exists() or not look]
        # Else a child could leave there what other workers take for the shared repository's.
        shared = [] if (found := local(self._config.remote)) is None else [found]
        self._input.children.guard(readonly=[*guarded, *self._storage.shown, *shared])
        self._level = asyncio.create_task(self._input.children.level())

    def take(self, chosen: settings.EvolveSettings) -> None:
        """Use these settings from now on."""
        self._settings = chosen
        self._environment = self._input.children.environment(self._input.environment, self._named())

    async def place(
        self, file: str, version: str, root: Path, session: wire.Plain
    ) -> script.ScriptEnvironment:
        """Return how this version of ``hooks/FILE`` is started now, in `root`: the workspace or its last good tree.

        `session` is the one that it is started for, with ``id`` and ``agent``; its permissions narrow what is granted.
        """
        chosen, held = self._settings, self.held(file, version)
        own = dict.fromkeys(VARIABLES, str(root)) | {
            # No module of the folder that it is started in, which the model can write, is imported by it, or by a
            # program of its own such as python3 -c.
            "PYTHONSAFEPATH": "1",
            "PYTHONPATH": str(root / "hooks"),
        }
        environment = self._environment | own
        confine: process.Confinement | None = None
        timeout = chosen.timeout
        if held is not None:
            shield = await self._input.children.shield()
            confine = shield
            manifest = held.manifest
            if manifest is None and shield.level.name == "landlock":
                await self._input.children.make_room(*(self._root / name for name in SCRIPTS_OWN))
            if manifest is not None:
                # Of variables that look like secrets only those that it names, also without a sandbox.
                environment = self._input.children.environment(self._input.environment, manifest.env) | own
            if manifest is not None and shield.level.name != "none":
                rules = await self._rules(session)
                confine = self._sandbox(shield, narrowed(manifest, rules), root, rules)
                timeout = min(timeout, float(manifest.limits.seconds or timeout))
        watched = contextlib.nullcontext if confine is None else self._input.children.watched
        return script.ScriptEnvironment(root, environment, timeout, chosen.spawn == "warm", confine, watched)

    async def _rules(self, session: wire.Plain) -> Sequence[message.Rule]:
        """The permissions that hold where a script is called; a command has no session, and its person watches."""
        if not isinstance(self._input, PluginInput):
            return ()
        return await self._input.client.rules(str(session.get("agent") or ""), str(session.get("id") or ""))

    def _sandbox(
        self, shield: sandbox.Shield, manifest: Manifest, root: Path, rules: Sequence[message.Rule]
    ) -> sandbox.Sandbox:
        # In a last good tree its folders are links into the workspace.
        live = sandbox.Live(
            self._root,
            tuple(Path(name) for name in sorted(manifest.write)),
            tuple(self._root / name for name in GUARDED),
            (*shield.hidden, *unreadable(self._root, rules)),
            manifest.network,
            () if root == self._root else (root,),
        )
        return sandbox.Sandbox(
            shield.level,
            live,
            manifest.sandboxed(),
            visible(sandbox.toolchains(self._input.environment), rules),
            frozenset((*VARIABLES, *_PYTHON, *manifest.env)),
        )

    def held(self, file: str, version: str) -> GrantedVersion | None:
        """Return the restriction of a version; None: it runs as the person, who wrote it."""
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
            beside = self._storage.safe is None and own.has_made("hooks/")
            return _OWN if self._config.own_scripts == "shield" or beside else None
        except OSError as error:
            log.error("evolve=grants problem=%s", script.show(str(error)))
            return _CLOSED

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
        model = self._settings.model
        return Bench(
            trials,
            self._storage.checkouts,
            self._settings.timeout,
            float(self._config.replay_seconds),
            self._config.replay == "strict",
            self.client,
            "" if model is None else f"{model.provider_id}/{model.model_id}",
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

    def _named(self) -> set[str]:
        return {*self._settings.pass_environment, *self._config.env}


def visible(folders: Sequence[Path], rules: Sequence[message.Rule]) -> tuple[Path, ...]:
    """Return the folders of programs that no rule of a session denies by name: a denial of all else leaves them."""
    named = [rule for rule in rules if rule.pattern.strip("*")]
    return tuple(
        path
        for path in folders
        if permission.evaluate("external_directory", f"{path}/*", named).action != "deny"
    )


def narrowed(manifest: Manifest, rules: Sequence[message.Rule]) -> Manifest:
    """Return the manifest without what a session's rules deny: folders that are not a script's own, and the network."""

    def denies(name: str, pattern: str) -> bool:
        return permission.evaluate(name, pattern, rules).action == "deny"

    write = frozenset(
        name for name in manifest.write if name in SCRIPTS_OWN or not denies("edit", f"{name}/*")
    )
    network = manifest.network and not denies("webfetch", "*")
    return msgspec.structs.replace(manifest, write=write, network=network)


def unreadable(root: Path, rules: Sequence[message.Rule]) -> list[Path]:
    """Return the files of the workspace that a session's rules deny to read, but for scripts and their own folders.

    Beyond `_LOOKED_AT` files each further folder is taken for one.
    """
    if not any(rule.action == "deny" and permission.matches("read", rule.permission) for rule in rules):
        return []
    found: list[Path] = []
    left = _LOOKED_AT
    for at, folders, names in os.walk(root):
        here = Path(at)
        kept = (*GUARDED, *SCRIPTS_OWN) if here == root else ()
        folders[:] = [name for name in folders if name not in kept]
        left -= len(names)
        if left < 0:
            found.append(here)
            folders.clear()
            continue
        found += [
            here / name
            for name in names
            if any(
                permission.evaluate("read", text, rules).action == "deny"
                for text in (str(here / name), str((here / name).relative_to(root)))
            )
        ]
    return found
