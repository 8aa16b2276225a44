"""What a plugin is and what it is given: the public interface that flagships and strangers share."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from instar.api.operation import Bound, check, operations
from instar.git.project import Project
from instar.plugin.client import Client, Messages
from instar.plugin.points import HookPoint
from instar.plugin.shell import Shell
from instar.plugin.view import View, clash
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.settings.plugin_folders import PluginFolder
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.client import AsyncClient


class FetchRequest(msgspec.Struct, frozen=True):
    """A call of a provider as instar would send it; `headers` have names in small letters."""

    url: str
    method: str
    headers: dict[str, str]
    body: bytes


class FetchResponse(msgspec.Struct, frozen=True):
    """What came back: the HTTP status, the headers, and the body as it comes, decompressed.

    The body is closed where it is left early; its chunks may raise as a `Fetch` does.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    body: AsyncGenerator[bytes, None]


Fetch = Callable[[FetchRequest], Awaitable[FetchResponse]]
"""Sends a request. An `OSError` means that nobody was reached, and the call is tried again; any other error ends it."""


class FetchFailed(Exception):
    """A `Fetch` did not send a call, or broke off, for a reason of its own; the text is the reason's."""


Hooks = Mapping[str, Any]
"""What a plugin returns: hook point names to ``async (input, output) -> None``.

Besides hook points: ``event`` (``async (event) -> None``, every bus event in order), ``config``
(``async (config) -> None``, may change it in place), ``tool`` (a live mapping of tool name to `Tool`, read at
every step), ``auth`` and ``provider`` (`instar.provider.resolve`), ``timeout`` (the seconds that one call
may take, None for limits of its own) and ``dispose`` (``async () -> None``).
"""

PluginFunction = Callable[..., Awaitable[Hooks | None]]
"""A plugin: ``async (input: PluginInput, options: dict) -> Hooks``; None stands for no hooks."""


class KV(Protocol):
    """A plugin's own durable values, JSON-ready, in the instance's store."""

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""

    async def swap(self, key: str, before: Any, value: Any) -> bool:
        """Set the value for `key` if it still is `before` (None: there is none); return whether it was."""

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""


class Host(msgspec.Struct, frozen=True):
    """The program that the plugin runs in: `capabilities` names what it can do beyond opencode's interface."""

    name: str
    version: str
    capabilities: frozenset[str]


class Registry:
    """What plugins contribute in addition to hooks: views, HTTP routes, workspace adapters.

    `owner` is the plugin that the registry was given to; "" is the runtime itself. `idle` gives, by plugin, the reason
    why a loaded plugin does nothing here.
    """

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.views: dict[str, View] = {}
        self.routes: list[Bound] = []
        self.workspaces: dict[str, Any] = {}
        self.idle: dict[str, str] = {}
        self._owned: dict[str, list[View | Bound | tuple[str, Any]]] = {}

    def of(self, owner: str) -> "Registry":
        """Return this registry for the plugin `owner`: both share their contents."""
        given = Registry(owner)
        given.views, given.routes, given.workspaces = self.views, self.routes, self.workspaces
        given.idle = self.idle
        given._owned = self._owned
        return given

    def release(self, owner: str) -> Callable[[], None]:
        """Remove what a plugin contributed. The function that is returned restores it and removes what came since."""
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
        """Give the reason why the plugin does nothing here: requests to its operations are answered with it."""
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
        """Offer a kind of workspace (`WorkspaceAdapter`). Raises `ValueError` for an adapter that lacks a part."""
        missing = [part for part in _ADAPTER if not callable(getattr(adapter, part, None))]
        if missing or not type:
            raise ValueError(f"the workspace adapter {type!r} has no method {', '.join(missing) or 'name'}")
        self._keep(self.owner, (type, adapter))


_ADAPTER = ("configure", "create", "remove", "target")


def _shape(path: str) -> str:
    """A path without the names of its variable parts: two of one shape answer the same requests."""
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


class WorkspaceKinds(msgspec.Struct, frozen=True):
    """Where a plugin offers kinds of workspaces: ``input.experimental_workspace.register(type, adapter)``."""

    registry: Registry

    def register(self, type: str, adapter: Any) -> None:  # noqa: A002 - opencode's name
        """Offer a kind of workspace. Raises `ValueError` as `Registry.register_workspace`."""
        self.registry.register_workspace(type, adapter)


class Means(msgspec.Struct, frozen=True):
    """What a flagship's command works with: the part of `PluginInput` that needs no instance, and its own children.

    `messages` returns the messages of a session by its id, oldest first, and raises `NotFound`. `halted` is as in
    `PluginInput`. `resume` lifts `instar stop` for the working directory's project; call it only where a person asked
    for that. `config` is the merged configuration before any plugin's ``config`` hook.
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
    served: Callable[[Path], Path] = lambda path: path
    plugin_folders: Sequence[PluginFolder] = ()

    @property
    def worktree(self) -> Path:
        """The project's worktree."""
        return self.project.worktree


class Server(msgspec.Struct, frozen=True):
    """A server of this instance: its `url`, and its ``Authorization`` header, None where it needs none."""

    url: str
    authorization: str | None


class PluginInput(msgspec.Struct, frozen=True):
    """What a plugin function is given as its first argument; the options of its ``plugin`` entry are the second.

    - `client` makes requests of the system, as this plugin. `kv` keeps JSON values, `data` is a folder for files: the
      plugin makes it, and no child of the model sees it.
    - `project`, `directory` and `worktree` say where the instance works.
    - `shell` runs the plugin's own commands. `children` starts and confines what runs for the model.
    - `config` is the merged configuration with secrets masked. `origins` gives the file of a dotted place in it.
      `environment` and `flags` are the person's.
    - `host` names the program and its capabilities. `registry` takes views, HTTP operations and workspace adapters.
    - `declare_hook` adds a hook point and `trigger` runs one; `trigger` raises `Refused` at a gate.
    - `trusted(folder)` is True if code of the folder may run. `served(path)` gives what to read in the place of a
      file of the project's that steers: the version that a person accepted, which is not there where none was.
      `plugin_folders` are those of Claude Code's plugins and Agent Plugins that the person installed.
    - `halted()` is the time, in ms, of the `instar stop` that is in force here, 0 for none: begin no turn while it is
      not 0. `automatic` is False in a command that does one thing: begin no turn by yourself there.
    - `server_url()` returns the address of a server for the instance and may start one; None where there is none.
      `server()` does the same and adds the header that lets a program in. The server that runs is taken, else one on
      loopback that starts with its first request and ends with the instance.
    - `confirm(step)` asks the person at the terminal whether to go on with what the text says; where nobody is there,
      it says the text and is True. It is None in a host that can do neither.
    - `http()` returns a typed client of the instance's whole HTTP interface (`instar.client`), in process: no server
      and no password is needed. It raises `Invalid` in a host that has none.
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
    served: Callable[[Path], Path] = lambda path: path
    plugin_folders: Sequence[PluginFolder] = ()
    http: "Callable[[], AsyncClient] | None" = None
    server: Callable[[], Server | None] | None = None
    confirm: Callable[[str], Awaitable[bool]] | None = None

    @property
    def experimental_workspace(self) -> WorkspaceKinds:
        """Where workspace adapters are registered (opencode's name)."""
        return WorkspaceKinds(self.registry)
