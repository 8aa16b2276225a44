"""The rows of projects: what is written of one, and how it is read."""

from collections.abc import Sequence
from typing import Any

import msgspec

from instar import wire
from instar.api.project import Project, ProjectCommands, ProjectIcon
from instar.event import ProjectTime
from instar.wire import Plain


class PutProject(msgspec.Struct, frozen=True):
    """Insert or update the row of a project; `worktree` is ``/`` outside a repository.

    What a person gave it (`name`, `icon`, `commands`) stays where it is None here, field by field.
    """

    id: str
    worktree: str
    vcs: str | None
    now: int
    name: str | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


def values_of(write: PutProject) -> Plain:
    """Return the values of a write by their names in the statement."""
    icon = write.icon or ProjectIcon()
    return {
        "id": write.id,
        "worktree": write.worktree,
        "vcs": write.vcs,
        "now": write.now,
        "name": write.name,
        "url": icon.url,
        "override": icon.override,
        "color": icon.color,
        "commands": wire.encode(write.commands).decode() if write.commands is not None else None,
    }


def project_of(row: Sequence[Any]) -> Project:
    """Return the project of a row, its columns in the statement's order; `sandboxes` are for others to fill in."""
    project_id, worktree, vcs, name, url, override, color, created, updated, initialized, commands = row
    icon = ProjectIcon(url=url, override=override, color=color)
    return Project(
        id=project_id,
        worktree=worktree,
        vcs="git" if vcs == "git" else None,
        name=name,
        icon=icon if icon != ProjectIcon() else None,
        commands=_commands(commands),
        time=ProjectTime(created=created, updated=updated, initialized=initialized),
        sandboxes=[],
    )


def _commands(text: str | None) -> ProjectCommands | None:
    try:
        return wire.decode(text, ProjectCommands) if text else None
    except msgspec.DecodeError:  # written by another program: no reason to list no projects
        return None
