"""Workspaces: folders apart, or machines, that sessions work in, and the adapters that plugins bring for them.

The shapes are opencode's (seed 004 section 6; the reference's section 3.3). A plugin registers an adapter under a
type; the type ``worktree`` is built in.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from instar.api.workspace import WorkspaceInfo


class LocalTarget(msgspec.Struct, frozen=True):
    """A workspace on this machine: the absolute path of its folder."""

    directory: Path


class RemoteTarget(msgspec.Struct, frozen=True):
    """A workspace on another machine: the address of its server, and headers that every request needs."""

    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


Target = LocalTarget | RemoteTarget


class WorkspaceAdapter(Protocol):
    """How workspaces of one type are made and unmade. What it raises becomes one line for the person."""

    @property
    def name(self) -> str:
        """What people call the type."""
        ...

    @property
    def description(self) -> str:
        """What such a workspace is, in one sentence."""
        ...

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Return `info` as it will be kept: with its directory, branch, extra. Makes nothing yet."""
        ...

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Make the workspace. `env` is for the programs that work in it, `from_` another one to begin from.

        After a failure, or a crash, `remove` is called for what was made so far.
        """
        ...

    async def remove(self, info: WorkspaceInfo) -> None:
        """Unmake the workspace, also one that was half made or of which parts are gone."""
        ...

    async def target(self, info: WorkspaceInfo) -> Target:
        """Return where the workspace is."""
        ...


@runtime_checkable
class Careful(Protocol):
    """What an adapter may have besides: it knows what removing a workspace would lose."""

    async def unsaved(self, info: WorkspaceInfo) -> str | None:
        """Return what is only there (``2 commits that no other branch has``), None when nothing is."""
        ...


class WorkspaceClient(Protocol):
    """The workspaces of the client's project."""

    async def create(
        self,
        kind: str = "worktree",
        *,
        name: str | None = None,
        branch: str | None = None,
        extra: Any = None,
        from_id: str | None = None,
    ) -> WorkspaceInfo:
        """Make a workspace of the type `kind`; without a name it gets one.

        Nothing is left of one that could not be made. Raises `Invalid`, and `NotFound` when `from_id` is nobody's.
        """
        ...

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return the project's workspaces, oldest first."""
        ...

    async def get(self, named: str) -> WorkspaceInfo:
        """Return the workspace with this id or name. Raises `NotFound`."""
        ...

    async def remove(self, named: str, *, force: bool = False) -> WorkspaceInfo:
        """Remove a workspace and return what it was.

        Raises `NotFound`; `Invalid` when a session runs in it, and without `force` when work would be lost.
        """
        ...

    async def target(self, named: str) -> Target:
        """Return where a workspace is. Raises `NotFound` and `Invalid`."""
        ...

    async def types(self) -> Mapping[str, str]:
        """Return the types that there are, each with its description."""
        ...
