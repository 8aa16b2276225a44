"""What a plugin is and what it is given: the public interface that flagships and strangers share."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from instar.children import Children
from instar.flagship import FLAGSHIPS
from instar.plugin.client import Client, Messages
from instar.plugin.hookpoint import HookPoint
from instar.plugin.route import Bound, check, operations
from instar.plugin.shell import Shell
from instar.plugin.view import View, clash
from instar.process import Processes
from instar.project import Project
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.client import AsyncClient

Hooks = Mapping[str, Any]
"""What a plugin returns: hook point names to ``async (input, output) -> None``.

Besides hook points: ``event`` (``async (event) -> None``, every bus event in order), ``config``
(``async (config) -> None``, may change it in place), ``tool`` (a live mapping of tool name to `Tool`, read at
every step), ``auth`` and ``provider`` (`instar.provider.contributed`), ``timeout`` (the seconds that one call
may take, None for limits of its own) and ``dispose`` (``async () -> None``).
"""

PluginFunction = Callable[..., Awaitable[Hooks | None]]


class KV(Protocol):
    """A plugin's own durable values, JSON-ready, in the instance's store."""

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""
        ...

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""
        ...

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""
        ...


class Host(msgspec.Struct, frozen=True):
    """The program that the plugin runs in, and what it can do beyond opencode's interface."""

    name: str
    version: str
    capabilities: frozenset[str]


class Registry:
    """What plugins contributed besides hooks: views, HTTP routes, workspace adapters; `owner` is the plugin that asks,
    "" the runtime itself.

    `idle` says of plugins that are loaded and do nothing here why that is, by their names.
    """

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.views: dict[str, View] = {}
        self.routes: list[Bound] = []
        self.workspaces: dict[str, Any] = {}
        self.idle: dict[str, str] = {}
        self._owned: dict[str, list[View | Bound | tuple[str, Any]]] = {}

    def of(self, owner: str) -> "Registry":
        """Return the same registry as a plugin is given it."""
        given = Registry(owner)
        given.views, given.routes, given.workspaces = self.views, self.routes, self.workspaces
        given.idle = self.idle
        given._owned = self._owned
        return given

    def release(self, owner: str) -> Callable[[], None]:
        """Take away what a plugin contributed, and return what puts it back in place of what it contributed since."""
        held, why = self._owned.pop(owner, []), self.idle.pop(owner, None)
        for one in held:
            if isinstance(one, View):
                self.views.pop(one.name, None)
            elif isinstance(one, Bound):
                self.routes.remove(one)
            elif self.workspaces.get(one[0]) is one[1]:
                del self.workspaces[one[0]]

        def put_back() -> None:
            self.release(owner)
            for one in held:
                self._keep(owner, one)
            self.idle.update({} if why is None else {owner: why})

        return put_back

    def _keep(self, owner: str, one: "View | Bound | tuple[str, Any]") -> None:
        self._owned.setdefault(owner, []).append(one)
        if isinstance(one, View):
            self.views[one.name] = one
        elif isinstance(one, Bound):
            self.routes.append(one)
        else:
            self.workspaces[one[0]] = one[1]

    def add_routes(self, routes: object) -> None:
        """Let the server carry out what the methods of an object do that are marked with `operation`.

        Their paths begin with ``/instar/plugin/NAME/`` and their ids with ``instar.plugin.NAME.``, NAME being the
        plugin's; a flagship's with ``/instar/`` and ``instar.``. They are asked for in the directory of the plugin's
        instance alone. Raises `ValueError` for another path or id, for one that is taken, and for what is no coroutine
        method; `TypeError` for a method whose arguments are not the path's. Then none of them is added.
        """
        added: list[Bound] = []
        for bound in operations(routes):
            self._demand_free(bound, [*self.routes, *added])
            check(bound)
            added.append(bound)
        if not added:
            raise ValueError(f"{type(routes).__name__} has no method that is marked with `operation`")
        for bound in added:
            self._keep(self.owner, bound)

    def stands_idle(self, why: str) -> None:
        """Say why the plugin does nothing here: whoever asks for an operation of its own is told."""
        self.idle[self.owner] = why

    def _demand_free(self, bound: Bound, taken: list[Bound]) -> None:
        said = bound.operation
        own = self.owner in ("", *FLAGSHIPS)
        path = "/instar/" if own else f"/instar/plugin/{self.owner}/"
        begin = path[1:].replace("/", ".")
        if not said.path.startswith(path):
            raise ValueError(f"the path of {said.id} must begin with {path}, found {said.path}")
        if not said.id.startswith(begin):
            raise ValueError(
                f"the id of {said.method} {said.path} must begin with {begin}, found {said.id!r}"
            )
        if not inspect.iscoroutinefunction(bound.handler):
            raise ValueError(f"the method of {said.id} must be `async`")
        for other in (one.operation for one in taken):
            if other.id == said.id or (other.method, _shape(other.path)) == (said.method, _shape(said.path)):
                raise ValueError(
                    f"{said.method} {said.path} ({said.id}) and {other.method} {other.path} ({other.id}) are the same"
                )

    def add_view(self, view: View) -> None:
        """Add a view. Raises `ValueError` when its name is taken, or the path of one of its nodes."""
        if view.name in self.views:
            raise ValueError(f"view {view.name!r} is registered twice")
        for other in self.views.values():
            if (path := clash(view, other)) is not None:
                raise ValueError(f"the views {view.name!r} and {other.name!r} both hold {path!r}")
        self._keep(self.owner, view)

    def register_workspace(self, type: str, adapter: Any) -> None:  # noqa: A002 - opencode's name
        """Offer a kind of workspace (seed 004 section 6). Raises `ValueError` for an adapter that lacks a part."""
        missing = [part for part in _ADAPTER if not callable(getattr(adapter, part, None))]
        if missing or not type:
            raise ValueError(f"the workspace adapter {type!r} has no method {', '.join(missing) or 'name'}")
        self._keep(self.owner, (type, adapter))


