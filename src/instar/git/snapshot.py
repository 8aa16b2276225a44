"""Snapshots: the state of a project's files as the name of a git tree in a shadow repository.

Git compares each file's size and times with what its index remembers. Where these are what they were when it was
asked last (`footprint.py`), the tree is the same one and no git is started. Callers that ask at the same moment share
one answer.

Files are put back only where the newest snapshot holds what is overwritten or deleted. Their names come from stored
parts, which an imported session may have brought: nothing outside the worktree, behind a symbolic link or in a
``.git`` folder is touched.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeVar

import msgspec

from instar.git import GitError
from instar.git.footprint import MOST as MOST_LOOKED_AT
from instar.git.footprint import Footprint, TooMany, footprint
from instar.git.project import Project
from instar.git.shadow import Shadow, ShadowBusy, changed_names, file_diffs, unified_diff
from instar.message import FileDiff
from instar.process import ProcessError, Processes
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.snapshot")

LARGEST: Final = 2 << 20
"""Bytes of a file that is taken in; a larger one is left alone, unless it was small when first seen."""
GROWN: Final = 16 * LARGEST
"""Bytes up to which a file that was small goes on being taken in: each snapshot keeps a copy."""
MOST: Final = 100_000
"""Files that are taken in at once; a project with more has no snapshots."""
KEPT_DAYS: Final = 30
"""Days for which a snapshot can be gone back to."""

_HASH: Final = late_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DAY: Final = 24 * 60 * 60
_FAULTS: Final = (GitError, ProcessError, OSError)
_Answer = TypeVar("_Answer")
_Entries = Mapping[str, str]
"""File names with their mode and object: ``100644 <hash>``."""


class Restored(msgspec.Struct):
    """What was done: the trees `before` and `after`, and names relative to the worktree.

    `files` are as they were then; `kept` were left alone, since no snapshot holds what they would have lost,
    or since the system refused; `gone` names snapshots that exist no more.
    """

    before: str
    after: str
    files: list[str] = msgspec.field(default_factory=list)
    kept: list[str] = msgspec.field(default_factory=list)
    gone: list[str] = msgspec.field(default_factory=list)


class Patch(msgspec.Struct, frozen=True):
    """The files (absolute paths) that differ between a snapshot and a later one; `hash` is the earlier."""

    hash: str
    files: Sequence[str]


class _Known(NamedTuple):
    """A tree that was written: of which state of the index, and of which files, None where they cannot be looked at."""

    stamp: tuple[int, int, int] | None
    tree: str
    files: Footprint | None


class Snapshot:
    """The snapshots of one worktree.

    `off` says why none are taken, None while they are. A failure switches them off for this runtime, with one
    warning: work goes on without them.
    """

    def __init__(self, shadow: Shadow | None, off: str | None = None) -> None:
        self._shadow = shadow
        self._known: _Known | None = None
        self._looks = True
        self._last: tuple[str, str, list[str]] | None = None
        self._next: asyncio.Task[str | None] | None = None
        self.off = off

    @classmethod
    def of(
        cls, processes: Processes, project: Project, data: Path, home: Path, wanted: bool | None
    ) -> "Snapshot":
        """Return the snapshots of a project, kept under `data`; `wanted` is the setting ``snapshot``."""
        off = None
        if wanted is False:
            off = "the setting snapshot is false"
        elif project.vcs != "git" or project.worktree == project.worktree.parent:
            off = f"{project.directory} is in no git repository"
        elif project.worktree == home.resolve():
            off = f"{project.worktree} is your home folder: its files are not copied"
        if off is not None:
            return cls(None, off)
        return cls(Shadow(processes, project.worktree, data.resolve()))

    async def track(self) -> str | None:
        """Take a snapshot and return its name; None while they are off. Cancelling it harms nothing."""
        if self._shadow is None or self.off is not None:
            return None
        files, known = self._seen(self._shadow), self._known
        if files and files.settled and known and files == known.files and known.stamp == self._shadow.stamp():
            return known.tree
        if self._next is None:
            self._next = asyncio.create_task(self._track(self._shadow, files), name="snapshot")
        return await asyncio.shield(self._next)

    async def patch(self, tree: str) -> Patch:
        """Return the files that differ between a snapshot and now; none while snapshots are off."""
        now = await self.track()
        return Patch(tree, await self.changed(tree, now) if now is not None else [])

    async def changed(self, before: str, after: str) -> list[str]:
        """Return the absolute paths of the files that differ; none where a snapshot is gone."""
        if before == after:
            return []
        found: Iterable[str] | None
        if self._last is not None and self._last[:2] == (before, after):
            found = self._last[2]
        else:
            found = await self._asked(before, after, lambda shadow: changed_names(shadow, before, after))
        return [str(self._worktree / name) for name in found or []]

    async def diff(self, before: str, after: str) -> str:
        """Return the difference as a unified diff, "" where a snapshot is gone."""
        return await self._asked(before, after, lambda shadow: unified_diff(shadow, before, after)) or ""

    async def diff_full(
        self, before: str, after: str, only: Collection[str] | None = None
    ) -> list[FileDiff] | None:
        """Return each changed file with its patch and counts; None where a snapshot is gone.

        `only` are absolute paths: other files are left out.
        """
        wanted = None if only is None else {_inside(self._worktree, name) or "" for name in only}
        return await self._asked(before, after, lambda shadow: file_diffs(shadow, before, after, wanted))

    async def restore(self, tree: str) -> Restored | None:
        """Restore every file from a snapshot; otherwise like `revert`."""
        now = await self.track()
        changed = await self.changed(now, tree) if now is not None else []
        return await self.revert([Patch(tree, changed)])

    async def revert(self, patches: Sequence[Patch]) -> Restored | None:
        """Restore each file from the first patch that names it; None while snapshots are off.

        A file that did not exist then is deleted. What stands there now is in the snapshot `Restored.before`;
        a file that this one does not hold (ignored, too large) is left alone and named in `Restored.kept`.
        """
        if self.off is not None:
            return None
        return await self._held("files not put back", lambda shadow: self._revert(shadow, patches))

    async def cleanup(self) -> None:
        """Drop what is older than `KEPT_DAYS`, at most once a day. What fails is tried again a day later."""
        shadow = self._shadow
        if shadow is None or self.off is not None or not self.is_due():
            return
        try:
            async with shadow.held():
                # Marked first: a process that is ended meanwhile must not begin anew at each start.
                (shadow.folder / "cleaned").touch()
                self._last = None
                await shadow.run("prune", f"--expire={KEPT_DAYS}.days.ago")
        except (ShadowBusy, *_FAULTS) as error:
            log.info("old snapshots not dropped worktree=%s: %s", shadow.worktree, error)

    def is_due(self) -> bool:
        """Whether `cleanup` has something to do: a day has passed since it, or since the first snapshot."""
        if self._shadow is None:
            return False
        marks = (os.path.join(self._shadow.folder, name) for name in ("cleaned", "HEAD"))  # noqa: PTH118 - asked each turn
        newest = max(filter(None, map(_changed, marks)), default=None)
        return newest is not None and time.time() - newest > _DAY

    @property
    def _worktree(self) -> Path:
        return self._shadow.worktree if self._shadow is not None else Path("/")

    async def _track(self, shadow: Shadow, files: Footprint | None) -> str | None:
        task = asyncio.current_task()
        try:
            async with shadow.held():
                # From here on files are read: who asks now may have written since.
                self._next = None
                return await self._tree(shadow, files)
        except ShadowBusy as error:
            log.warning("no snapshot worktree=%s: %s", shadow.worktree, error)
        except _FAULTS as error:
            self.off = f"a snapshot failed: {error}"
            log.warning("snapshots are off worktree=%s folder=%s: %s", shadow.worktree, shadow.folder, error)
        finally:
            if self._next is task:
                self._next = None
        return None

    async def _tree(self, shadow: Shadow, files: Footprint | None = None) -> str:
        try:
            return await self._taken(shadow, files)
        except GitError as error:
            if error.code is None:  # it took too long, or was ended
                raise
            # A file system that lost power leaves an index that git cannot read: it can be made anew.
            return await self._anew(shadow, str(error))

    async def _anew(self, shadow: Shadow, why: str) -> str:
        log.warning("the index is made anew worktree=%s: %s", shadow.worktree, why)
        shadow.index.unlink(missing_ok=True)
        self._known = None
        return await self._taken(shadow)

    async def _taken(self, shadow: Shadow, files: Footprint | None = None) -> str:
        """Write the tree; `files` were seen before, so that what changed since makes another footprint."""
        files = await self._ruled_footprint(shadow, files or self._seen(shadow))
        known = self._known if self._known and self._known.stamp == shadow.stamp() else None
        changed = await self._take_in(shadow)
        tree = await self._write_tree(shadow)
        # Nothing but these can differ from the tree that the index stood for.
        self._last = (known.tree, tree, sorted(set(changed), key=str.encode)) if known else None
        self._known = _Known(shadow.stamp(), tree, files)
        return tree

    def _seen(self, shadow: Shadow) -> Footprint | None:
        """The files as of now, by what git ignored when the last tree was written; None where that is not known."""
        last = self._known and self._known.files
        if last is None or last.ruled is None:
            return None
        try:
            return footprint(shadow.worktree, shadow.rules, last.ruled.ignored, time.time_ns(), last.contents)
        except TooMany:
            return None

    async def _ruled_footprint(self, shadow: Shadow, files: Footprint | None) -> Footprint | None:
        """`files` if nothing has changed that says what to ignore, else git is asked for that.

        None where that cannot be had, or would cost more than asking git for everything.
        """
        if not self._looks or shadow.size() > MOST_LOOKED_AT:
            return None
        last = self._known and self._known.files
        if files and last and files.ruled and files.ruled == last.ruled:
            return files
        now = time.time_ns()
        try:
            ignored = await shadow.ignored()
            # Rules that changed since before git was asked may not be those that it read.
            return footprint(shadow.worktree, shadow.rules, ignored, now)
        except (GitError, TooMany) as error:
            log.info("each snapshot asks git worktree=%s: %s", shadow.worktree, error)
            self._looks = False
            return None

    async def _take_in(self, shadow: Shadow) -> list[str]:
        """Bring the index up to date, and return the names that changed in it."""
        records = await shadow.names("ls-files", "-t", "-m", "-o", "--exclude-standard", "-z")
        found = _sorted(shadow.worktree, records)
        if len(found.read) > MOST:
            raise OSError(f"{len(found.read)} files are new, more than {MOST}")
        if found.rules_changed:
            ignored = await shadow.names("ls-files", "-c", "-i", "--exclude-standard", "-z")
            found.forget += [name.decode() for name in ignored]
        if found.forget:
            await shadow.run("update-index", "-z", "--force-remove", "--stdin", stdin=_lines(found.forget))
        if found.read:
            flags = ("--add", "--remove", "--replace", "--stdin")
            await shadow.run("update-index", "-z", *flags, stdin=_lines(found.read))
        return [*found.forget, *found.read]

    async def _write_tree(self, shadow: Shadow) -> str:
        stamp = shadow.stamp()
        if self._known is None or stamp is None or self._known.stamp != stamp:
            return (await shadow.run("write-tree")).decode().strip()
        return self._known.tree

    async def _revert(self, shadow: Shadow, patches: Sequence[Patch]) -> Restored:
        before = await self._tree(shadow)
        present = await _entries(shadow, before)
        if present is None:
            # Somebody deleted what the index speaks of: every file is read again.
            before = await self._anew(shadow, f"snapshot {before} is gone")
            present = await _entries(shadow, before) or {}
        restored = Restored(before, before)
        wanted = await self._wanted(shadow, patches, restored)
        await _put_back(shadow, wanted, present, restored)
        restored.after = await self._tree(shadow)
        there = _parse_tree(await shadow.names("ls-tree", "-r", "-z", restored.after))
        refused = [name for name in restored.files if there.get(name) != wanted[name]]
        restored.files = [name for name in restored.files if name not in refused]
        restored.kept += refused
        return restored

    async def _wanted(
        self, shadow: Shadow, patches: Sequence[Patch], restored: Restored
    ) -> dict[str, str | None]:
        """Each file's entry in the first patch that names it, None where it did not exist."""
        trees: dict[str, dict[str, str] | None] = {}
        wanted: dict[str, str | None] = {}
        for patch in patches:
            if patch.hash not in trees:
                trees[patch.hash] = await _entries(shadow, patch.hash)
            tree = trees[patch.hash]
            if tree is None:
                restored.gone += [] if patch.hash in restored.gone else [patch.hash]
                continue
            for file in patch.files:
                if (name := _inside(shadow.worktree, file)) is not None:
                    wanted.setdefault(name, tree.get(name))
        return wanted

    async def _asked(
        self, before: str, after: str, question: Callable[[Shadow], Awaitable[_Answer]]
    ) -> _Answer | None:
        if not (_HASH.fullmatch(before) and _HASH.fullmatch(after)):
            return None
        return await self._held("snapshots not compared", question)

    async def _held(self, failure: str, work: Callable[[Shadow], Awaitable[_Answer]]) -> _Answer | None:
        """Do `work` while nobody else uses the repository; None without one, and when it fails, which is logged."""
        if self._shadow is None:
            return None
        try:
            async with self._shadow.held():
                return await work(self._shadow)
        except (ShadowBusy, *_FAULTS) as error:
            log.warning("%s worktree=%s: %s", failure, self._worktree, error)
            return None


