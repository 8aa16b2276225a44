"""Bodies and answers of the routes of projects, of their worktrees and copies."""

from typing import Annotated, Literal

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
    """The name of a new worktree, and what is run in it besides the project's own start command."""

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
