"""Queries, bodies and answers of the routes of the repository. Files are named from the repository's folder."""

from typing import Annotated, Literal

import msgspec

from instar.wire import Wire

Status = Literal["added", "deleted", "modified"]


class VcsInfo(Wire):
    """The branch that is checked out, and the one that others begin at; neither outside a repository."""

    branch: str | None = None
    default_branch: str | None = msgspec.field(default=None, name="default_branch")


class VcsFileStatus(Wire):
    """A file that differs from the last commit, and by how many lines; 0 for what is no text."""

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