class _Scan(msgspec.Struct):
    """Names, relative to the worktree, to read again and to forget."""

    read: list[str] = msgspec.field(default_factory=list)
    forget: list[str] = msgspec.field(default_factory=list)

    @property
    def rules_changed(self) -> bool:
        """Whether a file is among them that says what to ignore."""
        return any(name.rpartition("/")[2] == ".gitignore" for name in (*self.read, *self.forget))


def _sorted(worktree: Path, records: Iterable[bytes]) -> _Scan:
    """Sort the records of ``ls-files -t -m -o``: a letter, a blank, a name.

    Left out: nested repositories, files larger than `LARGEST` that are new, or than `GROWN`, files that may not be
    read, and names that are not UTF-8, since a part's list of files is JSON.
    """
    found = _Scan()
    linked: dict[Path, bool] = {worktree: False}
    for record in dict.fromkeys(records):
        name = _decoded(record[2:])
        if name is None or name.endswith("/"):
            continue
        path = worktree / name
        state = _state(path)
        if state is None or stat.S_ISDIR(state.st_mode) or _is_linked(path.parent, linked):
            if not record.startswith(b"?"):
                found.forget.append(name)
        elif not record.startswith(b"?") and state.st_size > GROWN:
            # Not held from here on: what a snapshot does not hold is never overwritten.
            found.forget.append(name)
        elif _can_be_read(path, state) and (not record.startswith(b"?") or state.st_size <= LARGEST):
            found.read.append(name)
    return found


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _can_be_read(path: Path, state: os.stat_result) -> bool:
    return stat.S_ISLNK(state.st_mode) or (stat.S_ISREG(state.st_mode) and os.access(path, os.R_OK))


