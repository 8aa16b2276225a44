"""The git repository of a directory for a client: branches, what has changed, patches.

Looking at a repository changes nothing in it, and its own settings run no program and point nowhere else.
`instar.git` switches off hooks, the file system monitor and the like. Here are switched off besides: the content
filters that the repository's settings name, and the folder that its ``core.worktree`` names. Filters of the
person's own settings (``git lfs``) stay. New files are noted in a copy of the repository's index.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.api.project import VcsFileDiff, VcsFileStatus
from instar.git import (
    ChangedFile,
    GitError,
    as_variables,
    branch,
    changed_files,
    common_folder,
    git,
    git_bytes,
    git_folder,
    head_branch,
    split_patches,
)
from instar.git.project import Project
from instar.process import Processes

_OWN: Final = frozenset({"global", "system"})
"""Scopes of git settings that belong to the person."""
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
        """Return the hash of the commit that `name` means; None if there is none."""
        return await self.ask("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")

    async def ask(self, *args: str) -> str | None:
        """Run ``git args`` and return the line that it printed; None if it printed none, also as it failed."""
        printed = await git(self.processes, self.worktree, *args, check=False, env=self.environment)
        return printed.strip() or None


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
    return Repository(processes, worktree, {**environment, **as_variables(settings)})


async def _drivers(processes: Processes, worktree: Path, environment: Mapping[str, str]) -> set[str]:
    """The content filters that the repository's own settings name."""
    args = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    found = await git_bytes(processes, worktree, *args, check=False, env=environment)
    scopes, names = found.split(b"\0")[0:-1:2], found.split(b"\0")[1::2]
    pairs = zip(scopes, names, strict=False)
    keys = [name.decode(errors="surrogateescape") for scope, name in pairs if scope.decode() not in _OWN]
    return {key.removeprefix("filter.").rpartition(".")[0] for key in keys}


_USUAL: Final = ("main", "master")
_ORIGIN: Final = "refs/remotes/origin/"
_LOCAL: Final = "refs/heads/"


async def checked_out(processes: Processes, project: Project) -> str | None:
    """Return the branch of a project's worktree; None where HEAD is detached, or outside a repository."""
    if project.vcs is None:
        return None
    return head_branch(project.worktree) or await branch(processes, project.worktree)


async def default_branch(repository: Repository) -> str | None:
    """Return what ``origin`` calls its default branch, else ``main`` or ``master`` where there is one."""
    refs = await _refs(repository)
    named = refs.get(f"{_ORIGIN}HEAD", "").removeprefix(_ORIGIN)
    return named or next((name for name in _USUAL if f"{_LOCAL}{name}" in refs), None)


async def left_at(repository: Repository, default: str) -> str | None:
    """Return the commit at which HEAD left the default branch; None where they have none in common."""
    tip = await repository.commit(f"{_ORIGIN}{default}") or await repository.commit(f"{_LOCAL}{default}")
    return None if tip is None else await repository.ask("merge-base", tip, "HEAD")


async def start(repository: Repository) -> str | None:
    """Return the commit that new work begins at: the default branch's, else HEAD's; None without commits."""
    default = await default_branch(repository)
    names = ["HEAD"] if default is None else [f"{_LOCAL}{default}", f"{_ORIGIN}{default}", "HEAD"]
    for name in names:
        if (found := await repository.commit(name)) is not None:
            return found
    return None


async def _refs(repository: Repository) -> dict[str, str]:
    """The references for the default branch, each with the reference that it points to."""
    wanted = [f"{_ORIGIN}HEAD", *(f"{_LOCAL}{name}" for name in _USUAL)]
    printed = await repository.run("for-each-ref", "--format=%(refname) %(symref)", *wanted)
    return dict(line.split(" ", 1) for line in printed.decode(errors="replace").splitlines())


LONGEST: Final = 1 << 20
"""Bytes of one file's patch; a longer one is left out, its counts stay."""
LONGEST_ALL: Final = 16 << 20
"""Bytes of all patches of an answer."""
MOST_CONTEXT: Final = 10_000_000
"""Lines around a change: the whole file, for what git is asked."""

# A submodule's own files are never looked at: git would be started there, with that one's settings.
_PLAIN: Final = (
    "diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty",
    "--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--diff-algorithm=myers",
)  # fmt: skip


async def status(repository: Repository, below: Path) -> list[VcsFileStatus]:
    """Return the files at or below a folder that differ from the last commit, in the order of their names."""
    async with _noted(repository, below) as env:
        changed = await _changed(repository, env, await _head(repository), below)
    return [VcsFileStatus(**one.fields()) for one in changed]


