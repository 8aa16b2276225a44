"""The runtime: the one file that knows every room. It builds an instance for a directory and is its client.

Doors use it through `instar.plugin.Client`, as plugins do.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from instar.approval.permissions import Approvals, relayed
from instar.approval.questions import Questions
from instar.definitions.skill import Skill
from instar.event import ServerInstanceDisposed, make
from instar.event.bus import Bus
from instar.git.project import Project, discover
from instar.git.snapshot import Snapshot
from instar.limits.budget import Budget
from instar.limits.stop import SharedStops, StopFile, StopState
from instar.message import Origin
from instar.plugin import (
    Apart,
    Aside,
    Client,
    Invalid,
    PluginInput,
    Registry,
    Value,
    points,
)
from instar.plugin.door import Plugins
from instar.plugin.load import load
from instar.plugin.locate import LoadError
from instar.process import Processes
from instar.project.watch import Watching
from instar.project.workspace import Workspaces
from instar.project.worktree import WorktreeAdapter
from instar.runtime import introspection, mcp, plugin_order
from instar.runtime.client import InProcessClient, InProcessSessions
from instar.runtime.configured import ConfiguredRooms, ask_plugins, children
from instar.runtime.plugin_context import Options, PluginContext, RuntimeServer
from instar.runtime.reload import InstanceFiles, Reloader, ToolFiles, read, read_tools
from instar.runtime.reload_watch import ReloadWatch, Signature, WatchedFiles
from instar.session.instance import Instance
from instar.session.sessions import Sessions
from instar.session.subagent import is_subagent
from instar.settings.config import Config
from instar.settings.load import Settings, folder_chain
from instar.settings.own_edits import take
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.store.commit import EventPlace
from instar.store.store import Store, open_store
from instar.store.trust import SharedTrust
from instar.terminal import Terminals
from instar.tool.registry import builtin
from instar.turn.turns import StopListener, Turns

if TYPE_CHECKING:
    from instar.client import AsyncClient
    from instar.mcp import Servers

__all__ = ["Options", "Runtime"]

log = logging.getLogger("instar.runtime")

_TITLE_GRACE = 2.0
"""Seconds that closing waits for a title that is being made."""
_WATCH_AFTER = 1.0
"""Seconds after which files are watched: a turn that is over sooner must not pay for it."""


class Runtime(InProcessClient):
    """A running instance: open it with ``async with await Runtime.open(options) as runtime``.

    `notices` and `untrusted` are one-line sentences for the person: what was skipped and why, and what was
    left out because its folder is not trusted.
    """

    def __init__(
        self, options: Options, reading: InstanceFiles, trust: Trust, build: Callable[[Client], Instance]
    ) -> None:
        self._options = options
        self._reading = reading
        self.settings = reading.settings
        self._trust = trust
        self._closed = False
        self._renewal: Reloader | None = None
        self._reloading: ReloadWatch | None = None
        instance = build(self)
        shared = options.shared
        self.turns = shared.turns(instance) if shared else Turns(instance)
        instance.children.settle = self.turns.settle_outside
        self.registry = Registry()
        worktrees = WorktreeAdapter(
            instance.children, instance.project, instance.paths.worktrees, trust.is_trusted
        )
        workspaces = Workspaces(instance, self.registry, {"worktree": worktrees})
        build_sessions = shared.sessions if shared else InProcessSessions
        self.sessions = build_sessions(instance, self.turns, workspaces)
        super().__init__(instance, self.sessions, workspaces, Origin(), _aside)
        instance.client = self._speaking_for(Origin("tool"))
        self._watching = Watching(self.instance)
        self.terminals = Terminals(self.instance)
        self._stopping = StopListener(self.instance, self.turns)
        introspection.declare(self.registry, self.instance, self.turns, trust.is_trusted)
        self._server = RuntimeServer(options, self)
        self.mcp: Servers | None = None
        self.untrusted = list(reading.settings.dropped)
        self.notices = [*reading.settings.notices, *reading.problems]

    @classmethod
    async def open(cls, options: Options) -> "Runtime":
        """Read the settings, open the store and load the plugins of a directory.

        Raises what reading settings raises (a mistake in a file names its place), `LimitsError`, `StoreError`, and
        `LoadError` where a plugin that judges the others does not load.
        """
        processes = Processes()
        paths = Paths.from_environment(options.environment)
        trust = await _known_trust(paths, options)
        project = await discover(options.directory, processes)
        places = WatchedFiles(options.directory, project, paths, options.environment)
        # Before anything is read: what changes from here on is found to be another.
        seen = places.signature()
        taken = [*take(trust, paths, folder_chain(options.directory.resolve(), project))]
        reading = read(options, project, paths, trust)
        config, ground = reading.settings.config, reading.ground
        shared = options.shared
        made = ConfiguredRooms.of(reading.settings, ground)
        bus = Bus()
        store = await _open_store(options, project, paths, config, bus)
        plugins = Plugins(bus, points.CORE, lambda: runtime.instance.config.plugin_timeouts)
        try:
            stops = await _stop_state(options, paths, store)
            runtime = cls(
                options,
                reading,
                trust,
                lambda client: Instance(
                    directory=options.directory,
                    project=project,
                    paths=paths,
                    config=config,
                    limits=made.limits,
                    environment=options.environment,
                    store=store,
                    budget=Budget(store, paths.database),
                    bus=bus,
                    plugins=plugins,
                    stops=stops,
                    processes=processes,
                    children=children(processes, config, ground, lambda: runtime.instance.config),
                    snapshot=Snapshot.of(processes, project, paths.data, paths.home, config.snapshot),
                    sessions=Sessions(store, project, options.directory),
                    approvals=_approvals(options, project, config, store, plugins),
                    questions=(shared.questions if shared else Questions)(bus, options.questioner),
                    agents=made.agents,
                    commands=made.commands,
                    skills=reading.skills,
                    instructions=made.instructions,
                    models=made.models,
                    tools=builtin(),
                    client=client,
                ),
            )
        except BaseException:
            await store.close()
            raise
        runtime.notices += [*taken, *made.problems]
        await runtime._begin(places, seen)
        return runtime

    async def _begin(self, places: WatchedFiles, seen: Signature) -> None:
        try:
            await self.instance.approvals.clear()
            tools = await self._load()
            self._stopping.start()
            self._renewal = Reloader(self, self._options, self._trust, self._reading, tools)
            self._reloading = ReloadWatch(places, seen, self)
            # What a session goes by is watched once its turn has run for a while.
            self.turns.on_start = partial(self._reloading.start, _WATCH_AFTER)
        except BaseException:
            # Plugins that were loaded may be at work already.
            await self.close()
            raise

    def watch(self) -> None:
        """Watch the directory from now on, for clients that stay longer than a turn."""
        if not self._closed:
            self._watching.start()
            if self._reloading is not None:
                self._reloading.start()

    async def reload(self, changed: Sequence[str] = ()) -> None:
        """Reload the files that changed; ``instance.reloaded`` says which.

        `changed` are paths that are known to be others; all are looked at.
        """
        if self._renewal is not None and not self._closed:
            await self._renewal.run(changed)

    def http(self) -> "AsyncClient":
        """Return a typed client of this instance's HTTP interface, in process (`PluginInput.http`)."""
        if self._options.http is None:
            raise Invalid("this host offers no HTTP interface in process")
        return self._options.http(self)

    async def drain(self) -> None:
        """Refuse new turns, and wait until the running ones have ended. A cancellation does not end them."""
        await self.turns.drain()

    async def end_children(self) -> None:
        """End every child, of the model's and of instar's own."""
        await asyncio.gather(self.instance.children.close(), self.instance.processes.close())

    async def close(self) -> None:
        """End turns, dispose plugins, close children, connections and the database. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._reloading is not None:
            await self._reloading.close()
        await self._stopping.close()
        await asyncio.gather(self.turns.close(_TITLE_GRACE), self.terminals.close())
        await self.sessions.close()
        await self._watching.close()
        # What is being saved still is told before: nothing happens in an instance that has ended.
        await self.instance.store.settled()
        self.instance.bus.publish(make(ServerInstanceDisposed(directory=str(self.instance.directory))))
        self.instance.bus.close()
        await self.instance.plugins.drain_events(_TITLE_GRACE)
        await self.instance.plugins.dispose()
        await self._server.close()
        await self.end_children()
        await self.turns.settle_outside()
        if self._renewal is not None:
            await self._renewal.close()
        await self.instance.models.close()
        await self.instance.store.close()

    async def __aenter__(self) -> "Runtime":
        return self

    def problems(self) -> list[str]:
        """Return what plugins say is wrong with them now: the `problems` of their views, a sentence each."""
        views = [(view.name, view.children.get("problems")) for view in self.registry.views.values()]
        return [
            f"{name}: {problem}"
            for name, node in views
            if isinstance(node, Value)
            for problem in node.read("")
        ]

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _speaking_for(self, origin: Origin) -> InProcessClient:
        """Return a client of this runtime for a program, such as a plugin."""
        return InProcessClient(self.instance, self.sessions, self.workspace, origin, _aside)

    async def _load(self) -> ToolFiles:
        plugins = self.instance.plugins
        self.mcp = mcp.let_in(self.instance, self._options.person)
        tools = read_tools(self.settings.folders, self.instance.paths, self._trust)
        plugins.replace([*plugins.loaded, *filter(None, [tools.plugin])])
        self.notices += tools.notices
        self.untrusted += tools.untrusted
        asked = self._options.environment, self._options.flags
        early = [*tools.scripts, *plugin_order.early(self.settings, *asked)]
        self.notices += await load(early, plugins, self.plugin_input(self.settings))
        named = self.settings.config.mcp
        self.settings, notices = await ask_plugins(self.instance, self.settings, self._reading.ground)
        self.notices += notices
        self.mcp = await mcp.take_up(self.instance, self.mcp, named, self._options.person)
        places = plugin_order.places(self.instance.project, self.instance.directory, self.instance.paths.home)
        late, marker = (
            plugin_order.late(self.settings, *asked, places),
            plugin_order.marker(self.settings, places),
        )
        if late and (failed := await load(late, plugins, self.plugin_input(self.settings), digest_of=marker)):
            # These judge what the others do: skipped, they would guard nothing (a gate fails closed).
            raise LoadError(f"{failed[0]}, so nothing may run here; mend it, or switch it off")
        introspection.complete(self.registry)
        self.offer()
        if plugins.hears_events:
            plugins.forward_events()
            self._watching.start(_WATCH_AFTER)
        return tools

    def offer(self) -> None:
        """Register the built-in tools; some list agents and skills."""
        subagents = [(one.name, one.description) for one in self.instance.agents.all() if is_subagent(one)]
        skills = {
            one.name: (one.description, partial(self._load_skill, one))
            for one in self.instance.skills.values()
            if one.listed
        }
        self.instance.tools = builtin(
            subagents=subagents,
            skills=skills,
            questions=self._options.questioner is not None,
            options=self.instance.config.permission_options,
        )

    def _load_skill(self, skill: Skill, session_id: str) -> str:
        """Return what a skill says to a session, which may do from now on what the skill needs."""
        self.instance.approvals.grant(session_id, skill.grants)
        return skill.whole

    def plugin_input(self, settings: Settings) -> Callable[[str], PluginInput]:
        """Return the function that gives each plugin, by its name, its input with `settings`."""
        return PluginContext(
            options=self._options,
            settings=settings,
            trust=self._trust,
            instance=self.instance,
            registry=self.registry,
            client=self._speaking_for,
            http=self.http,
            server=self._server.get,
        ).of


async def _aside(instance: Instance, aside: Aside) -> Apart:
    # Start-up time: few instances have an ephemeral session.
    from instar.runtime.ephemeral import run

    return await run(instance, aside)


def _confirms(options: Options) -> bool:
    """Whether who answers is a person: a server that asks for no password could be answered by the model's programs."""
    return options.person is not relayed or (
        options.server is not None and options.server.authorization is not None
    )


