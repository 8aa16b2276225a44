"""What is in a project: its files, tools and worktrees, terminals, and opencode's experimental operations."""

from typing import Any, Literal

from instar.api.instance import (
    Agent,
    Command,
    ConsoleOrgs,
    ConsoleState,
    ExperimentalCapabilities,
    FormatterStatus,
    LogBody,
    LSPStatus,
    McpResource,
    Skill,
    SwitchBody,
    ToolListItem,
)
from instar.api.project import (
    Applied,
    ApplyBody,
    File,
    FileContent,
    FileNode,
    MoveBody,
    NameBody,
    Named,
    Path,
    Project,
    ProjectBody,
    ProjectDirectory,
    Symbol,
    TextMatch,
    VcsFileDiff,
    VcsFileStatus,
    VcsInfo,
    WarpBody,
    WorkspaceAdapterInfo,
    WorkspaceBody,
    WorkspaceInfo,
    WorkspaceStatus,
    Worktree,
    WorktreeCreateInput,
    WorktreeRemoveInput,
    WorktreeResetInput,
)
from instar.api.session import GlobalSession
from instar.api.terminal import (
    EventTuiCommandExecute,
    EventTuiPromptAppend,
    EventTuiSessionSelect,
    EventTuiToastShow,
    PtyCreateBody,
    PtyShell,
    PtyTicketConnectToken,
    PtyUpdateBody,
    TuiCommandBody,
    TuiRequest,
    TuiSessionBody,
    TuiToastBody,
)
from instar.client.endpoint import C, Calls, endpoint
from instar.event import Pty, TuiPromptAppend


class AppCalls(Calls[C]):
    """``app``."""

    @endpoint("GET", "/agent")
    def agents(self) -> list[Agent]:
        """List the agents: the default one first, since clients begin with the first one that they may use."""

    @endpoint("GET", "/skill")
    def skills(self) -> list[Skill]:
        """List the skills, with their texts."""

    @endpoint("POST", "/log")
    def log(self, body: LogBody) -> bool:
        """Write a line into the log."""


class CommandCalls(Calls[C]):
    """``command``."""

    @endpoint("GET", "/command")
    def list(self) -> list[Command]:
        """List the commands: those of the settings, the prompts of MCP servers, and the skills."""


class FileCalls(Calls[C]):
    """``file``."""

    @endpoint("GET", "/file/content")
    def read(self, *, path: str) -> FileContent:
        """Read a file: its text, or its bytes in base64; of a file that is not there no text."""

    @endpoint("GET", "/file/status")
    def status(self) -> list[File]:
        """List the changed files."""

    @endpoint("GET", "/file")
    def list(self, *, path: str) -> list[FileNode]:
        """List the files and folders in a folder; links are left out."""


