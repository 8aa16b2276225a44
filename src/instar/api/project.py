"""Words about a project: its worktrees, copies and workspaces, its repository and its files.

The repository's routes name files from the repository's folder, the files' routes from the directory.
"""

from typing import Annotated, Any, Literal

import msgspec

from instar.event import ProjectTime
from instar.wire import Wire


class ProjectIcon(Wire):
    """What a client shows for a project: an address (``data:`` too), one that stands before it, a colour."""

    url: str | None = None
    override: str | None = None
    color: str | None = None


class ProjectCommands(Wire):
    """Commands of a project: `start` is run in each new worktree."""

    start: str | None = None


class Project(Wire):
    """A project: the repository's root commit as its id, its folder, what a person gave it, and its worktrees."""

    id: str
    worktree: str
    vcs: Literal["git"] | None = None
    name: str | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None
    time: ProjectTime
    sandboxes: list[str]


class ProjectBody(Wire):
    """What a client may change of a project; what is left out stays."""

    name: str | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


class ProjectDirectory(Wire):
    """A folder of a project; `strategy` says how it was made, where instar made it."""

    directory: str
    strategy: str | None = None


class WorktreeCreateInput(Wire):
    """The name of a new worktree, and a command to run in it after the project's own start command."""

    name: str | None = None
    start_command: str | None = None


class WorktreeRemoveInput(Wire):
    """The folder of a worktree."""

    directory: str


class WorktreeResetInput(WorktreeRemoveInput):
    """The folder of a worktree that is to be as the default branch again."""


class Worktree(Wire):
    """A worktree: its name, its branch and its folder."""

    name: str
    branch: str | None = None
    directory: str


class CopyBody(Wire):
    """How, below which folder and under which name a copy of a project is made."""

    strategy: str
    directory: str
    name: str | None = None


class CopyRemoveBody(Wire):
    """The folder of a copy. Without `force` one that holds work of its own stays."""

    directory: str
    force: bool


class ProjectCopy(Wire):
    """The folder of a copy."""

    directory: str


class NameBody(Wire):
    """What a copy is wanted for."""

    context: str | None = None


class Named(Wire):
    """A name that is free."""

    name: str


class MoveDestination(Wire):
    """The folder that a session is moved to."""

    directory: str


class MoveBody(Wire):
    """A session, where it is to go on, and whether the changed files go with it."""

    session_id: Annotated[str, msgspec.Meta(pattern="^ses")]
    destination: MoveDestination
    move_changes: bool = False


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


Status = Literal["added", "deleted", "modified"]


class VcsInfo(Wire):
    """The branch that is checked out, and the one that others begin at; neither outside a repository."""

    branch: str | None = None
    default_branch: str | None = msgspec.field(default=None, name="default_branch")


class VcsFileStatus(Wire):
    """A file that differs from the last commit, and by how many lines; 0 for a binary file."""

    file: str
    additions: int
    deletions: int
    status: Status


class VcsFileDiff(Wire):
    """A file that differs. Its patch is left out where it, or all of them together, would be too long."""

    file: str
    patch: str | None = None
    additions: int
    deletions: int
    status: Status | None = None


class VcsDiffQuery(Wire):
    """Since what: the last commit (``git``), or where the branch left the default one (``branch``).

    `context` is how many lines are shown around a change; git's 3 where it is left out.
    """

    mode: Literal["git", "branch"]
    context: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ApplyBody(Wire):
    """A patch for the repository's folder, in git's form."""

    patch: str


class Applied(Wire):
    """Says that a patch was applied."""

    applied: bool


Kind = Literal["file", "directory"]
Count = Annotated[int, msgspec.Meta(ge=0)]


class PathQuery(Wire):
    """Names a file or folder of the directory; empty: the directory itself."""

    path: str


class TextQuery(Wire):
    """A regular expression that is looked for in files, as ripgrep understands it."""

    pattern: str


class NameQuery(Wire):
    """Letters that a name holds in this order. `dirs` lists folders too, unless `type` names what is wanted."""

    query: str
    dirs: Literal["true", "false"] | None = None
    type: Kind | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None


class SymbolQuery(Wire):
    """A part of a symbol's name."""

    query: str


class Path(Wire):
    """The folders that matter to a client: the person's home, instar's own, the repository's, the request's."""

    home: str
    state: str
    config: str
    worktree: str
    directory: str


class FileNode(Wire):
    """An entry of a folder; a folder's `path` ends in a slash. `ignored`: git does not look at it."""

    name: str
    path: str
    absolute: str
    type: Kind
    ignored: bool


class FileContent(Wire):
    """What a file holds: its text, or its bytes in base64 with their type."""

    type: Literal["text", "binary"]
    content: str
    encoding: Literal["base64"] | None = None
    mime_type: str | None = None


class File(Wire):
    """A changed file and how many lines of it."""

    path: str
    added: Count
    removed: Count
    status: Literal["added", "deleted", "modified"]


class Text(Wire):
    """A text in ripgrep's form."""

    text: str


class Submatch(Wire):
    """A place in a line, in bytes from its start."""

    match: Text
    start: Count
    end: Count


class TextMatch(Wire):
    """A line that matches; `absolute_offset` counts the file's bytes before it."""

    path: Text
    lines: Text
    line_number: Count = msgspec.field(name="line_number")
    absolute_offset: Count = msgspec.field(name="absolute_offset")
    submatches: list[Submatch]


class Position(Wire):
    """A place in a file: line and character, from 0."""

    line: Count
    character: Count


class Range(Wire):
    """A stretch of a file."""

    start: Position
    end: Position


class SymbolLocation(Wire):
    """Where a symbol stands."""

    uri: str
    range: Range


class Symbol(Wire):
    """A symbol, as a language server names it; instar asks for none."""

    name: str
    kind: Count
    location: SymbolLocation


class FileSystemEntry(Wire):
    """A file or folder; a folder's path ends in a slash."""

    path: str
    type: Kind
