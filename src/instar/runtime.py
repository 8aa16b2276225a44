"""The runtime: the one file that knows every room. It builds an instance for a directory and is its client.

Doors use it through `instar.plugin.Client`, as plugins do.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from instar import aside as apart
from instar import lineup, mcp_door, views, wire
from instar.approval import Approvals
from instar.budget import Budget
from instar.bus import Bus
from instar.config import Config
from instar.configured import Configured, ask_plugins, children
from instar.event import Event, ServerInstanceDisposed, make
from instar.generate import call_for, single
from instar.halt import Halt, Stops
from instar.inprocess import SessionDoor
from instar.instance import Instance
from instar.message import ModelRef, Origin
from instar.paths import Paths
from instar.plugin import (
    Answer,
    Apart,
    Aside,
    Client,
    Invalid,
    PermissionClient,
    PluginInput,
    QuestionClient,
    Registry,
    SessionClient,
    points,
)
from instar.plugin.door import Plugins
from instar.plugin.load import LoadError, load
from instar.process import Processes
from instar.project import discover
from instar.question import Questions
from instar.reload import Places, Reading, Renewal, Signature, Tools, Waiting, read, read_tools
from instar.secret import masked
from instar.session import Sessions
from instar.settings import Settings
from instar.snapshot import Snapshot
from instar.speaker import Speaker
from instar.stopping import Stopping
from instar.store.sqlite import open_store
from instar.subagent import is_subagent
from instar.surroundings import Options, Reached, Surroundings
from instar.terminal import Terminals
from instar.tool.registry import builtin
from instar.trust import Trust
from instar.turns import Turns
from instar.watch import Watching
from instar.workspace import Workspaces
from instar.worktree import Worktrees

if TYPE_CHECKING:
    from instar.client import AsyncClient
    from instar.inprocess.moves import Moves
    from instar.mcp import Servers

__all__ = ["Options", "Runtime"]

log = logging.getLogger("instar.runtime")

_TITLE_GRACE = 2.0
"""Seconds that closing waits for a title that is being made."""
_WATCH_AFTER = 1.0
"""Seconds after which files are watched: a turn that is over sooner must not pay for it."""
_STATUS = "session.status"


class Runtime:
    """A running instance: open it with ``async with await Runtime.open(options) as runtime``.

    `notices` and `untrusted` are one-line sentences for the person: what was skipped and why, and what was
    left out because its folder is not trusted.
    """

    def __init__(
        self, options: Options, reading: Reading, trust: Trust, build: Callable[[Client], Instance]
    ) -> None:
        self._options = options
        self._reading = reading
        self.settings = reading.settings
        self._trust = trust
        self._closed = False
        self._renewal: Renewal | None = None
        self._reloading: Waiting | None = None
        self.instance = build(self)
        self._watching = Watching(self.instance)
        self.turns = Turns(self.instance)
        self.terminals = Terminals(self.instance)
        self._stopping = Stopping(self.instance, self.turns)
        self.registry = Registry()
        views.declare(self.registry, self.instance, self.turns, trust.is_trusted)
        worktrees = Worktrees(
            self.instance.children, self.instance.project, self.instance.paths.worktrees, trust.is_trusted
        )
        self.workspace = Workspaces(self.instance, self.registry, {"worktree": worktrees})
        self._door = SessionDoor(self.instance, self.turns, self.workspace)
        self.session: SessionClient = self._door
        self.moves: Moves = self._door
        self.instance.client = Speaker(self, self._door, Origin("tool"))
        self.permission: PermissionClient = self.instance.approvals
        self.question: QuestionClient = self.instance.questions
        self._server = Reached(options, self)
        self.mcp: Servers | None = None
        self.untrusted = list(reading.settings.dropped)
        self.notices = list(reading.problems)

    @classmethod
    async def open(cls, options: Options) -> "Runtime":
        """Read the settings, open the store and load the plugins of a directory.

        Raises what reading settings raises (a mistake in a file names its place), `LimitsError`, `StoreError`, and
        `LoadError` where a plugin that judges the others does not load.
        """
        processes = Processes()
        paths = Paths.from_environment(options.environment)
        trust = Trust(paths, options.environment)
        project = await discover(options.directory, processes)
        places = Places(options.directory, project, paths, options.environment)
        # Before anything is read: what changes from here on is found to be another.
        seen = places.signature()
        reading = read(options, project, paths, trust)
        config, ground = reading.settings.config, reading.ground
        made = Configured.of(reading.settings, ground)
        bus = Bus()
        store = await open_store(paths.database, bus.publish)
        plugins = Plugins(bus, points.CORE)
        try:
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
                    halt=Halt(Stops(paths.data), options.directory),
                    processes=processes,
                    children=children(processes, config, ground, lambda: runtime.instance.config),
                    snapshot=Snapshot.of(processes, project, paths.data, paths.home, config.snapshot),
                    sessions=Sessions(store, project, options.directory),
                    approvals=Approvals(store, bus, plugins, project, options.person, stops=_stops(config)),
                    questions=Questions(bus, options.questioner),
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
        runtime.notices += made.problems
        await runtime._begin(places, seen)
        return runtime

    async def _begin(self, places: Places, seen: Signature) -> None:
        try:
            await self.instance.approvals.clear()
            tools = await self._load()
            self._stopping.start()
            self._renewal = Renewal(self, self._options, self._trust, self._reading, tools)
            self._reloading = Waiting(places, seen, self.reload, self)
            self.instance.bus.observe(self._begun)
        except BaseException:
            # Plugins that were loaded may be at work already.
            await self.close()
            raise

    async def generate(
        self,
        *,
        system: Sequence[str],
        prompt: str,
        model: ModelRef | None = None,
        cause: str,
        session_id: str = "",
        origin: Origin | None = None,
    ) -> Answer:
        """Make one model call without tools or hooks, for a session or for none."""
        call = await call_for(self.instance, model, cause, session_id, origin)
        return await single(self.instance, call, system, prompt)

    async def aside(self, aside: Aside) -> Apart:
        """Let a model work in a session apart."""
        return await apart.run(self.instance, aside)

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""
        with self.instance.bus.subscribe() as subscription:
            async for event in subscription:
                yield event

    def watch(self) -> None:
        """Watch the directory from now on: whoever listens for longer than a turn wants to hear of it."""
        if not self._closed:
            self._watching.start()
            if self._reloading is not None:
                self._reloading.start()

    async def reload(self, changed: Sequence[str] = ()) -> None:
        """Take up what changed in the files that the instance is made of; ``instance.reloaded`` says what that was.

        `changed` are paths that are known to be others; all are looked at.
        """
        if self._renewal is not None and not self._closed:
            await self._renewal.run(changed)

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""
        self.instance.bus.publish(event)

    async def config(self) -> wire.Plain:
        """Return the merged configuration, secrets masked."""
        return dict(masked(self.settings.config.data))

    async def agents(self) -> list[str]:
        """Return the names of the agents, built-in ones first."""
        return [agent.name for agent in self.instance.agents.all()]

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
        return [*self.instance.tools, *sorted(self.instance.plugins.tools())]

    def http(self) -> "AsyncClient":
        """Return a typed client of this instance's HTTP interface, in process (`PluginInput.http`)."""
        if self._options.http is None:
            raise Invalid("this host offers no HTTP interface in process")
        return self._options.http(self)

    async def drain(self) -> None:
        """Let no turn begin any more, and wait until those that run have ended. Cancelled, it leaves them alone."""
        await self.turns.drain()

    async def end_children(self) -> None:
        """End every child, of the model's and of instar's own."""
        await asyncio.gather(self.instance.children.close(), self.instance.processes.close())

    async def close(self) -> None:
        """End turns, tell the plugins, let go of children, connections and the database. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._reloading is not None:
            await self._reloading.close()
        await self._stopping.close()
        await asyncio.gather(self.turns.close(_TITLE_GRACE), self.terminals.close())
        await self._door.close()
        await self._watching.close()
        # What is being saved still is told before: nothing happens in an instance that has ended.
        await self.instance.store.settled()
        self.instance.bus.publish(make(ServerInstanceDisposed(directory=str(self.instance.directory))))
        self.instance.bus.close()
        await self.instance.plugins.heard(_TITLE_GRACE)
        await self.instance.plugins.dispose()
        await self._server.close()
        await self.end_children()
        if self._renewal is not None:
            await self._renewal.close()
        await self.instance.models.close()
        await self.instance.store.close()

    async def __aenter__(self) -> "Runtime":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _load(self) -> Tools:
        plugins = self.instance.plugins
        self.mcp = mcp_door.let_in(self.instance, self._options.person)
        tools = read_tools(self.settings.folders, self.instance.paths, self._trust)
        plugins.stand([*plugins.loaded, *filter(None, [tools.plugin])])
        self.notices += tools.notices
        self.untrusted += tools.untrusted
        asked = self._options.environment, self._options.flags
        early = [*tools.scripts, *lineup.early(self.settings, *asked)]
        self.notices += await load(early, plugins, self.plugin_input(self.settings))
        named = self.settings.config.mcp
        self.settings, notices = await ask_plugins(self.instance, self.settings, self._reading.ground)
        self.notices += notices
        self.mcp = await mcp_door.take_up(self.instance, self.mcp, named, self._options.person)
        places = lineup.places(self.instance.project, self.instance.directory, self.instance.paths.home)
        late, marker = (
            lineup.late(self.settings, *asked, places),
            lineup.marker(self.settings, places, self._trust),
        )
        if late and (failed := await load(late, plugins, self.plugin_input(self.settings), digest_of=marker)):
            # These judge what the others do: skipped, they would guard nothing (a gate fails closed).
            raise LoadError(f"{failed[0]}, so nothing may run here; mend it, or switch it off")
        views.complete(self.registry)
        self.offer()
        if plugins.hears_events:
            plugins.hear()
            self._watching.start(_WATCH_AFTER)
        return tools

    def _begun(self, event: Event) -> None:
        """A session lives: what it goes by is watched, once its turn has run for a while."""
        if event.type == _STATUS and self._reloading is not None:
            self._reloading.start(_WATCH_AFTER)

    def offer(self) -> None:
        """Give the model the built-in tools; some name what there is to choose from."""
        subagents = [(one.name, one.description) for one in self.instance.agents.all() if is_subagent(one)]
        self.instance.tools = builtin(
            subagents=subagents, skills=self.instance.skills, questions=self._options.questioner is not None
        )

    def plugin_input(self, settings: Settings) -> Callable[[str], PluginInput]:
        """Return what gives each plugin, by its name, its input; `settings` are those that it is to see."""
        return Surroundings(
            options=self._options,
            settings=settings,
            trust=self._trust,
            instance=self.instance,
            registry=self.registry,
            client=lambda origin: Speaker(self, self._door, origin),
            http=self.http,
            server=self._server.get,
        ).of


def _stops(config: Config) -> bool:
    """Whether a rejected call ends the turn (the reference's section 3.5)."""
    experimental = config.data.get("experimental")
    return not (isinstance(experimental, dict) and experimental.get("continue_loop_on_deny") is True)
