"""The git program, run so that a repository cannot make it run anything else; snapshots of files; which project it is.

May import `wire`, `message` and `process`. Begin with `program.py`; `snapshot.py` keeps the files of each step.
"""

from instar.git.program import (
    IDENTITY,
    SETTINGS,
    GitError,
    branch,
    clean_environment,
    common_folder,
    find_worktree,
    git,
    git_bytes,
    git_folder,
    head_branch,
    root_commit,
    toplevel,
)

__all__ = [
    "IDENTITY",
    "SETTINGS",
    "GitError",
    "branch",
    "clean_environment",
    "common_folder",
    "find_worktree",
    "git",
    "git_bytes",
    "git_folder",
    "head_branch",
    "root_commit",
    "toplevel",
]
