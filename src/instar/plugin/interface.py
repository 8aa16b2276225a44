"""What a plugin is and what it is given: the public interface that flagships and strangers share."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from instar.plugin.client import Client
from instar.plugin.hookpoint import HookPoint
from instar.plugin.shell import Shell
from instar.project import Project
from instar.wire import Plain

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


class View(msgspec.Struct, frozen=True):
    """A typed look into a room for inspection: values by name, each with its doc and a reader."""

    name: str
    doc: str
    values: Mapping[str, Callable[[], Any]]


class Registry:
    """What plugins contributed besides hooks: views, HTTP routes, workspace adapters."""

    def __init__(self) -> None:
        self.views: dict[str, View] = {}
        self.routes: list[Any] = []
        self.workspaces: dict[str, Any] = {}

    def add_view(self, view: View) -> None:
        """Add a view. Raises `ValueError` when its name is taken."""
        if view.name in self.views:
            raise ValueError(f"view {view.name!r} is registered twice")
        self.views[view.name] = view

    def register_workspace(self, type: str, adapter: Any) -> None:  # noqa: A002 - opencode's name
        """Offer a kind of workspace (seed 004 section 6). Raises `ValueError` for an adapter that lacks a part."""
        missing = [part for part in _ADAPTER if not callable(getattr(adapter, part, None))]
        if missing or not type:
            raise ValueError(f"the workspace adapter {type!r} has no method {', '.join(missing) or 'name'}")
        self.workspaces[type] = adapter


_ADAPTER = ("configure", "create", "remove", "target")


class Workspaces(msgspec.Struct, frozen=True):
    """Where a plugin offers kinds of workspaces: ``input.experimental_workspace.register(type, adapter)``."""

    registry: Registry

    def register(self, type: str, adapter: Any) -> None:  # noqa: A002 - opencode's name
        """Offer a kind of workspace. Raises `ValueError` as `Registry.register_workspace`."""
        self.registry.register_workspace(type, adapter)


class PluginInput(msgspec.Struct, frozen=True):
    """What a plugin function is given; `shell` starts children, `kv` keeps values.

    `trusted` says whether the folder's own code may run; `options` of the spec come as the second argument.
    `config` is the merged configuration, secrets masked. `server_url` is called, not read: it may start a server.
    """

    client: Client
    project: Project
    directory: Path
    worktree: Path
    server_url: Callable[[], str | None]
    shell: Shell
    kv: KV
    host: Host
    registry: Registry
    config: Plain
    environment: Mapping[str, str]
    flags: Plain
    declare_hook: Callable[[HookPoint[Any, Any]], HookPoint[Any, Any]]
    trigger: Callable[[HookPoint[Any, Any], Any, Any], Awaitable[Any]]
    trusted: Callable[[Path], bool]

    @property
    def experimental_workspace(self) -> Workspaces:
        """Where workspace adapters are registered (opencode's name)."""
        return Workspaces(self.registry)
