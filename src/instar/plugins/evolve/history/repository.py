"""Git in a workspace: how it is run, what commits hold, and setting right what a killed git left behind.

Git never looks above the workspace: with its own repository broken, it would find the one around it. Names are names: a
file called ``:(top)x`` or ``*`` is no pattern. A change that must not be cut short goes through `whole`.

`Revisions` reads commits with their trailers, one git process a question. Nothing that the repository configures
(drivers for diffs, filters of text, an order of files) runs or changes what is shown.
"""

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.trailers import Trailers
from instar.plugins.evolve.workspace import FOLDERS

T = TypeVar("T")
U = TypeVar("U")

FAILED: Final = (git.GitError, process.ProcessError)
"""What git's failing raises."""

_MARK: Final = b"INSTAR_RUN="
_PATIENCE: Final = 10.0
_READ: Final = (".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".gitattributes", ".gitignore")
"""Files that git reads before it does anything else."""


class ListedFile(NamedTuple):
    """A file of a commit: its mode as git has it, the id and size (``-`` for a submodule) of its content, its path."""

    mode: int
    blob: str
    size: str
    path: str


class WorkspaceRepository:
    """The repository of the workspace `root`."""

    def __init__(self, processes: process.Processes, root: Path) -> None:
        self._processes = processes
        self._root = root.resolve()

    async def files(
        self, commit: str = "HEAD", paths: Sequence[str] = FOLDERS
    ) -> dict[str, tuple[bytes, int]]:
        """Return the guarded files of a commit with their content and mode, links left out.

        Raises `git.GitError` where there is no such commit or an object cannot be read, and `process.ProcessError`.
        """
        listed = [one for one in await self.listed(commit, paths) if stat.S_ISREG(one.mode)]
        contents = await self.contents(listed)
        return {one.path: (contents[one.blob], one.mode & 0o777) for one in listed}

    async def listed(self, commit: str, paths: Sequence[str] = ()) -> list[ListedFile]:
        """Return the files of a commit below `paths` (none: all), links and submodules too. Raises as `files`."""
        found = []
        for line in (await self.bytes("ls-tree", "-r", "-l", "-z", commit, "--", *paths)).split(b"\0")[:-1]:
            about, _, path = line.partition(b"\t")
            mode, _, blob, size = about.decode().split()
            found.append(ListedFile(int(mode, 8), blob, size, os.fsdecode(path)))
        return found

    async def contents(self, files: Sequence[ListedFile]) -> dict[str, bytes]:
        """Return the contents of files, by their ids. Raises `git.GitError` where one is missing, and as `files`."""
        contents = await self._blobs([one.blob for one in files])
        for one in files:
            if one.blob not in contents:
                raise git.GitError(
                    f"git cannot read {one.path} in {self._root}: its object {one.blob} is missing"
                )
        return contents

    async def blob(self, blob: str) -> bytes | None:
        """Return the content with this id; None where git has none, or fails."""
        try:
            return (await self._blobs([blob])).get(blob)
        except FAILED:
            return None

    async def settle(self, paths: Sequence[str]) -> None:
        """Make the index say of these paths what HEAD says; where git fails, its next commit meets that failure."""
        with contextlib.suppress(*FAILED):
            await self.bytes("reset", "--quiet", "--", *paths)

    async def unlock(self, since: float) -> bool:
        """Remove the locks that a git of ours left when it was killed; False while one is still at work.

        Only locks made after `since` (seconds since 1970), and none while a git of somebody else runs in the workspace:
        they may be its own.
        """
        folder = git.git_folder(self._root)
        if folder is None:
            return True
        deadline = time.monotonic() + _PATIENCE
        while True in (running := git_at_work(self._root)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        locks = [] if running else [*folder.glob("*.lock"), *folder.glob("refs/heads/**/*.lock")]
        for lock in locks:
            with contextlib.suppress(OSError):
                if lock.lstat().st_mtime >= since - 1:
                    lock.unlink()
        return True

    async def _blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of these objects, by their ids; one that is missing is left out."""
        if not names:
            return {}
        asked = "".join(f"{name}\n" for name in dict.fromkeys(names))
        printed = await self.bytes("cat-file", "--batch", stdin=asked.encode())
        found, at = dict[str, bytes](), 0
        while at < len(printed):
            line = printed[at : printed.index(b"\n", at)]
            at += len(line) + 1
            name, kind, *rest = line.decode(errors="replace").split(" ")
            if kind != "blob" or len(rest) != 1:  # "… missing"
                continue
            size = int(rest[0])
            found[name] = printed[at : at + size]
            at += size + 1
        return found

    async def text(self, *args: str, stdin: str = "", **how: Any) -> str:
        """Run git and return what it prints as text; all else as `bytes`."""
        return (await self.bytes(*args, stdin=os.fsencode(stdin), **how)).decode(errors="replace")

    async def bytes(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 20.0,
    ) -> bytes:
        """Run git in the workspace's own repository. Raises `git.GitError` and `process.ProcessError`."""
        for name in _READ:
            path = self._root / name
            if path.exists() and not path.is_file():
                # Git would wait for a pipe until its time is over.
                raise git.GitError(f"{path} is no file, so git cannot be asked: delete it")
        given = {
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CEILING_DIRECTORIES": str(self._root.parent),
            **(env or {}),
        }
        return await git.git_bytes(
            self._processes, self._root, *args, env=given, stdin=stdin, check=check, timeout=timeout
        )


def git_at_work(root: Path) -> list[bool]:
    """Return for each git process at work in `root` whether an instar started it. Only Linux can be asked."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_bytes() == b"git\n" and (folder / "cwd").readlink().is_relative_to(
                root
            ):
                found.append(_MARK in (folder / "environ").read_bytes())
        except OSError:
            continue  # ended, or another person's
    return found


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Carry work to its end, also when whoever waits for it is cancelled: half of it must not be left."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to be told
        raise


async def both(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """Do two things at the same time; where one fails, raise that once both have ended."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    if isinstance(first, BaseException):
        raise first
    if isinstance(second, BaseException):
        raise second
    return first, second


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

    async def blobs(self, paths: Sequence[str] = FOLDERS) -> dict[str, dict[str, str]]:
        """Return the contents that each commit from HEAD back gave to what it changed below `paths`.

        By the commit's id and the path; git's id of the content, "" where the commit removed the file.
        """
        if await self._is_empty():
            return {}
        raw = ("log", "-z", "--raw", "--no-abbrev", "--format=%H", *_SHOWN, "HEAD", "--", *paths)
        fields = [field.removeprefix("\n") for field in (await self._git(*raw)).split("\0")]
        found: dict[str, dict[str, str]] = {}
        at, here = 0, dict[str, str]()
        while at < len(fields):
            if fields[at].startswith(":"):
                new, kind = fields[at].split(" ")[3:5]
                here[fields[at + 1]] = "" if kind == "D" else new
                at += 1
            elif fields[at]:
                here = found.setdefault(fields[at], {})
            at += 1
        return found

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

    def guarded(self, revision: Revision) -> list[str]:
        """Return the guarded files that a commit changed. Raises `NoSuchChange` for one that changed none."""
        paths = [path for path in revision.files if path.partition("/")[0] in FOLDERS and "/" in path]
        if not paths:
            raise NoSuchChange(f"{revision.short} changed none of {', '.join(FOLDERS)}: nothing to take back")
        return paths

    async def before(self, revision: Revision) -> dict[str, tuple[bytes, int] | None]:
        """Return the guarded files of a commit as its parent has them: content and mode, None where it has none.

        Raises `NoSuchChange` for a commit without a parent, and as `guarded`.
        """
        paths = self.guarded(revision)
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

    async def between(self, old: str, new: str, paths: Sequence[str] = ()) -> str:
        """Return what differs from one commit (an id) to another below `paths` (none: anywhere), as `diff` does."""
        return await self._git(
            *("-c", f"core.bigFileThreshold={_UNSHOWN}"),
            *("diff", "--no-color", *_SHOWN[:3], old, new, "--", *paths),
        )

    async def uncommitted(self) -> list[str]:
        """Return the files that git knows and that differ from HEAD."""
        printed = await self._git("diff", "--name-only", "-z", *_SHOWN[:3], "HEAD", "--")
        return [name for name in printed.split("\0") if name]

    async def blame(self, file: str, line: int | None = None) -> str:
        """Return what ``git blame --porcelain`` says of a line (from 1), or of all, of a file as it stands now."""
        one = () if line is None else ("-L", f"{line},{line}")
        return await self._git(
            *("-c", "blame.ignoreRevsFile="),
            *("blame", "--porcelain", "--no-textconv", *one, "--", file),
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
