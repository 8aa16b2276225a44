"""Revisions: the commits of a workspace's repository, read with their trailers, and what names one of them.

One git process a question, whatever the number of commits. Nothing that the repository configures (drivers for diffs,
filters of text, an order of files) runs or changes what is shown.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import process
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.history.trailers import Trailers
from instar.plugins.evolve.workspace import FOLDERS

INITIAL: Final = "initial"

_FIELDS: Final = "%x00%H%x00%h%x00%T%x00%ct%x00%an%x00%B"
_SHOWN: Final = ("--no-renames", "--no-ext-diff", "--no-textconv", "--diff-merges=first-parent")
_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")
_BACK: Final = re.compile(r"HEAD(?:~[0-9]{0,6}|\^){0,8}")
_EPOCH: Final = re.compile(r"@([0-9]{1,15})")
_DEEPEST: Final = 200
"""Commits that are looked through for the newest change."""
_UNSHOWN: Final = "1m"
"""From this size on a file is shown as binary, so that a diff stays in bounds."""


class NoSuchChange(Exception):
    """A reference that names no commit, or more than one; the text says what may be named."""


class Revision(msgspec.Struct, frozen=True):
    """A commit: full and short id, its tree, when (ms since 1970, whole seconds), who by git, and its message."""

    id: str
    short: str
    tree: str
    time: int
    author: str
    subject: str
    trailers: Trailers
    files: list[str]


class Revisions:
    """The commits of the repository at `root`. Its methods raise `git.GitError` and `process.ProcessError`."""

    def __init__(self, processes: process.Processes, root: Path) -> None:
        self._root = root
        self._repository = WorkspaceRepository(processes, root)

    async def newest(self, limit: int, ref: str = "HEAD") -> list[Revision]:
        """Return up to `limit` commits from `ref` (an id) back, newest first; none without commits."""
        if await self._is_empty():
            return []
        return await self._log(f"--max-count={limit}", ref)

    async def touching(self, paths: Sequence[str] = FOLDERS) -> list[Revision]:
        """Return the commits from HEAD back that changed what is below `paths`, newest first; none without commits."""
        return [] if await self._is_empty() else await self._log("HEAD", paths=paths)

    async def line(self, last: str) -> list[Revision]:
        """Return the commits from the first one to `last` (an id), oldest first, without those of merged branches."""
        return (await self._log("--first-parent", last))[::-1]

    async def find(self, ref: str) -> Revision:
        """Return the commit that `ref` names: the start of an id, ``HEAD``, ``HEAD~2``, ``@12`` or ``initial``.

        ``@12`` is the newest commit whose trailers name epoch 12. Raises `NoSuchChange`.
        """
        named = [] if await self._is_empty() else await self._named(ref)
        if not named:
            raise NoSuchChange(
                f"{trailers.one_line(ref, 100)!r} names no change of {self._root}: name the start of a commit's id, "
                "HEAD, HEAD~2, an epoch such as @12, or initial"
            )
        return named[0]

    async def last(self, ref: str = "") -> Revision:
        """Return the commit that `ref` names, as `find` does; without one the newest change that went through the gate.

        A change that was taken back already, and what took it back, are passed over. Raises `NoSuchChange`.
        """
        if ref:
            return await self.find(ref)
        gone: list[str] = []
        for one in await self.newest(_DEEPEST):
            if one.trailers.rolls_back:
                gone.append(one.trailers.rolls_back)
            elif one.trailers.epoch is not None and not any(is_start(named, one.id) for named in gone):
                return one
        raise NoSuchChange("there is no change of the agent's to take back")

    async def before(self, revision: Revision) -> dict[str, tuple[bytes, int] | None]:
        """Return the guarded files of a commit as its parent has them: content and mode, None where it has none.

        Raises `NoSuchChange` for a commit without a parent, and for one that changed no guarded file.
        """
        paths = [path for path in revision.files if path.partition("/")[0] in FOLDERS and "/" in path]
        if not paths:
            raise NoSuchChange(f"{revision.short} changed none of {', '.join(FOLDERS)}: nothing to take back")
        parent = f"{revision.id}^"
        if not await self._git("rev-parse", "--verify", "--quiet", parent, check=False):
            raise NoSuchChange(f"{revision.short} is the first commit: there is nothing before it")
        return dict.fromkeys(paths) | await self._repository.files(parent, paths)

    async def diff(self, commit: str) -> str:
        """Return what a commit (an id) changed, as a unified diff; undecodable bytes are replaced."""
        return await self._git(
            *("-c", f"core.bigFileThreshold={_UNSHOWN}"),
            *("show", "--format=", "--patch", "--no-color", *_SHOWN, commit, "--"),
        )

    async def uncommitted(self) -> list[str]:
        """Return the files that git knows and that differ from HEAD."""
        printed = await self._git("diff", "--name-only", "-z", *_SHOWN[:3], "HEAD", "--")
        return [name for name in printed.split("\0") if name]

    async def blame(self, file: str, line: int) -> str:
        """Return what ``git blame --porcelain`` says of a line (from 1) of a file as it stands now."""
        return await self._git(
            *("-c", "blame.ignoreRevsFile="),
            *("blame", "--porcelain", "--no-textconv", "-L", f"{line},{line}", "--", file),
        )

    async def taking_back(self, commit: str) -> list[Revision]:
        """Return the commits whose trailers say that they roll `commit` (an id) back, newest first."""
        found = await self._log(f"--grep=^Rolls-back: {commit[:7]}", "HEAD")
        return [one for one in found if is_start(one.trailers.rolls_back, commit)]

    async def _named(self, ref: str) -> list[Revision]:
        epoch = _EPOCH.fullmatch(ref)
        if epoch is not None:
            found = await self._log(f"--grep=^Epoch: {int(epoch[1])}$", "HEAD")
            # The text may stand anywhere in a message; only a trailer counts.
            return [one for one in found if one.trailers.epoch == int(epoch[1])]
        if ref == INITIAL:
            return (await self._log("--max-parents=0", "--first-parent", "HEAD"))[-1:]
        if not _COMMIT.fullmatch(ref) and not _BACK.fullmatch(ref):
            return []
        commit = await self._git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False)
        return await self._log("--max-count=1", commit.strip()) if commit.strip() else []

    async def _is_empty(self) -> bool:
        """Whether there is no commit yet. What is no repository raises."""
        await self._git("rev-parse", "--git-dir")
        return not await self._git("rev-parse", "--verify", "--quiet", "HEAD", check=False)

    async def _log(self, *which: str, paths: Sequence[str] = ()) -> list[Revision]:
        args = ("log", "-z", "--name-only", f"--format={_FIELDS}", "--encoding=UTF-8", *_SHOWN, *which, "--")
        return _parse(await self._git(*args, *paths))

    async def _git(self, *args: str, check: bool = True) -> str:
        return await self._repository.text(*args, check=check, timeout=60.0)


def is_start(named: str, commit: str) -> bool:
    """Whether `named`, a commit's id or the first seven characters of it and more, names `commit`."""
    return len(named) >= 7 and commit.startswith(named)


def _parse(printed: str) -> list[Revision]:
    """Read ``git log -z --name-only`` in our format.

    A commit is an empty field, six fields and, with a newline before the first, the names of its files.
    """
    found = []
    fields = printed.split("\0")
    at = 1
    while at + 6 <= len(fields):
        (commit, short, tree, seconds, author, message), at = fields[at : at + 6], at + 6
        start = at
        while at < len(fields) and fields[at]:
            at += 1
        files = fields[start:at]
        at += 1
        # What ends a commit without files, and what begins the next one.
        if not files and at < len(fields) and not fields[at]:
            at += 1
        subject, told = trailers.read(message)
        author, time = trailers.one_line(author, 100), int(seconds or 0) * 1000
        files = [name.removeprefix("\n") if number == 0 else name for number, name in enumerate(files)]
        found.append(Revision(commit, short, tree, time, author, subject, told, files))
    return found
