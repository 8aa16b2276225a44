"""Making one commit of some files of a workspace, by git's plumbing, beside whatever the person does with git.

The commit is put together in an index of its own on top of HEAD, with the person's index held. That takes the same
entries, and the branch moves, both or neither.
"""

import asyncio
import contextlib
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve.history.repository import WorkspaceRepository, both, git_at_work
from instar.plugins.evolve.workspace import GUARDED

ABANDONED: Final = 30.0
"""Seconds after which a lock may be one that a dead git left; git itself holds locks for moments."""

_POLL: Final = 0.02
_PROCESSES: Final = Path("/proc/self")
"""Only here can be asked which git is at work."""
_LOCK: Final = re.compile(r"Unable to create '(.+\.lock)': File exists")
_UNDER_WAY: Final = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
    "BISECT_LOG": "bisect",
}


class Locked(git.GitError):
    """Another git holds a lock, or a dead one left it."""


class GitFolder:
    """The git folder of the workspace `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def _folder(self) -> Path:
        found = git.git_folder(self._root)
        if found is None:
            raise git.GitError(f"{self._root} is no git repository that can be read: see {self._root}/.git")
        return found

    def under_way(self) -> str:
        """Return what a person has begun with git and not ended (``rebase``); "" for nothing.

        What were committed meanwhile would become part of it, or be lost with its end.
        """
        folder = git.git_folder(self._root)
        return next((what for name, what in _UNDER_WAY.items() if folder and (folder / name).exists()), "")

    @contextlib.asynccontextmanager
    async def index(self, beside: Path, patience: float) -> AsyncIterator[None]:
        """Hold the index's lock, with a copy of the index at `beside`; at the end the copy becomes the index.

        If the body fails the index stays. Waits up to `patience` seconds for another git. Raises `Locked`, `OSError`.
        """
        index = self._folder / "index"
        lock = index.with_name("index.lock")
        handle = await self._lock(lock, patience)
        try:
            with contextlib.suppress(FileNotFoundError):
                # With its time, by which git knows which entries it cannot trust.
                shutil.copy2(index, beside)
            before = _version(beside)
            yield
            if _version(beside) == before:
                lock.unlink()
            else:
                _put(beside, handle, lock, index)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)

    async def _lock(self, lock: Path, patience: float) -> int:
        deadline = time.monotonic() + patience
        while True:
            try:
                return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                if not self._free(lock) and time.monotonic() >= deadline:
                    raise Locked(
                        f"{lock} is held: another git is at work, or a dead one left it "
                        f"(then it is removed after {ABANDONED:g} s)"
                    ) from None
            await asyncio.sleep(_POLL)

    def freed(self, error: git.GitError) -> bool:
        """Whether git failed only because of a lock that a dead git had left, which is removed now."""
        named = _LOCK.search(str(error))
        return named is not None and self._free(Path(named[1]))

    def _free(self, lock: Path) -> bool:
        """Remove a lock that a dead git left; whether there is none any more."""
        if not _PROCESSES.exists():
            return False
        try:
            status = lock.lstat()
            if time.time() - status.st_mtime < ABANDONED or git_at_work(self._root):
                return False
            lock.unlink()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _put(beside: Path, handle: int, lock: Path, index: Path) -> None:
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(beside.read_bytes())
    with contextlib.suppress(FileNotFoundError):
        lock.chmod(index.stat().st_mode & 0o777)
    lock.replace(index)


def _version(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


log = logging.getLogger("instar.evolve")

_NONE: Final = "0" * 40
_SETTINGS: Final = {
    "core.safecrlf": "false",
    "core.splitIndex": "false",
    "i18n.commitEncoding": "utf-8",
}
"""Settings of a person's that would refuse a file, litter the git folder or garble a message."""
_ASIDE: Final = {"core.sparseCheckout": "false", "index.sparse": "false"}
"""Those of an index of ours: what a person's checkout leaves out is part of a commit all the same."""

LARGEST: Final = 100 << 20
"""Bytes of a file that is committed: each tool run waits for git, and common hosts refuse a larger one."""
_STAGED: Final = ("diff-index", "--cached", "-z", "--no-renames", "--raw")
"""Asks what an index has otherwise than a tree."""
_MANY: Final = 500
"""Paths that are too many for arguments."""


class GitEntry(NamedTuple):
    """A file in git: its mode (0: no file), the id of its content, and whether HEAD has nothing at its path."""

    mode: int
    blob: str
    is_new: bool = False


class WorkspaceCommit(msgspec.Struct, frozen=True):
    """A commit that was made: its short id and the files in it, relative to the workspace."""

    id: str
    files: list[str]


class CommitResult(msgspec.Struct, frozen=True):
    """A commit (None where nothing differs), its whole id, and why files are not in it: path to reason."""

    commit: WorkspaceCommit | None
    head: str
    waiting: dict[str, str]


