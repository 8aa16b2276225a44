"""The plugins of a directory at work in opencode: those that instar's settings name and that are Python.

JavaScript plugins are opencode's own to load. Trust holds as in instar: `read_settings` leaves out what an untrusted
project brings. The plugins ask opencode over the protocol: its own SDK's client makes each request in its process,
since `opencode run` has no server that could be asked.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import httpx2
import msgspec

from instar.client import AsyncClient
from instar.event.bus import Bus
from instar.git.project import Project, discover
from instar.limits.stop import SharedStops, StopFile, StopState
from instar.opencode.bridge.client import Opencode, OpencodeConnection
from instar.plugin import Client, Host, PluginInput, Registry, Shell, Value, View, points
from instar.plugin.door import Plugins
from instar.plugin.load import Spec, load
from instar.plugin.locate import LoadError, locate
from instar.process import Processes
from instar.runtime import plugin_order
from instar.runtime.configured import SettingsContext, children
from instar.runtime.reload import read_tools
from instar.settings.builtin_plugins import flagship_name
from instar.settings.load import Settings, read_settings
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.store.store import open_store
from instar.store.trust import SharedTrust, trust_at
from instar.store.values import Values
from instar.wire import Plain
from instar.wire.secret import masked

if TYPE_CHECKING:
    from instar.message import Rule
    from instar.store.store import Store


Ask = Callable[[str, Plain], Awaitable[Any]]


Kind = TypeVar("Kind", bound=AsyncClient)


def client_of(ask: Ask, directory: str, kind: type[Kind]) -> Kind:
    """Return a typed client of the opencode that `ask` reaches. It opens no streams: events come by themselves."""
    return kind("http://opencode", transport=OpencodeTransport(ask), directory=directory)


class OpencodeTransport(httpx2.AsyncBaseTransport):
    """Hands requests over, and their answers back."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return opencode's answer. Raises `httpx2.TransportError` when there is none."""
        body = (await request.aread()).decode("utf-8")
        kept = ("content-type", "accept")
        asked: Plain = {
            "method": request.method,
            "path": request.url.raw_path.decode("ascii"),
            "headers": {name: value for name, value in request.headers.items() if name in kept},
            **({"body": body} if body else {}),
        }
        try:
            found = await self._ask("http", asked)
        except Exception as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
        headers = {"content-type": str(found.get("type") or "application/json")}
        return httpx2.Response(int(found["status"]), headers=headers, content=str(found["body"]).encode())


log = logging.getLogger("instar.bridge")

CAPABILITIES: Final = frozenset({"follow_ups"})
"""What the bridge can do for a plugin in opencode beyond opencode's interface."""
LACKING: Final[Mapping[str, str]] = {
    "generate": "a model call without a session",
    "aside": "a session apart, in which no hook fires",
    "dynamic_tools": "a tool that comes up while opencode runs is offered from its next start on",
}
"""What instar does for a plugin and opencode does not."""


class BridgeSettings(msgspec.Struct, frozen=True):
    """What a directory's settings say: which plugins are opened first and last, and what is left to opencode."""

    project: Project
    paths: Paths
    trust: Trust
    settings: Settings
    early: list[Spec]
    late: list[Spec]
    theirs: list[str]


async def read(directory: Path, environment: Mapping[str, str], processes: Processes) -> BridgeSettings:
    """Read the settings of a directory. Raises what `read_settings` raises."""
    paths = Paths.from_environment(environment)
    trust = await asyncio.to_thread(trust_at, paths, environment)
    project = await discover(directory, processes)
    settings = read_settings(directory, project, paths, environment, {}, trust)
    early = plugin_order.early(settings, environment, {})
    places = plugin_order.places(project, directory, paths.home)
    return BridgeSettings(
        project=project,
        paths=paths,
        trust=trust,
        settings=settings,
        early=[spec for spec in early if is_python(spec.target)],
        late=list(plugin_order.late(settings, environment, {}, places)),
        theirs=[spec.target for spec in early if not is_python(spec.target)],
    )


def is_python(target: str) -> bool:
    """Whether a name of a ``plugin`` list is a Python plugin's that is there; all others are opencode's to load."""
    if flagship_name(target) is not None:
        return True
    path = Path(target.removeprefix("file://"))
    if path.is_absolute():
        return path.suffix == ".py" or (path / "__init__.py").is_file()
    try:
        place = locate(target)
        return bool(place.module) and importlib.util.find_spec(place.module.partition(":")[0]) is not None
    except (LoadError, ImportError, ValueError):
        return False


