"""The plugin function: evolve on the workspace that a run names, its settings, scripts and tools kept up to date."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from instar.plugin import Hooks, PluginInput, Tool, View, event, process, wire
from instar.plugins.evolve import discovery, script, script_tools, settings, tools, views
from instar.plugins.evolve.dispatch import Dispatch
from instar.plugins.evolve.effects import HookEffects
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat.heart import GRACE, Heart
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.ledger.own import Unkept
from instar.plugins.evolve.notices import Notices
from instar.plugins.evolve.notifications import Notifications
from instar.plugins.evolve.probation.held_out import HeldOutWatch
from instar.plugins.evolve.profiles import Profiles
from instar.plugins.evolve.routes import EvolveRoutes
from instar.plugins.evolve.sessions import ScriptSessions
from instar.plugins.evolve.workspace import LocatedWorkspace, Workspace, locate, signature

log = logging.getLogger("instar.evolve")

_HOUR: Final = 3600.0
_LOOK: Final = 0.5
"""Seconds after which the database is asked for what other workers accepted."""


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Start evolve on the workspace that this run names, and return its hooks; none when it is inactive.

    Inactive, with one line in the log: when there is no such folder, or nobody trusted it.
    """
    located = locate(input.environment, input.flags, options or {})
    reason = _inactive(input, located)
    if reason:
        log.warning("evolve=inactive reason=%s", script.show(reason))
        view = View("evolve", "The evolve workspace, which is not in use.", {"problems": lambda: [reason]})
        input.registry.add_view(view)
        input.registry.stands_idle(reason)
        return {}
    evolve = Evolve(input, Workspace(located.root))
    await evolve.start()
    input.registry.add_routes(evolve.routes(located.source))
    return evolve.hooks()


def _inactive(input: PluginInput, located: LocatedWorkspace) -> str | None:  # noqa: A002 - as above
    if not located.root.is_dir():
        return (
            f"there is no workspace at {located.root} ({located.source}): make one with instar init, or set "
            "INSTAR_WORKSPACE"
        )
    if not located.by_person and not input.trusted(located.root):
        return f"the workspace {located.root} ({located.source}) is not trusted: instar trust {located.root}"
    return None