def _decoded(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _is_linked(folder: Path, seen: dict[Path, bool]) -> bool:
    """Whether a folder is reached through a symbolic link, so that a file in it is another one."""
    if folder not in seen:
        seen[folder] = folder.is_symlink() or _is_linked(folder.parent, seen)
    return seen[folder]


def _parse_tree(records: Iterable[bytes]) -> dict[str, str]:
    """Return the entries of ``ls-tree -r -z`` (mode, kind, hash, tab, name), files and links only."""
    found = {}
    for record in records:
        head, _, name = record.partition(b"\t")
        mode, kind, oid = head.split(b" ")[:3]
        if kind == b"blob":
            found[name.decode(errors="surrogateescape")] = f"{mode.decode()} {oid.decode()}"
    return found


def _inside(worktree: Path, file: str) -> str | None:
    """Return a file's name relative to the worktree, or None where it lies outside or in a ``.git``."""
    path = PurePosixPath(file)
    if "\0" in file or ".." in path.parts:
        return None
    if path.is_absolute():
        if not path.is_relative_to(worktree):
            return None
        path = path.relative_to(worktree)
    if not path.parts or any(part.lower() == ".git" for part in path.parts):
        return None
    return str(path)


async def _put_back(
    shadow: Shadow, wanted: Mapping[str, str | None], present: _Entries, restored: Restored
) -> None:
    """Give each file the entry that is wanted, or delete it (None); `present` is what the newest snapshot holds.

    Fills in `restored.files` and `restored.kept`.
    """
    writes: dict[str, str] = {}
    deletes: list[str] = []
    for name, entry in wanted.items():
        if present.get(name) == entry and (entry is not None or not _exists(shadow.worktree, name)):
            restored.files.append(name)
        elif not _is_safe(shadow.worktree, name, present):
            restored.kept.append(name)
        elif entry is not None:
            writes[name] = entry
        else:
            deletes.append(name)
    ignored = await _ignored_then(shadow, writes, deletes)
    for name in deletes:
        if name in ignored:
            restored.kept.append(name)
        else:
            _delete(shadow.worktree, name, restored)
    if writes:
        await _write(shadow, writes)
        restored.files.extend(writes)


async def _ignored_then(shadow: Shadow, writes: _Entries, deletes: Collection[str]) -> set[str]:
    """Which of the files to delete were ignored before an ignore file changed: no snapshot held them then.

    They may have been there, so that their absence from the snapshot says nothing. The ignore files are put back.
    """
    rules = {name: entry for name, entry in writes.items() if PurePosixPath(name).name == ".gitignore"}
    if not rules or not deletes:
        return set()
    await _write(shadow, rules)
    args = ("check-ignore", "--no-index", "-z", "--stdin")
    found = await shadow.run(*args, stdin=_lines(deletes), check=False)
    return {name.decode() for name in found.split(b"\0") if name}


def _exists(worktree: Path, name: str) -> bool:
    return os.path.lexists(worktree / name)


def _is_safe(worktree: Path, name: str, present: _Entries) -> bool:
    """Whether what stands at this name, or in the way of it, is held by the newest snapshot."""
    parts = PurePosixPath(name).parts
    for depth in range(1, len(parts)):
        above = worktree.joinpath(*parts[:depth])
        if above.is_symlink() or (above.exists() and not above.is_dir()):
            return "/".join(parts[:depth]) in present
    path = worktree / name
    if path.is_dir() and not path.is_symlink():
        return all(below in present for below in _below(worktree, path))
    return name in present or not os.path.lexists(path)


def _below(worktree: Path, folder: Path) -> Iterable[str]:
    for root, folders, files in os.walk(folder):
        found = [Path(root, one) for one in (*folders, *files)]
        yield from (str(one.relative_to(worktree)) for one in found if one.is_symlink() or not one.is_dir())


def _delete(worktree: Path, name: str, restored: Restored) -> None:
    """Delete a file that did not exist then, and the folders that are empty without it."""
    path = worktree / name
    if _stands_behind_link(worktree, name) or (path.is_dir() and not path.is_symlink()):
        restored.files.append(name)  # nothing stands at this name itself
        return
    try:
        path.unlink(missing_ok=True)
        for above in path.parents:
            if above == worktree:
                break
            above.rmdir()
    except OSError:
        # A folder with more in it stays. Whether the file went is what counts.
        pass
    (restored.kept if os.path.lexists(path) else restored.files).append(name)


def _stands_behind_link(worktree: Path, name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(worktree.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts)))


async def _write(shadow: Shadow, writes: _Entries) -> None:
    """Write files through an index of their own; git replaces a link that stands in the way, never follows it."""
    index = shadow.folder / "restore-index"
    index.unlink(missing_ok=True)
    try:
        lines = b"".join(f"{entry}\t{name}\0".encode() for name, entry in writes.items())
        await shadow.run("update-index", "-z", "--index-info", stdin=lines, index=index)
        # One file that the system refuses must not keep the others from being written.
        await shadow.run("checkout-index", "--force", "--all", "--quiet", index=index, check=False)
    finally:
        index.unlink(missing_ok=True)


async def _entries(shadow: Shadow, tree: str) -> dict[str, str] | None:
    """The entries of a snapshot, None where it is gone, or no name of one."""
    if not _HASH.fullmatch(tree):
        return None
    try:
        return _parse_tree(await shadow.names("ls-tree", "-r", "-z", tree))
    except GitError:
        return None


def _lines(names: Collection[str]) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


def _changed(path: str) -> float | None:
    """When a file was changed last, or None where there is none."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 - as above
    except OSError:
        return None
