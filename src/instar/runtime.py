"""The runtime: the one file that knows every room. It builds an instance for a directory and is its client.

Doors use it through `instar.plugin.Client`, as plugins do.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from instar import __version__, mcp_door, wire
from instar.approval import Approvals, Person
from instar.bus import Bus
from instar.client import SessionDoor
from instar.configured import Configured, Ground, ask_plugins
from instar.definition import complete
from instar.event import Event, ServerInstanceDisposed, make
from instar.flagship import FLAGSHIPS
from instar.generate import single, small_model
from instar.instance import Instance
from instar.mcp import ASK, Servers
from instar.message import ModelRef, Rule
from instar.paths import Paths
from instar.plugin import (
    Answer,
    Client,
    Host,
    PermissionClient,
    PluginInput,
    QuestionClient,
    Registry,
    SessionClient,
    Shell,
    points,
)
from instar.plugin.custom import load_tools
from instar.plugin.door import Plugins
from instar.plugin.load import Spec, load
from instar.process import Processes
from instar.project import discover
from instar.question import Questioner, Questions
from instar.secret import masked
from instar.session import Sessions
from instar.settings import Settings, read_settings
from instar.skill import read_skills
from instar.snapshot import Snapshot
from instar.store.sqlite import open_store
from instar.store.values import Values
from instar.subagent import is_subagent
from instar.tool.registry import builtin
from instar.trust import Trust
from instar.turns import Turns
from instar.watch import Watching
from instar.workspace import Workspaces
from instar.worktree import Worktrees

log = logging.getLogger("instar.runtime")

CAPABILITIES = frozenset({"generate", "follow_ups", "dynamic_tools"})
_TITLE_GRACE = 2.0
"""Seconds that closing waits for a title that is being made."""
_WATCH_AFTER = 1.0
"""Seconds after which files are watched for plugins: a turn that is over sooner must not pay for it."""


class Options(msgspec.Struct, frozen=True):
    """How a runtime is opened.

    `flags` are settings of the command line, above all others (``{"model": "openai/x"}``), and
    ``workspace`` for evolve. `person` answers permission questions; None refuses them. `questioner` puts the
    model's own questions to a person; without one the model has no tool for them.
    """

    directory: Path
    environment: Mapping[str, str]
    flags: wire.Plain = msgspec.field(default_factory=dict)
    person: Person | None = None
    questioner: Questioner | None = None


class Runtime:
    """A running instance: open it with ``async with await Runtime.open(options) as runtime``.

    `notices` and `untrusted` are one-line sentences for the person: what was skipped and why, and what was
    left out because its folder is not trusted.
    """

    def __init__(
        self, options: Options, read: Settings, trust: Trust, build: Callable[[Client], Instance]
    ) -> None:
        self._options = options
        self._settings = read
        self._trust = trust
        self._closed = False
        self._forwarding: asyncio.Task[None] | None = None
        self.instance = build(self)
        self._watching = Watching(self.instance)
        self.turns = Turns(self.instance)
        self.registry = Registry()
        worktrees = Worktrees(
            self.instance.processes, self.instance.project, self.instance.paths.worktrees, trust.is_trusted
        )
        self.workspace = Workspaces(self.instance, self.registry, {"worktree": worktrees})
        self._door = SessionDoor(self.instance, self.turns, self.workspace)
        self.session: SessionClient = self._door
        self.permission: PermissionClient = self.instance.approvals
        self.question: QuestionClient = self.instance.questions
        self.server_url: str | None = None
        self.mcp: Servers | None = None
        self.untrusted = list(read.dropped)
        self.notices: list[str] = []

    @classmethod
    async def open(cls, options: Options) -> "Runtime":
        """Read the settings, open the store and load the plugins of a directory.

        Raises what reading settings raises (a mistake in a file names its place), `LimitsError` and `StoreError`.
        """
        processes = Processes()
        paths = Paths.from_environment(options.environment)
        trust = Trust(paths, options.environment)
        project = await discover(options.directory, processes)
        read = read_settings(
            options.directory, project, paths, options.environment, _config_flags(options), trust
        )
        read, mistakes = complete(read, project, paths, trust)
        skills, more = read_skills(read, project, paths, trust)
        own = [_saved_output(paths), *skills.rules(), ASK]
        ground = Ground(project, paths, options.environment, trust.is_trusted, own)
        made = Configured.of(read, ground)
        bus = Bus()
        store = await open_store(paths.database, bus.publish)
        plugins = Plugins(bus, points.CORE)
        try:
            runtime = cls(
                options,
                read,
                trust,
                lambda client: Instance(
                    directory=options.directory,
                    project=project,
                    paths=paths,
                    config=read.config,
                    limits=made.limits,
                    environment=options.environment,
                    store=store,
                    bus=bus,
                    plugins=plugins,
                    processes=processes,
                    snapshot=Snapshot.of(processes, project, paths.data, paths.home, read.config.snapshot),
                    sessions=Sessions(store, bus, project, options.directory),
                    approvals=Approvals(store, bus, plugins, project, options.person, stops=_stops(read)),
                    questions=Questions(bus, options.questioner),
                    agents=made.agents,
                    commands=made.commands,
                    skills=skills,
                    instructions=made.instructions,
                    models=made.models,
                    tools=builtin(),
                    client=client,
                ),
            )
            runtime.notices += map(str, [*[one for one in read.unknown if one.near], *mistakes, *more])
            runtime.notices += made.problems
            await runtime.instance.approvals.clear()
            await runtime._load(ground)
        except BaseException:
            await store.close()
            raise
        return runtime

    async def generate(
        self, *, system: Sequence[str], prompt: str, model: ModelRef | None = None, cause: str
    ) -> Answer:
        """Make one model call without a session, tools or hooks."""
        models = self.instance.models
        name = f"{model.provider_id}/{model.model_id}" if model else ""
        found = models.find(name) if name else await small_model(self.instance)
        return await single(self.instance, found, system, prompt, cause)

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""
        with self.instance.bus.subscribe() as subscription:
            async for event in subscription:
                yield event

    def watch(self) -> None:
        """Watch the directory from now on: whoever listens for longer than a turn wants to hear of it."""
        if not self._closed:
            self._watching.start()

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""
        self.instance.bus.publish(event)

    async def config(self) -> wire.Plain:
        """Return the merged configuration, secrets masked."""
        return dict(masked(self._settings.config.data))

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
        return [*self.instance.tools, *sorted(self.instance.plugins.tools())]

    async def close(self) -> None:
        """End every turn, tell the plugins, and let go of children, connections and the database.

        May be called twice: what was closed stays closed.
        """
        if self._closed:
            return
        self._closed = True
        await self.turns.close(_TITLE_GRACE)
        await self._door.close()
        await self._watching.close()
        self.instance.bus.publish(make(ServerInstanceDisposed(directory=str(self.instance.directory))))
        self.instance.bus.close()
        if self._forwarding is not None:
            await asyncio.wait([self._forwarding], timeout=_TITLE_GRACE)
            self._forwarding.cancel()
        await self.instance.plugins.dispose()
        await self.instance.processes.close()
        await self.instance.models.close()
        await self.instance.store.close()

    async def __aenter__(self) -> "Runtime":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _load(self, ground: Ground) -> None:
        self.notices += filter(None, [self._trust.problem])
        self.mcp = mcp_door.let_in(self.instance, self._options.person)
        self._add_tools()
        specs = [*_listed(self._settings), *self._switched_on()]
        self.notices += await load(specs, self.instance.plugins, self._plugin_input)
        self._settings, notices = await ask_plugins(self.instance, self._settings, ground)
        self.notices += notices
        self._offer()
        if self.instance.plugins.hears_events:
            self._forwarding = asyncio.create_task(self.instance.plugins.forward())
            self._watching.start(_WATCH_AFTER)

    def _offer(self) -> None:
        """Give the model the built-in tools; some name what there is to choose from."""
        subagents = [(one.name, one.description) for one in self.instance.agents.all() if is_subagent(one)]
        self.instance.tools = builtin(
            subagents=subagents, skills=self.instance.skills, questions=self._options.questioner is not None
        )

    def _add_tools(self) -> None:
        """Let the tools of the configuration folders in, as those of a plugin."""
        homes = self.instance.paths.config_homes
        found = load_tools(
            self._settings.folders, lambda folder: folder in homes or self._trust.is_trusted(folder.parent)
        )
        self.notices += found.notices
        self.untrusted += found.untrusted
        if found.tools:
            self.instance.plugins.add("tools", {"tool": found.tools})

    def _switched_on(self) -> list[Spec]:
        """Flagships that the environment or a flag asks for, beside those that the config lists."""
        listed = {spec.identity for spec in _listed(self._settings)}
        return [
            Spec(name)
            for name, shipped in FLAGSHIPS.items()
            if name not in listed
            and (
                any(self._options.environment.get(variable) for variable in shipped.environment)
                or (shipped.flag and self._options.flags.get(shipped.flag))
            )
        ]

    def _plugin_input(self, name: str) -> PluginInput:
        return PluginInput(
            client=self,
            project=self.instance.project,
            directory=self.instance.directory,
            worktree=self.instance.project.worktree,
            server_url=lambda: self.server_url,
            shell=Shell(self.instance.processes, self.instance.directory, self._options.environment, name),
            kv=Values(self.instance.store, name),
            host=Host("instar", __version__, CAPABILITIES),
            registry=self.registry,
            config=masked(self._settings.config.data),
            environment=self._options.environment,
            flags=self._options.flags,
            declare_hook=points.CORE.declare,
            trigger=self.instance.plugins.trigger,
            trusted=self._trust.is_trusted,
        )


def _saved_output(paths: Paths) -> Rule:
    """Tool output that was cut is saved outside the project: the model may read it without asking."""
    return Rule(permission="external_directory", pattern=f"{paths.tool_output}/*", action="allow")


def _listed(read: Settings) -> list[Spec]:
    """The plugins that settings and plugin folders name, in the order in which they load."""
    return [Spec(entry.target, entry.options) for entry in read.plugins]


def _stops(read: Settings) -> bool:
    """Whether a rejected call ends the turn (the reference's section 3.5)."""
    experimental = read.config.data.get("experimental")
    return not (isinstance(experimental, dict) and experimental.get("continue_loop_on_deny") is True)


def _config_flags(options: Options) -> wire.Plain:
    """The flags that are settings; the others are a flagship's own."""
    own = {shipped.flag for shipped in FLAGSHIPS.values()}
    return {name: value for name, value in options.flags.items() if name not in own}