class Evolve:
    """evolve at work on one workspace."""

    def __init__(self, given: PluginInput, workspace: Workspace) -> None:
        self._input = given
        self._processes = process.Processes()
        self._settings: settings.EvolveSettings | None = None
        self._settings_version: object = ""
        self._setting_problem: str | None = None
        self._warnings: list[str] = []
        self._problems: list[str] = []
        self._prepared = False
        self._frozen_for = ""
        self._refreshing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.tools: dict[str, Tool] = {}
        safe = bool(given.flags.get("safe"))
        self.engine = EvolveEngine(
            given, workspace.root, self._processes, self._publish, self.refresh, safe=safe
        )
        # A prompt that the agent's version made is not met by a safe run, nor the other way round.
        kept = Unkept() if safe else given.kv
        self.scripts = self.engine.scripts
        self.notices = Notices(self.engine.storage.database)
        self.effects = HookEffects(self.engine, given.client, self.notices, lambda: self._settings)
        self.notifications = Notifications(self.engine, given.client, self.effects, self.notices)
        self.held_out = HeldOutWatch(self.engine.held_out, self.notifications.settle)
        self.dispatch = Dispatch(self.scripts, given.client, self.effects)
        self.sessions = ScriptSessions(
            self.engine,
            self.dispatch,
            self.notifications,
            kept,
            ready=lambda: self._settings is not None,
            is_own=self._is_own,
            refresh=self.refresh,
        )
        self.heart = Heart(
            given,
            self.engine,
            self.dispatch,
            settings=lambda: self._settings,
            refresh=self.refresh,
            keep_system=self.sessions.keep_system,
        )

    async def start(self) -> None:
        """Read the settings, make the repository, and discover the scripts."""
        told = views.workspace(self.engine, self.tools, self.notices.waiting, self.problems)
        for view in (told, views.heartbeat(self.engine)):
            self._input.registry.add_view(view)
        self._input.registry.add_view(Profiles(self.engine).view())
        self.engine.policy.begin()
        await self.refresh()
        self.heart.start()
        if self.engine.shared.url and self._input.automatic:
            self._spawn(self._follow(), "follow the shared workspace")
        if self.engine.safe is None and self._input.automatic:
            self._spawn(self._forget(), "look what is not used")

    def hooks(self) -> Hooks:
        """Return what evolve does at which hook point."""
        return {
            **self.sessions.hooks(),
            "chat.message": self.notifications.prompted,
            "event": self._event,
            "tool": self.tools,
            # A script, a test or a commit has limits of its own.
            "timeout": None,
            "dispose": self._dispose,
        }

    def routes(self, source: str) -> EvolveRoutes:
        """Return what the server asks of evolve; `source` says what chose the workspace."""
        return EvolveRoutes(
            self.engine,
            source,
            self._input.environment,
            ready=lambda: self._settings is not None,
            problems=lambda: [text for text in (self._setting_problem, *self._warnings) if text],
            halted=self._input.halted,
            messages=self._input.client.session.messages,
        )

    # -- settings, scripts, tools --------------------------------------------------------------------

    async def refresh(self) -> None:
        """Take up what changed in the settings, the scripts and the prompts' names."""
        async with self._refreshing:
            if not self._prepared:
                self._prepared = True
                await self.engine.open()
            await self.scripts.look()
            changed = self._read_settings()
            if self._settings is None:
                return
            self._frozen_for = await self.engine.evolution.frozen()
            if await self.scripts.discover() or changed:
                self._rebuild()
            if self.engine.safe is None and not self._input.halted():
                self.held_out.wake()

    async def _follow(self) -> None:
        """Use what other workers accept, and push what is accepted here, also while no session works."""
        epoch = self.engine.storage.ledger.epoch
        while True:
            await asyncio.sleep(_LOOK)
            try:
                if not self.engine.evolution.lock.locked():
                    await self.notifications.settle()
                if epoch != self.engine.storage.ledger.epoch:
                    # Another instance of this worker may have taken it up.
                    await self.refresh()
                    epoch = self.engine.storage.ledger.epoch
            except Exception:
                log.exception("evolve=shared followed=false")

    async def _forget(self) -> None:
        """Look once a day what is not used. The first prompt comes before."""
        while True:
            await asyncio.sleep(GRACE)
            try:
                await self.engine.forgetting.daily()
            except Exception:
                log.exception("evolve=forget looked=false")
            await asyncio.sleep(_HOUR)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _rebuild(self) -> None:
        registrations = self.scripts.registrations
        left_out, problems = discovery.collisions(registrations)
        for problem in problems:
            log.warning("evolve=collision problem=%s", script.show(problem))
        self._problems = problems
        theirs = script_tools.build(self.engine, self.dispatch, self.effects, left_out)
        prefixes = list(dict.fromkeys(registration.name for registration in registrations))
        ours = tools.build(self.engine, prefixes, list(theirs))
        self.tools.clear()
        self.tools.update(ours | theirs)

    def _read_settings(self) -> bool:
        workspace = self.scripts.workspace
        version = (workspace.root, _version(workspace))
        if version == self._settings_version:
            return False
        self._settings_version = version
        try:
            loaded = settings.load(workspace.config, self._input.environment)
        except settings.SettingsError as error:
            kept = "evolve is off until it is mended" if self._settings is None else "the last good ones stay"
            self._setting_problem = f"{error}; {kept}"
            log.error("evolve=settings problem=%s", script.show(self._setting_problem))
            return False
        self._setting_problem = None
        self._warnings = loaded.warnings
        for warning in loaded.warnings:
            log.warning("evolve=settings problem=%s", script.show(warning))
        self._settings = loaded.settings
        self.engine.policy.take(loaded.settings)
        self.heart.wake()
        return True

    def problems(self) -> list[str]:
        """Return what is wrong now, a sentence each."""
        own = [self._setting_problem, self._frozen_for, *self.engine.problems]
        scripts = self.scripts.problems + self.scripts.news + self._problems
        return [text for text in own if text] + self._warnings + scripts + self._waiting()

    def _waiting(self) -> list[str]:
        waiting = [one for one in self.engine.storage.pending.list().entries if one.state == "waiting"]
        wait = "waits" if len(waiting) == 1 else "wait"
        return [f"{counted(len(waiting), 'change')} {wait}: instar evolve pending"] if waiting else []

    def _is_own(self, tool: str) -> bool:
        return tool in self.tools or any(tool in one.aliases for one in self.tools.values())

    async def _publish(self, properties: Any) -> None:
        await self._input.client.publish(event.make(properties))

    async def _event(self, happened: event.Event) -> None:
        await self.sessions.event(happened)
        await self.notifications.heard(happened)
        await self.heart.heard(happened)

    async def _dispose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.heart.close()
        await self.held_out.close()
        await self.notifications.close()
        await self.engine.close()
        await self._processes.close()


def _version(workspace: Workspace) -> object:
    try:
        return signature(workspace.config)
    except OSError:
        return None