_ADAPTER = ("configure", "create", "remove", "target")


def _shape(path: str) -> str:
    """A path without the names of its variable parts: two of one shape answer the same requests."""
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


class Workspaces(msgspec.Struct, frozen=True):
    """Where a plugin offers kinds of workspaces: ``input.experimental_workspace.register(type, adapter)``."""

    registry: Registry

    def register(self, type: str, adapter: Any) -> None:  # noqa: A002 - opencode's name
        """Offer a kind of workspace. Raises `ValueError` as `Registry.register_workspace`."""
        self.registry.register_workspace(type, adapter)


class Means(msgspec.Struct, frozen=True):
    """What a flagship's command works with: of `PluginInput` what needs no instance, and children of its own.

    `messages` gives those of a session by its id, oldest first; it raises `NotFound`. `halted` is `PluginInput`'s;
    `resume` lets what is automatic go on in the working directory's project: a person decides that. No plugin was asked
    what it makes of `config`.
    """

    children: Children
    processes: Processes
    kv: KV
    data: Path
    config: Plain
    environment: Mapping[str, str]
    messages: Callable[[str], Awaitable[Messages]]
    halted: Callable[[], int]
    resume: Callable[[], None]
    project: Project
    directory: Path
    trusted: Callable[[Path], bool]
    origins: Mapping[str, str]
    seen: Callable[[Path], Mapping[str, str] | None] = lambda _folder: {}

    @property
    def worktree(self) -> Path:
        """The project's worktree."""
        return self.project.worktree


class Server(msgspec.Struct, frozen=True):
    """A server of this instance: its `url`, and the header by which it lets somebody in, None where it needs none."""

    url: str
    authorization: str | None


class PluginInput(msgspec.Struct, frozen=True):
    """What a plugin function is given; `shell` starts children, `kv` keeps values.

    `trusted` says whether the folder's own code may run, `seen` what of its files the person vouched for with that:
    file to digest (`instar.flagship.Flagship.seen`), None where whatever they say holds.
    `options` of the spec come as the second argument.
    `children` starts and guards what runs for the model; `shell` goes by it. `data` is a folder of the plugin's own
    that no child sees; the plugin makes it. `config` is the merged configuration, secrets masked; `origins` tells for
    a dotted place in it which file it came from. `server_url` is called, not read: it may start a server. `halted`
    gives the time (ms) of the last `instar stop` that still keeps what is automatic from beginning a turn here, and 0
    when none does. `automatic`: a plugin may begin turns here by itself; not in a command that does one thing.
    `http` gives a typed client of the instance's whole HTTP interface (`instar.client`), in process: no server and no
    password is needed. It raises `Invalid` in a host that has none. `server` gives the server that answers for the
    instance, and what lets a program in: the one that runs, else one on loopback that starts with its first request
    and ends with the instance; None in a host that can offer none.
    """

    client: Client
    project: Project
    directory: Path
    worktree: Path
    server_url: Callable[[], str | None]
    shell: Shell
    children: Children
    kv: KV
    data: Path
    host: Host
    registry: Registry
    config: Plain
    environment: Mapping[str, str]
    flags: Plain
    declare_hook: Callable[[HookPoint[Any, Any]], HookPoint[Any, Any]]
    trigger: Callable[[HookPoint[Any, Any], Any, Any], Awaitable[Any]]
    trusted: Callable[[Path], bool]
    halted: Callable[[], int]
    origins: Mapping[str, str] = {}
    automatic: bool = True
    seen: Callable[[Path], Mapping[str, str] | None] = lambda _folder: {}
    http: "Callable[[], AsyncClient] | None" = None
    server: Callable[[], Server | None] | None = None

    @property
    def experimental_workspace(self) -> Workspaces:
        """Where workspace adapters are registered (opencode's name)."""
        return Workspaces(self.registry)