class Opened:
    """The plugins of one directory at work in opencode, once `load` was called."""

    def __init__(
        self, found: BridgeSettings, directory: Path, environment: Mapping[str, str], ask: Ask
    ) -> None:
        self.read = found
        self.directory = directory
        self.environment = environment
        self.processes = Processes()
        self.bus = Bus()
        self.plugins = Plugins(self.bus, points.CORE, lambda: self.read.settings.config.plugin_timeouts)
        self.registry = Registry()
        self.http = client_of(ask, str(directory), AsyncClient)
        self._asking = client_of(ask, str(directory), OpencodeConnection)
        self.client = Opencode(self._asking, self.bus)
        self.notices: list[str] = []
        own: list[Rule] = []
        ground = SettingsContext(found.project, found.paths, environment, found.trust.is_trusted, own)
        self.children = children(self.processes, found.settings.config, ground)
        self._halt = StopState(StopFile(found.paths.data), directory)
        self._store: Store | None = None
        self._following: asyncio.Task[None] | None = None
        self._version, self._url = "", ""

    async def load(self, version: str, url: str) -> None:
        """Load the plugins; `version` is opencode's, `url` what it says of its server.

        Raises `LoadError` where a plugin that judges the others does not load: skipped, it would guard nothing.
        """
        self._version, self._url = version, url
        found = self.read
        self._store = await open_store(found.paths.database, self.bus.publish)
        if self._store.is_shared:
            stops = SharedStops(StopFile(found.paths.data), SharedTrust(found.paths, self.environment).read)
            await self._store.ask(stops.read)
            self._following = asyncio.create_task(stops.follow(self._store))
        self.registry.add_view(self._host())
        self._add_tools()
        self.notices += await load(found.early, self.plugins, self._input)
        if found.late and (failed := await load(found.late, self.plugins, self._input)):
            raise LoadError(failed[0])
        self.plugins.forward_events()
        for notice in (*self.notices, *found.settings.dropped):
            log.warning("notice=%s", notice)
        for target in found.theirs:
            log.info(
                "plugin=%s is no Python plugin that is here: it is left to opencode, and its settings", target
            )

    async def close(self) -> None:
        """Dispose the plugins, and close children and the database."""
        self.bus.close()
        await self.plugins.drain_events(1.0)
        await self.plugins.dispose()
        await self.children.close()
        await self.processes.close()
        await self.http.aclose()
        await self._asking.aclose()
        if self._following is not None:
            self._following.cancel()
        if self._store is not None:
            await self._store.close()

    def _add_tools(self) -> None:
        made = read_tools(self.read.settings.folders, self.read.paths, self.read.trust)
        self.notices += made.notices
        self.plugins.replace([*self.plugins.loaded, *filter(None, [made.plugin])])

    def _host(self) -> View:
        """What `self` reads of the host: which it is, and what of instar it cannot offer."""
        return View(
            "host",
            "The program that instar's plugins run in here, and what it cannot offer them.",
            {
                "name": Value(doc="Its name.", read=lambda _one: "opencode"),
                "version": Value(doc="Its version.", read=lambda _one: self._version),
                "offers": Value(
                    doc="What it offers beyond opencode's interface.", read=lambda _one: sorted(CAPABILITIES)
                ),
                "lacks": Value(
                    doc="What instar offers and it does not.",
                    read=lambda _one: [f"{name}: {what}" for name, what in LACKING.items()],
                ),
            },
        )

    def _input(self, name: str) -> PluginInput:
        assert self._store is not None
        found, environment = self.read, self.environment
        return PluginInput(
            client=cast("Client", self.client),
            project=found.project,
            directory=self.directory,
            worktree=found.project.worktree,
            server_url=lambda: self._url or None,
            shell=Shell(self.children, self.directory, self.children.environment(environment), name),
            children=self.children,
            kv=Values(self._store, name),
            data=found.paths.of_plugin(name),
            host=Host("opencode", self._version, CAPABILITIES),
            registry=self.registry.of(name),
            config=masked(found.settings.config.data),
            origins=found.settings.origins,
            environment=environment,
            flags={},
            automatic=True,
            declare_hook=points.CORE.declare,
            trigger=self.plugins.trigger,
            trusted=found.trust.is_trusted,
            served=found.settings.served,
            halted=self._halt.halted,
            http=lambda: self.http,
        )
