"""A repository as git may look at it here: its own settings run no program, and point nowhere else.

`instar.git` switches off hooks, the file system monitor and the like. A look at changed files would run besides the
content filters that the repository's settings name, and read the folder that its ``core.worktree`` names. Filters of
the person's own settings (``git lfs``) stay.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.git import git, git_bytes
from instar.process import Processes
from instar.project import Project

_OWN: Final = frozenset({"global", "system"})
"""Scopes of settings that are the person's."""
_LARGE: Final = "16m"
"""A file of this size or more is compared as if it were no text: git reads others whole into memory."""


class Repository(msgspec.Struct, frozen=True):
    """A worktree that git commands run in; `environment` holds what makes that safe."""

    processes: Processes
    worktree: Path
    environment: Mapping[str, str]

    async def run(self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
        """Run ``git args`` in the worktree's folder and return its output. Raises as `git_bytes`."""
        return await git_bytes(
            self.processes, self.worktree, *args, env={**self.environment, **(env or {})}, stdin=stdin
        )

    async def commit(self, name: str) -> str | None:
        """Return the hash of the commit that `name` means; None where there is no such."""
        args = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
        found = await git(self.processes, self.worktree, *args, check=False, env=self.environment)
        return found.strip() or None


async def repository(processes: Processes, project: Project) -> Repository | None:
    """Return the repository of a project; None where it has none. Raises `GitError` and `ProcessError`."""
    if project.vcs is None:
        return None
    worktree = project.worktree
    environment = {"GIT_WORK_TREE": str(worktree), "GIT_LITERAL_PATHSPECS": "1"}
    settings = {"core.bigFileThreshold": _LARGE}
    for driver in await _drivers(processes, worktree, environment):
        settings |= {f"filter.{driver}.{key}": "" for key in ("clean", "smudge", "process")}
        settings[f"filter.{driver}.required"] = "false"
    return Repository(processes, worktree, {**environment, **_given(settings)})


async def _drivers(processes: Processes, worktree: Path, environment: Mapping[str, str]) -> set[str]:
    """The filters that others than the person name."""
    args = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    found = await git_bytes(processes, worktree, *args, check=False, env=environment)
    scopes, names = found.split(b"\0")[0:-1:2], found.split(b"\0")[1::2]
    pairs = zip(scopes, names, strict=False)
    keys = [name.decode(errors="surrogateescape") for scope, name in pairs if scope.decode() not in _OWN]
    return {key.removeprefix("filter.").rpartition(".")[0] for key in keys}


def _given(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as variables: a name on the command line would end at its first equals sign."""
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return given
