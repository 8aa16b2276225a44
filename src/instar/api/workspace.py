"""Bodies and answers of the routes of workspaces."""

from typing import Annotated, Any, Literal

import msgspec

from instar.wire import Wire

WorkspaceID = Annotated[str, msgspec.Meta(pattern="^wrk")]


class WorkspaceInfo(Wire):
    """A workspace as it is kept: opencode's ``Workspace``.

    `type` names the adapter. `extra` is the adapter's own, JSON-ready. `time_used` (ms) is when a session was
    last made in it. `branch` and `directory` are set where they mean something.
    """

    id: str
    type: str
    name: str
    branch: str | None = None
    directory: str | None = None
    extra: Any = None
    project_id: str
    time_used: int = msgspec.field(default_factory=int)


class WorkspaceAdapterInfo(Wire):
    """A type of workspace that there is."""

    type: str
    name: str
    description: str


class WorkspaceBody(Wire):
    """The type of a new workspace; `branch` and `extra` are for its adapter. The id is always a new one."""

    id: WorkspaceID | None = None
    type: str
    branch: str | None = None
    extra: Any = None


class WorkspaceStatus(Wire):
    """Whether a workspace can be worked in."""

    workspace_id: WorkspaceID
    status: Literal["connected", "connecting", "disconnected", "error"]


class WarpBody(Wire):
    """The session that moves into a workspace, or out of one (`id` null); `copy_changes` takes the files along."""

    id: WorkspaceID | None
    session_id: Annotated[str, msgspec.Meta(pattern="^ses")]
    copy_changes: bool = False