class Plumbing(WorkspaceRepository):
    """The repository of the workspace `root`, with the settings that a commit needs."""

    def __init__(self, processes: process.Processes, root: Path) -> None:
        super().__init__(processes, root)
        self.folder = GitFolder(root)

    async def commit(self, wanted: Sequence[str], message: str, aside: Path, patience: float) -> CommitResult:
        """Commit these paths as they stand, with the person's index held; `aside` is a folder to work in.

        Raises `git.GitError` (`Locked`), `process.ProcessError` and `OSError`; then nothing has changed.
        """
        async with self.folder.index(aside / "theirs", patience):
            self._refuse_under_way()
            head = self.text("rev-parse", "--verify", "--quiet", "HEAD", check=False)
            named, alone = await both(head, self._left_alone(wanted))
            parent = named.strip()
            against = f"{parent}^{{tree}}" if parent else await self._empty_tree()
            wanted = [path for path in wanted if path not in alone]
            staged, (tree, changed, waiting) = await both(
                self._staged(against, wanted), self._tree(wanted, parent, against, aside / "one")
            )
            other = {path for path in changed if staged.get(path, changed[path]) != changed[path]}
            staging = [path for path in other if not is_guarded(path)]
            if staging:
                waiting = dict.fromkeys(
                    staging, "you have staged another version of it: commit or unstage that"
                )
                rest = [path for path in wanted if path not in staging]
                tree, changed, more = await self._tree(rest, parent, against, aside / "two")
                waiting |= more
            if not changed:
                return CommitResult(None, parent, waiting)
            parents = ["-p", parent] if parent else []
            commit = (await self.text("commit-tree", tree, *parents, "-F", "-", stdin=message)).strip()
            # A guarded file that the person has staged otherwise stays staged so: HEAD has what went live.
            follow = {path: one for path, one in changed.items() if path not in other or one.is_new}
            lines = [_line(path, one) for path, one in follow.items()]
            short, _ = await both(
                self.text("rev-parse", "--short", commit),
                self._stage(lines, {"GIT_INDEX_FILE": str(aside / "theirs")}),
            )
            self._refuse_under_way()
            subject = message.partition("\n")[0]
            await self.text("update-ref", "-m", f"commit: {subject}", "HEAD", commit, parent or _NONE)
        log.info("git=committed id=%s files=%s", short.strip(), ",".join(changed))
        return CommitResult(WorkspaceCommit(short.strip(), list(changed)), commit, waiting)

    def _refuse_under_way(self) -> None:
        begun = self.folder.under_way()
        if begun:
            raise git.GitError(f"a {begun} of yours is not finished: it waits until that has ended")

    async def _tree(
        self, wanted: Sequence[str], parent: str, against: str, index: Path
    ) -> tuple[str, dict[str, GitEntry], dict[str, str]]:
        """Return the tree of HEAD with these paths as they stand, what it changes, and what could not be taken.

        Guarded files are taken byte for byte, whatever ignore files and attributes say: who writes in the workspace
        must not decide what its history holds of them.
        """
        aside = {"GIT_INDEX_FILE": str(index)}
        guarded = [path for path in wanted if is_guarded(path)]
        lines, _ = await both(
            self._entries_of(guarded), self.text("read-tree", parent or "--empty", env=aside)
        )
        await self._stage(lines, aside)
        waiting = await self._take([path for path in wanted if not is_guarded(path)], aside)
        tree, told = await both(self.text("write-tree", env=aside), self.bytes(*_STAGED, against, env=aside))
        return tree.strip(), _changes(told), waiting

    async def _staged(self, against: str, wanted: Collection[str]) -> dict[str, GitEntry]:
        """The entries of these paths in the person's index that are not as HEAD has them."""
        told = await self.bytes(*_STAGED, against, "--", *_few(wanted))
        return {path: entry for path, entry in _changes(told).items() if path in wanted}

    async def _left_alone(self, wanted: Collection[str]) -> set[str]:
        """The files whose changes the person told git not to see: marked so, and not by a sparse checkout."""
        told = os.fsdecode(await self.bytes("ls-files", "-v", "-z", "--", *_few(wanted)))
        marks = {entry[2:]: entry[0] for entry in told.split("\0") if entry}
        marked = {path for path in wanted if not is_guarded(path) and _is_marked(marks.get(path, "H"))}
        if "S" not in (marks[path] for path in marked):
            return marked
        sparse = await self.text("config", "--bool", "core.sparseCheckout", check=False)
        return {path for path in marked if marks[path] != "S" or sparse.strip() != "true"}

    async def _entries_of(self, paths: Sequence[str]) -> list[bytes]:
        """The lines of an index for these paths as they stand, their contents stored as they are."""
        found = dict[str, GitEntry]()
        plain = dict[str, int]()
        for path in paths:
            place = self._root / path
            try:
                status = place.lstat()
            except (FileNotFoundError, NotADirectoryError):
                found[path] = GitEntry(0, _NONE)
                continue
            mode = 0o100755 if status.st_mode & stat.S_IXUSR else 0o100644
            if stat.S_ISLNK(status.st_mode):
                text = os.fsencode(place.readlink())
                blob = await self.bytes("hash-object", "-w", "--no-filters", "--stdin", stdin=text)
                found[path] = GitEntry(0o120000, blob.decode().strip())
            else:
                plain[path] = mode
        if plain:
            names = b"".join(b'"%s"\n' % _quoted(path) for path in plain)
            told = await self.bytes("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names)
            blobs = told.decode().split()
            found |= {
                path: GitEntry(mode, blob) for (path, mode), blob in zip(plain.items(), blobs, strict=True)
            }
        return [_line(path, entry) for path, entry in found.items()]

    async def _take(self, paths: Sequence[str], aside: Mapping[str, str]) -> dict[str, str]:
        """Take other files into the index `aside` as git does, ignored ones left out; return what it cannot take."""
        if not paths:
            return {}
        asked = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_few(paths))
        try:
            told = os.fsdecode(await self.bytes(*asked, env=aside)).split("\0")
            states = [path for path in (field[3:] for field in told) if path in set(paths)]
        except git.GitError:
            # It cannot read one of them: which one is found below.
            states = list(paths)
        large = {path for path in states if self._size(path) > LARGEST}
        waiting = dict.fromkeys(large, f"it is larger than {LARGEST >> 20} MiB: list it in .gitignore")
        states = [path for path in states if path not in large]
        if not states or await self._taken(states, aside):
            return waiting
        # One by one: what a tool left lying about must not keep the rest from its commit.
        left = [path for path in states if not await self._taken([path], aside)]
        return waiting | dict.fromkeys(left, "it cannot be stored as it stands")

    def _size(self, path: str) -> int:
        """Bytes of what stands there; 0 where that cannot be told."""
        try:
            return (self._root / path).lstat().st_size
        except OSError:
            return 0

    async def _taken(self, paths: Sequence[str], aside: Mapping[str, str]) -> bool:
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        take = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        try:
            await self.bytes(*take, stdin=names, env={**aside, **git.as_variables(_SETTINGS | _ASIDE)})
        except git.GitError:
            return False
        return True

    async def _stage(self, lines: Sequence[bytes], env: Mapping[str, str]) -> None:
        if lines:
            await self.bytes("update-index", "-z", "--index-info", stdin=b"".join(lines), env=env)

    async def _empty_tree(self) -> str:
        return (await self.text("hash-object", "-t", "tree", "--stdin")).strip()

    async def bytes(self, *args: str, env: Mapping[str, str] | None = None, **how: Any) -> bytes:
        """Run git as `WorkspaceRepository.bytes`, with the settings that a commit needs."""
        # Where a person's settings say that it has no files, or has them elsewhere.
        tree = {} if args[0] == "init" else {"GIT_WORK_TREE": str(self._root)}
        return await super().bytes(*args, env=git.as_variables(_SETTINGS) | tree | dict(env or {}), **how)


