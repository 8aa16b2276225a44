"""opencode's experimental operations."""

from instar.api.instance import ConsoleOrgs, ConsoleState, ExperimentalCapabilities, McpResource, SwitchBody
from instar.api.project import (
    MoveBody,
    NameBody,
    Named,
    WarpBody,
    WorkspaceAdapterInfo,
    WorkspaceBody,
    WorkspaceInfo,
    WorkspaceStatus,
)
from instar.api.session import GlobalSession
from instar.client.endpoint import C, Calls, endpoint


class ExperimentalWorkspaceAdapterCalls(Calls[C]):
    """``experimental.workspace.adapter``."""

    @endpoint("GET", "/experimental/workspace/adapter")
    def list(self) -> list[WorkspaceAdapterInfo]:
        """List the types of workspaces that there are."""


class ExperimentalCapabilitiesCalls(Calls[C]):
    """``experimental.capabilities``."""

    @endpoint("GET", "/experimental/capabilities")
    def get(self) -> ExperimentalCapabilities:
        """Tell which of opencode's experiments are on: none."""


class ExperimentalConsoleCalls(Calls[C]):
    """``experimental.console``."""

    @endpoint("GET", "/experimental/console")
    def get(self) -> ConsoleState:
        """Tell of the account in opencode's cloud: there is none."""

    @endpoint("GET", "/experimental/console/orgs")
    def list_orgs(self) -> ConsoleOrgs:
        """List the organisations of the account in opencode's cloud: there are none."""

    @endpoint("POST", "/experimental/console/switch")
    def switch_org(self, body: SwitchBody) -> bool:
        """Switch to another organisation; false, since there is none."""


class ExperimentalControlPlaneCalls(Calls[C]):
    """``experimental.control_plane``."""

    @endpoint("POST", "/experimental/control-plane/move-session")
    def move_session(self, body: MoveBody) -> None:
        """Let a session go on in another folder of its project; with `moveChanges` the changed files go along."""


class ExperimentalProjectCopyCalls(Calls[C]):
    """``experimental.project_copy``."""

    @endpoint("POST", "/experimental/project/{projectID}/copy/generate-name")
    def generate_name(self, project_id: str, body: NameBody) -> Named:
        """Make a name for a copy of the first words of what it is wanted for; no model is asked."""


class ExperimentalResourceCalls(Calls[C]):
    """``experimental.resource``."""

    @endpoint("GET", "/experimental/resource")
    def list(self) -> dict[str, McpResource]:
        """List what connected servers offer to read, by server and uri."""


class ExperimentalSessionCalls(Calls[C]):
    """``experimental.session``."""

    @endpoint("POST", "/experimental/session/{sessionID}/background")
    def background(self, session_id: str) -> bool:
        """Say that no sub-agent was sent to the background: a task's call waits for its answer here."""

    @endpoint("GET", "/experimental/session")
    def list(
        self,
        *,
        roots: bool = False,
        start: float | None = None,
        cursor: float | None = None,
        search: str = "",
        limit: float | None = None,
        archived: bool = False,
        directory: str | None = None,
    ) -> list[GlobalSession]:
        """List the sessions of all projects, last updated first; 100 unless `limit` says more."""


class ExperimentalWorkspaceCalls(Calls[C]):
    """``experimental.workspace``."""

    adapter: ExperimentalWorkspaceAdapterCalls[C]

    @endpoint("POST", "/experimental/workspace")
    def create(self, body: WorkspaceBody) -> WorkspaceInfo:
        """Make a workspace."""

    @endpoint("POST", "/experimental/workspace/sync-list")
    def sync_list(self) -> None:
        """Look again which workspaces there are. There is nothing to do: they are read each time."""

    @endpoint("GET", "/experimental/workspace/status")
    def status(self) -> list[WorkspaceStatus]:
        """Say of each workspace whether it can be worked in."""

    @endpoint("DELETE", "/experimental/workspace/{id}")
    def remove(self, id: str) -> WorkspaceInfo:
        """Remove a workspace with all that is only there."""

    @endpoint("POST", "/experimental/workspace/warp")
    def warp(self, body: WarpBody) -> None:
        """Let a session go on in a workspace, or, without one, in the project's own folder."""

    @endpoint("GET", "/experimental/workspace")
    def list(self) -> list[WorkspaceInfo]:
        """List the workspaces, oldest first."""


class ExperimentalCalls(Calls[C]):
    """``experimental``."""

    capabilities: ExperimentalCapabilitiesCalls[C]
    console: ExperimentalConsoleCalls[C]
    control_plane: ExperimentalControlPlaneCalls[C]
    project_copy: ExperimentalProjectCopyCalls[C]
    resource: ExperimentalResourceCalls[C]
    session: ExperimentalSessionCalls[C]
    workspace: ExperimentalWorkspaceCalls[C]