async def _known_trust(paths: Paths, options: Options) -> Trust:
    """Return what is trusted here, with what other machines decided where the store is on a server."""
    if isinstance(paths.database, str):
        await asyncio.to_thread(SharedTrust(paths, options.environment).refresh)
    return Trust(paths, options.environment)


async def _open_store(options: Options, project: Project, paths: Paths, config: Config, bus: Bus) -> Store:
    store = await open_store(
        paths.database,
        bus.deliver,
        synchronous=config.storage.synchronous,
        place=EventPlace(str(options.directory), project.id),
        relay=options.relay,
    )
    if store.is_shared:
        bus.through = store.publish
    return store


async def _stop_state(options: Options, paths: Paths, store: Store) -> StopState:
    """Return the stops that hold here; those of other machines are known where the store is on a server."""
    file = StopFile(paths.data)
    shared = None
    if store.is_shared:
        trust = SharedTrust(paths, options.environment)
        shared = options.shared.stops if options.shared else SharedStops(file, also=trust.read)
        await store.ask(shared.read)
    return StopState(file, options.directory, shared=shared)


def _approvals(
    options: Options, project: Project, config: Config, store: Store, plugins: Plugins
) -> Approvals:
    build = options.shared.approvals if options.shared else Approvals
    return build(store, plugins, project, options.person, stops=_stops(config), confirms=_confirms(options))


def _stops(config: Config) -> bool:
    """Whether a rejected call ends the turn, as in opencode."""
    experimental = config.data.get("experimental")
    return not (isinstance(experimental, dict) and experimental.get("continue_loop_on_deny") is True)
