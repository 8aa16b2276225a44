"""A directory: its project, files and worktrees, and what is defined for the model."""

from typing import Literal

from instar.api.instance import Agent, Command, FormatterStatus, LogBody, LSPStatus, Skill, ToolListItem
from instar.api.project import (
    Applied,
    ApplyBody,
    File,
    FileContent,
    FileNode,
    Path,
    Project,
    ProjectBody,
    ProjectDirectory,
    Symbol,
    TextMatch,
    VcsFileDiff,
    VcsFileStatus,
    VcsInfo,
    Worktree,
    WorktreeCreateInput,
    WorktreeRemoveInput,
    WorktreeResetInput,
)
from instar.client.endpoint import C, Calls, endpoint


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
        """Find symbols. Always empty: instar starts no language servers."""


class FormatterCalls(Calls[C]):
    """``formatter``."""

    @endpoint("GET", "/formatter")
    def status(self) -> list[FormatterStatus]:
        """List the formatters: instar runs none."""


class InstanceCalls(Calls[C]):
    """``instance``."""

    @endpoint("POST", "/instance/dispose")
    def dispose(self) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with its new settings."""


class LspCalls(Calls[C]):
    """``lsp``."""

    @endpoint("GET", "/lsp")
    def status(self) -> list[LSPStatus]:
        """List the language servers: instar starts none."""


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