class FindCalls(Calls[C]):
    """``find``."""

    @endpoint("GET", "/find")
    def text(self, *, pattern: str) -> list[TextMatch]:
        """Find the first ten lines that match a regular expression, in the order of the files' names."""

    @endpoint("GET", "/find/file")
    def files(
        self,
        *,
        query: str,
        dirs: Literal["true", "false"] | None = None,
        type: Literal["file", "directory"] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Find files and folders whose path holds these letters in this order, best first."""

    @endpoint("GET", "/find/symbol")
    def symbols(self, *, query: str) -> list[Symbol]:
        """Find symbols. Always empty: no language server is asked for symbols."""


class FormatterCalls(Calls[C]):
    """``formatter``."""

    @endpoint("GET", "/formatter")
    def status(self) -> list[FormatterStatus]:
        """List the formatters, and which of them run."""


class InstanceCalls(Calls[C]):
    """``instance``."""

    @endpoint("POST", "/instance/dispose")
    def dispose(self) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with its new settings."""


class LspCalls(Calls[C]):
    """``lsp``."""

    @endpoint("GET", "/lsp")
    def status(self) -> list[LSPStatus]:
        """List the language servers that were started."""


class PathCalls(Calls[C]):
    """``path``."""

    @endpoint("GET", "/path")
    def get(self) -> Path:
        """Get the folders that matter: the home, instar's own, the repository's, the request's."""


class ProjectCalls(Calls[C]):
    """``project``."""

    @endpoint("GET", "/project/current")
    def current(self) -> Project:
        """Get the directory's project."""

    @endpoint("POST", "/project/git/init")
    def init_git(self) -> Project:
        """Make the directory a git repository; one that lies in a repository stays as it is."""

    @endpoint("PATCH", "/project/{projectID}")
    def update(self, project_id: str, body: ProjectBody) -> Project:
        """Change a project's name, icon or commands; what is left out stays."""

    @endpoint("GET", "/project/{projectID}/directories")
    def directories(self, project_id: str) -> list[ProjectDirectory]:
        """List the folders of a project's repository; none of one that nobody knows, or that git will not read."""

    @endpoint("GET", "/project")
    def list(self) -> list[Project]:
        """List the projects, last used first."""


class ToolCalls(Calls[C]):
    """``tool``."""

    @endpoint("GET", "/experimental/tool/ids")
    def ids(self) -> list[str]:
        """List the names of all tools."""

    @endpoint("GET", "/experimental/tool")
    def list(self, *, provider: str, model: str) -> list[ToolListItem]:
        """List the tools as the model sees them."""


class VcsCalls(Calls[C]):
    """``vcs``."""

    @endpoint("GET", "/vcs")
    def get(self) -> VcsInfo:
        """Get the branch that is checked out, and the default one."""

    @endpoint("GET", "/vcs/status")
    def status(self) -> list[VcsFileStatus]:
        """List the files of the directory that differ from the last commit, new ones too."""

    @endpoint("GET", "/vcs/diff")
    def diff(self, *, mode: Literal["git", "branch"], context: int | None = None) -> list[VcsFileDiff]:
        """Show how the files of the directory differ from the last commit, or from where the branch began."""

    @endpoint("GET", "/vcs/diff/raw")
    def diff_raw(self) -> str:
        """Get all that differs from the last commit as one patch, which `vcs.apply` takes."""

    @endpoint("POST", "/vcs/apply")
    def apply(self, body: ApplyBody) -> Applied:
        """Apply a patch to the repository's files, whole or not at all."""


class WorktreeCalls(Calls[C]):
    """``worktree``."""

    @endpoint("POST", "/experimental/worktree")
    def create(self, body: WorktreeCreateInput | None = None) -> Worktree:
        """Make a worktree; the project's start command and the body's run in it once it is answered."""

    @endpoint("DELETE", "/experimental/worktree")
    def remove(self, body: WorktreeRemoveInput) -> bool:
        """Remove a worktree with its branch and everything that is only in it. Nothing happens if it does not exist."""

    @endpoint("POST", "/experimental/worktree/reset")
    def reset(self, body: WorktreeResetInput) -> bool:
        """Make a worktree as the default branch is; all that was done in it is lost."""

    @endpoint("GET", "/experimental/worktree")
    def list(self) -> list[str]:
        """List the worktrees' folders, oldest first."""


class TuiControlCalls(Calls[C]):
    """``tui.control``."""

    @endpoint("POST", "/tui/control/response")
    def response(self, body: Any) -> bool:
        """Answer a request. Nobody waits for the answer: the request was answered when it was taken."""

    @endpoint("GET", "/tui/control/next")
    def next(self) -> TuiRequest:
        """Wait for the next of these requests: for an interface that hears no events."""


class PtyCalls(Calls[C]):
    """``pty``."""

    @endpoint("GET", "/pty/shells")
    def shells(self) -> list[PtyShell]:
        """List the shells of the machine."""

    @endpoint("POST", "/pty")
    def create(self, body: PtyCreateBody | None = None) -> Pty:
        """Open a terminal and start a program in it."""

    @endpoint("GET", "/pty/{ptyID}")
    def get(self, pty_id: str) -> Pty:
        """Get a terminal."""

    @endpoint("PUT", "/pty/{ptyID}")
    def update(self, pty_id: str, body: PtyUpdateBody | None = None) -> Pty:
        """Set a terminal's title and size."""

    @endpoint("DELETE", "/pty/{ptyID}")
    def remove(self, pty_id: str) -> bool:
        """End a terminal's program and forget the terminal."""

    @endpoint("POST", "/pty/{ptyID}/connect-token")
    def connect_token(self, pty_id: str) -> PtyTicketConnectToken:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""

    @endpoint("GET", "/pty")
    def list(self) -> list[Pty]:
        """List the terminals, oldest first."""


class TuiCalls(Calls[C]):
    """``tui``."""

    control: TuiControlCalls[C]

    @endpoint("POST", "/tui/append-prompt")
    def append_prompt(self, body: TuiPromptAppend) -> bool:
        """Put text behind what stands in the prompt."""

    @endpoint("POST", "/tui/open-help")
    def open_help(self) -> bool:
        """Open the help."""

    @endpoint("POST", "/tui/open-sessions")
    def open_sessions(self) -> bool:
        """Open the list of sessions."""

    @endpoint("POST", "/tui/open-themes")
    def open_themes(self) -> bool:
        """Open the list of themes."""

    @endpoint("POST", "/tui/open-models")
    def open_models(self) -> bool:
        """Open the list of models."""

    @endpoint("POST", "/tui/submit-prompt")
    def submit_prompt(self) -> bool:
        """Send what stands in the prompt."""

    @endpoint("POST", "/tui/clear-prompt")
    def clear_prompt(self) -> bool:
        """Clear the prompt."""

    @endpoint("POST", "/tui/execute-command")
    def execute_command(self, body: TuiCommandBody) -> bool:
        """Carry out a command of the interface."""

    @endpoint("POST", "/tui/show-toast")
    def show_toast(self, body: TuiToastBody) -> bool:
        """Show a notice."""

    @endpoint("POST", "/tui/publish")
    def publish(
        self, body: EventTuiPromptAppend | EventTuiCommandExecute | EventTuiToastShow | EventTuiSessionSelect
    ) -> bool:
        """Publish one of these events."""

    @endpoint("POST", "/tui/select-session")
    def select_session(self, body: TuiSessionBody) -> bool:
        """Open a session."""


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
