"""The engine: all of evolve on one workspace but the sessions, for the plugin and for its commands alike."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from instar.plugin import Means, PluginInput, event, process, wire
from instar.plugins.evolve import config, protocol, script
from instar.plugins.evolve.candidate import Candidates
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.discovery import Registration
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.forget.forgetting import Forgetting
from instar.plugins.evolve.gate import authority, score
from instar.plugins.evolve.heartbeat.shared import SharedSchedule
from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.install import ChangeCause, ChangeInstaller
from instar.plugins.evolve.ledger.goodtree import NotServed, Served
from instar.plugins.evolve.ledger.ledger import WorkspaceBusy
from instar.plugins.evolve.ledger.own import Safe, Unkept
from instar.plugins.evolve.points import CANDIDATE, asker
from instar.plugins.evolve.probation.held_out import HeldOutEvals
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.recording import ChangeRecorder
from instar.plugins.evolve.rollback import Rollback
from instar.plugins.evolve.scripts import NoScripts, Scripts
from instar.plugins.evolve.shared import SharedRepository
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.takeover import rename_versions
from instar.plugins.evolve.workspace import Workspace

log = logging.getLogger("instar.evolve")


class EvolveEngine:
    """evolve on the workspace `root`; `real` is that folder, where scripts run may be its last good tree.

    `publish` sends the properties of an event. `refresh` is called when something was installed; it calls
    `scripts.refresh`. `safe`: what a person left runs, none of the agent's changes, and nothing is changed. `look` is
    set for a look only: what calls tell counts for nothing; at an unaccepted workspace all is run as the person's own.
    """

    def __init__(
        self,
        given: PluginInput | Means,
        root: Path,
        processes: process.Processes,
        publish: Callable[[Any], Awaitable[None]],
        refresh: Callable[[], Awaitable[None]],
        *,
        safe: bool = False,
    ) -> None:
        self.problem = ""
        self._publish = publish
        self.config = self._config(given)
        self.real = self._standing = Workspace(root)
        root = self.real.root
        self.history = History(processes, root)
        self.storage = Storage(given, processes, root, self.history, self.config)
        self.policy = ExecutionPolicy(given, root, processes, self.storage, self.config)
        self.observer = Observer(self.storage, self.config, self.version)
        self.safe = self.storage.begin_safe() if safe else None
        self.scripts = Scripts(processes, Unkept() if safe else given.kv, self, self.real, publish)
        self.change_installer = ChangeInstaller(self.storage, publish, refresh)
        candidates = Candidates(self.storage, self.policy, self.scripts, self.config)
        limits = score.ScoreLimits.of(self.config)
        self.held_out = HeldOutEvals(self.storage, self.policy, candidates, self.observer, limits)
        self.evolution = Evolver(
            self.storage,
            self.policy,
            candidates,
            self.change_installer,
            self.observer,
            asker(given, CANDIDATE),
            self.held_out,
            limits,
        )
        lock, may_change = self.evolution.lock, self.evolution.may_change
        self.rollback = Rollback(self.storage, self.change_installer, self.observer, lock, may_change)
        self.forgetting = Forgetting(
            self.storage, self.scripts, self.evolution, self.rollback, self.change_installer, self.config
        )
        self.recording = ChangeRecorder(self.history, lock, self._announce)
        self.shared = SharedRepository(
            self.config.remote,
            given.kv,
            processes,
            root,
            self.storage,
            self.history,
            self.evolution,
            self.change_installer,
            self.observer,
        )
        self.beats: SharedSchedule | None = None
        if self.config.remote:
            self.beats = SharedSchedule(given.kv, f"beats:{self.shared.name}", self.storage)
        self.look: Literal["", "accepted", "unaccepted"] = ""
        self._served: Served | None = None
        self._told: list[str] = []

    async def open(self) -> list[str]:
        """Make the repository, load the ledger, and end what a crash cut short; return what was found and done."""
        await self.history.prepare()
        await self.shared.begin()
        try:
            notices = await self.storage.installer.open()
        except WorkspaceBusy as error:
            notices = [str(error)]
        for notice in notices:
            log.warning("evolve=ledger notice=%s", script.show(notice))
        rename_versions(self.storage.database, self.storage.ledger)
        self.history.guarded = self._guarded
        if self.safe is None:
            self.storage.references.open()
            await self.history.keep_in(self.storage.database)
        await self.storage.own.open()
        if self.safe is not None:
            self._told_safe(self.safe)
        return notices

    async def close(self) -> None:
        """Keep what is not kept yet."""
        self.observer.flush()
        await self.storage.close()

    @property
    def problems(self) -> list[str]:
        """What is wrong with the workspace, a sentence each."""
        departed = [] if self._served is None else [one.text for one in self._served.departures]
        lost = [] if self._served is None else [f"no copy of {path} is left" for path in self._served.lost]
        own = [self.problem, self.history.problem, self.shared.problem, *self.storage.database.notices]
        return [text for text in own if text] + departed + lost + self.storage.ledger.notices

    # -- what scripts ask of their stage ---------------------------------------------------------------

    async def stand(self) -> Workspace:
        """Look at the workspace, and return it or its last good tree. Raises `NoScripts`."""
        if self.look == "unaccepted":
            return self.real
        try:
            served = await (self.safe or self.storage.tree).serve()
        except NotServed as error:
            raise NoScripts(str(error)) from None
        before, self._served = self._served, served
        texts = [one.text for one in served.departures]
        if texts != self._told:
            self._told = texts
            for text in texts:
                log.warning("evolve=departed problem=%s", script.show(text))
        if before is None or (served.root, served.files) != (before.root, before.files):
            self._standing = Workspace(served.root, served.files)
        return self._standing

    def version(self, path: str) -> str:
        """Return git's id of the version of a file that runs; "" for none."""
        found = (self.storage.ledger if self.safe is None else self.safe).files.get(path)
        return "" if found is None else found.blob

    async def place(self, file: str, root: Path, session: wire.Plain) -> script.ScriptEnvironment:
        """Return how ``hooks/FILE`` is started in `root`, for a session or for none."""
        version = "" if self.look == "unaccepted" else self.version(f"hooks/{file}")
        return await self.policy.place(file, version, root, session)

    def resting(self, file: str, hook: str) -> bool:
        """Whether the script is not asked for this hook now, since it failed too often."""
        return self.observer.resting(file, hook, self.version(f"hooks/{file}"))

    def told(self, file: str, called: script.ScriptCall) -> None:
        """Hear of a call that came to its end."""
        if self.look:
            if called.kind is not None:
                log.info("script=%s hook=%s why=%s", file, called.hook, script.show(called.why))
            return
        if self._standing.root != self.real.root:
            (self.safe or self.storage.tree).gather()
        if self.safe is not None:
            return
        version = self.version(f"hooks/{file}")
        self.observer.told(file, version, self.history.head, called)

    def registered(self, said: Registration) -> Registration:
        """Return what a script registers, as far as it is what was judged in its trial."""
        held = self.policy.held(said.file, self.version(f"hooks/{said.file}"))
        return said if held is None else held.keeps(said, self.policy.granted())

    def allowed(self, file: str, answer: protocol.Answer) -> protocol.Answer:
        """Return an answer without the actions that its script was not granted."""
        if not answer.get("actions"):
            return answer
        held = self.policy.held(file, self.version(f"hooks/{file}"))
        granted = None if held is None else held.authority.actions
        if granted is None:
            return answer
        kept = [one for one in answer["actions"] if authority.used({"actions": [one]}) <= granted]
        if len(kept) < len(answer["actions"]):
            log.warning("script=%s actions=refused granted=%s", file, ",".join(sorted(granted)) or "none")
        return {**answer, "actions": kept}

    # -- the parts -------------------------------------------------------------------------------------

    def _config(self, given: PluginInput | Means) -> EvolveConfig:
        """The person's settings; what cannot be read freezes the workspace."""
        try:
            return config.read(given.config)
        except msgspec.ValidationError as error:
            self.problem = f'the settings under "evolve" cannot be used ({error}): nothing is changed'
            return EvolveConfig(frozen=True)

    def _told_safe(self, safe: Safe) -> None:
        log.warning("evolve=safe why=%s", script.show(safe.why))
        self.change_installer.happened("safe", ChangeCause(by="person"), [], safe.why)

    def _guarded(self) -> set[str]:
        """The files that no tool run commits: those that somebody changed behind the gate's back."""
        return {one.path for one in self.storage.ledger.check()}

    async def _announce(self, files: list[str]) -> None:
        for file in files:
            await self._publish(event.FileEdited(file=str(self.real.root / file)))