def is_guarded(path: str) -> bool:
    """Whether a path lies in a guarded folder of the workspace. Python's caches are nobody's work."""
    folder, *rest = path.split("/")
    return bool(rest) and folder in GUARDED and "__pycache__" not in rest


def _is_marked(tag: str) -> bool:
    """Whether a tag of ``git ls-files -v`` says skip-worktree (S) or assume-unchanged (a small letter)."""
    return tag == "S" or tag.islower()


def _few(paths: Collection[str]) -> Collection[str]:
    """Paths as arguments; none, which means all, where they are too many."""
    return paths if len(paths) <= _MANY else ()


def _quoted(path: str) -> bytes:
    """A path as git reads it between quotes: a name may hold anything."""
    return b"".join(b"\\%03o" % byte for byte in os.fsencode(path))


def _line(path: str, entry: GitEntry) -> bytes:
    """A line of ``git update-index --index-info``; the mode 0 takes the path out."""
    return b"%o %s\t%s\0" % (entry.mode, entry.blob.encode(), os.fsencode(path))


def _changes(raw: bytes) -> dict[str, GitEntry]:
    """Read ``git diff-index --raw -z``: what stands at each path afterwards."""
    fields = iter(raw.split(b"\0"))
    found = {}
    for about in fields:
        if about.startswith(b":"):
            before, mode, _, blob, _ = about.decode().split(" ")
            found[os.fsdecode(next(fields))] = GitEntry(int(mode, 8), blob, before == ":000000")
    return found