async def diff(
    repository: Repository, below: Path, since: str | None = None, context: int | None = None
) -> list[VcsFileDiff]:
    """Return the files at or below a folder that differ from a commit (None: the last one), with their patches."""
    lines = () if context is None else (f"--unified={min(context, MOST_CONTEXT)}",)
    async with _noted(repository, below) as env:
        base = since or await _head(repository)
        changed = await _changed(repository, env, base, below)
        patches = await _patches(repository, env, [*lines, base], below) if changed else b""
    return [
        VcsFileDiff(patch=patch, **one.fields())
        for one, patch in zip(changed, _fitting(patches, changed), strict=True)
    ]


async def raw(repository: Repository, below: Path) -> bytes:
    """Return all that differs from the last commit as one patch for `git apply`, binary files included.

    Raises `GitError` when it is longer than git's output may be.
    """
    async with _noted(repository, below) as env:
        args = ("--binary", "--full-index", await _head(repository))
        return await repository.run(*_PLAIN, "-p", *args, "--", _spec(repository, below), env=env)


async def _head(repository: Repository) -> str:
    """The last commit; before the first commit the empty tree."""
    known = await repository.commit("HEAD")
    if known is not None:
        return known
    return (await repository.run("hash-object", "-t", "tree", "--stdin")).decode().strip()


async def _changed(
    repository: Repository, env: Mapping[str, str], base: str, below: Path
) -> list[ChangedFile]:
    args = (*_PLAIN, "--raw", "--numstat", "-z", base, "--", _spec(repository, below))
    return changed_files((await repository.run(*args, env=env)).split(b"\0")[:-1])


async def _patches(repository: Repository, env: Mapping[str, str], args: Sequence[str], below: Path) -> bytes:
    try:
        return await repository.run(*_PLAIN, "-p", *args, "--", _spec(repository, below), env=env)
    except GitError:  # longer than git's output may be: the counts are there
        return b""


def _fitting(patches: bytes, changed: Sequence[ChangedFile]) -> Iterator[str | None]:
    """Each file's patch, None for one that is too long or where the patches before it were."""
    room = LONGEST_ALL
    for patch in split_patches(patches, changed):
        fits = bool(patch) and len(patch) <= min(LONGEST, room)
        room -= len(patch) if fits else 0
        yield patch.decode(errors="replace") if fits else None


def _spec(repository: Repository, below: Path) -> str:
    return os.path.relpath(below, repository.worktree)


@asynccontextmanager
async def _noted(repository: Repository, below: Path) -> AsyncIterator[Mapping[str, str]]:
    """Yield git's variables for a copy of the index in which untracked files are noted."""
    # Start-up time, here and below: a turn asks for no changes.
    import tempfile

    args = ("ls-files", "--others", "--exclude-standard", "-z", "--", _spec(repository, below))
    # A repository inside this one is listed as a folder: it is another's.
    new = [name for name in (await repository.run(*args)).split(b"\0") if name and not name.endswith(b"/")]
    with tempfile.TemporaryDirectory(prefix="instar-vcs-") as made:
        env = await asyncio.to_thread(_index, repository.worktree, Path(made))
        if new:
            note = ("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
            await repository.run(*note, env=env, stdin=b"\0".join(new))
        yield env


def _index(worktree: Path, made: Path) -> dict[str, str]:
    """Copy the index. What git writes when it notes a file (an empty object) goes beside the copy."""
    import shutil

    folder, common = git_folder(worktree), common_folder(worktree)
    if folder is None or common is None:
        raise GitError(f"{worktree} is no git worktree any more")
    index = made / "index"
    if (folder / "index").is_file():
        shutil.copyfile(folder / "index", index)
    (made / "objects").mkdir()
    objects = str(common / "objects").replace("\\", "\\\\").replace('"', '\\"')
    return {
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(made / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"',
    }


Reason = Literal["non-git", "not-clean"]


class ApplyError(Exception):
    """A patch that was not applied; nothing was changed. `reason` is opencode's word for why."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason: Reason = reason


async def apply(repository: Repository | None, patch: bytes) -> None:
    """Apply a patch to the files of the worktree; git's index stays. Raises `ApplyError`."""
    if repository is None:
        raise ApplyError("Patch can't be applied because the project is not git-based", "non-git")
    await check(repository, patch)
    await _apply(repository, patch)


async def check(repository: Repository, patch: bytes, *, backwards: bool = False) -> None:
    """Raise `ApplyError` when a patch cannot be applied (or taken back) as a whole."""
    await _apply(repository, patch, "--check", *(["--reverse"] if backwards else []))


async def take_back(repository: Repository, patch: bytes) -> None:
    """Revert a patch in the worktree's files. Raises `ApplyError`."""
    await _apply(repository, patch, "--reverse")


async def _apply(repository: Repository, patch: bytes, *more: str) -> None:
    try:
        await repository.run("apply", "--whitespace=nowarn", *more, "-", stdin=patch)
    except GitError as error:
        raise ApplyError(f"Patch can't be applied: {error}", "not-clean") from error
