"""The repository of a directory, for a person who looks at it: branches, what has changed, patches."""

from instar.vcs.branches import checked_out, default_branch, left_at, start
from instar.vcs.changes import diff, raw, status
from instar.vcs.patch import ApplyError, apply, check, take_back
from instar.vcs.repository import Repository, repository

__all__ = [
    "ApplyError",
    "Repository",
    "apply",
    "check",
    "checked_out",
    "default_branch",
    "diff",
    "left_at",
    "raw",
    "repository",
    "start",
    "status",
    "take_back",
]
