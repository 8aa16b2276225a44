"""How an instance is opened, and what each of its plugins is given."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from instar import __version__, wire
from instar.approval.permissions import Approvals, Person
from instar.approval.questions import Questioner, Questions
from instar.limits.stop import SharedStops
from instar.message import Origin
from instar.plugin import Client, Host, PluginInput, Registry, Server, Shell, points
from instar.session.instance import Instance
from instar.settings.load import Settings
from instar.settings.trust import Trust
from instar.store.values import Values
from instar.wire.secret import masked

if TYPE_CHECKING:
    from instar.client import AsyncClient
    from instar.project.workspace import Workspaces
    from instar.runtime.client import InProcessSessions
    from instar.store.relay import Relay
    from instar.turn.turns import Turns

CAPABILITIES: Final = frozenset({"generate", "aside", "follow_ups", "dynamic_tools"})
"""What instar can do for a plugin beyond opencode's interface."""


class Serving(Protocol):
    """A server that belongs to one runtime."""

    server: Server

    async def close(self) -> None:
        """Stop it."""


class Cluster(Protocol):
    """How the sessions of several workers are run (`instar.cluster.sharing`)."""

    approvals: type[Approvals]
    questions: type[Questions]
    stops: SharedStops

    def turns(self, instance: Instance) -> "Turns":
        """Return the turns of an instance."""

    def sessions(self, instance: Instance, turns: "Turns", workspaces: "Workspaces") -> "InProcessSessions":
        """Return the sessions of an instance."""


class Options(msgspec.Struct, frozen=True):
    """How a runtime is opened.

    `flags` are settings of the command line, above all others (``{"model": "openai/x"}``), and
    ``workspace`` for evolve. `person` answers permission questions; None refuses them. `questioner` puts the
    model's own questions to a person; without one the model has no tool for them. `automatic` and `confirm` are as
    in `PluginInput`. `http` makes a client of the HTTP interface of the runtime that is opened; without it plugins get
    none.
    `server` is the server that answers for it. Where there is none, or none at a URL that programs of plugins can
    ask (it listens at a Unix socket), `serve` opens one on loopback for them. `relay` hears what other processes do on
    the same database server, and `shared` runs sessions together with them; only a server has them.
    """

    directory: Path
    environment: Mapping[str, str]
    flags: wire.Plain = msgspec.field(default_factory=dict)
    person: Person | None = None
    questioner: Questioner | None = None
    automatic: bool = True
    http: "Callable[[Any], AsyncClient] | None" = None
    server: Server | None = None
    serve: "Callable[[Any], Serving] | None" = None
    confirm: Callable[[str], Awaitable[bool]] | None = None
    relay: "Relay | None" = None
    shared: "Cluster | None" = None


def header(password: str) -> str:
    """Return the header of a request that logs in to instar's server with `password`."""
    return "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode()


class RuntimeServer:
    """The server that answers for one runtime: the one that runs, else one of its own, started on need."""

    def __init__(self, options: Options, runtime: Any) -> None:
        self._options, self._runtime = options, runtime
        self._own: Serving | None = None
        self._closed = False

    def get(self) -> Server | None:
        """Return it; None if there is none and none may be started."""
        running = self._options.server
        if running is not None and not running.url.startswith("unix:"):
            return running
        if self._own is None and self._options.serve is not None and not self._closed:
            self._own = self._options.serve(self._runtime)
        return running if self._own is None else self._own.server

    async def close(self) -> None:
        """Stop its own."""
        self._closed = True
        if self._own is not None:
            await self._own.close()


class PluginContext(msgspec.Struct, frozen=True):
    """What all plugins of an instance are given."""

    options: Options
    settings: Settings
    trust: Trust
    instance: Instance
    registry: Registry
    client: Callable[[Origin], Client]
    http: "Callable[[], AsyncClient]"
    server: Callable[[], Server | None]

    def of(self, name: str) -> PluginInput:
        """Return what the plugin `name` is given."""
        instance, environment = self.instance, self.options.environment
        model = instance.children
        return PluginInput(
            client=self.client(Origin("plugin", name)),
            project=instance.project,
            directory=instance.directory,
            worktree=instance.project.worktree,
            server_url=lambda: None if (found := self.server()) is None else found.url,
            shell=Shell(model, instance.directory, model.environment(environment), name),
            children=model,
            kv=Values(instance.store, name),
            data=instance.paths.of_plugin(name),
            host=Host("instar", __version__, CAPABILITIES),
            registry=self.registry.of(name),
            config=masked(self.settings.config.data),
            origins=self.settings.origins,
            environment=environment,
            flags=self.options.flags,
            automatic=self.options.automatic,
            declare_hook=points.CORE.declare,
            trigger=instance.plugins.trigger,
            trusted=self.trust.is_trusted,
            served=self.settings.served,
            plugin_folders=self.settings.plugin_folders,
            halted=instance.stops.halted,
            http=self.http,
            server=self.server,
            confirm=self.options.confirm,
        )
