"""Snapshots: the state of a project's files as the name of a git tree in a shadow repository.

Taking one costs one git process where nothing changed: git compares each file's size and times with what its
index remembers. Callers that ask at the same moment share one answer.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from instar.git import GitError
from instar.message import FileDiff
from instar.process import ProcessError, Processes
from instar.project import Project
from instar.snapshot import diff, files, scan
from instar.snapshot.files import Restored
from instar.snapshot.scan import LARGEST
from instar.snapshot.shadow import Shadow, Taken

__all__ = ["LARGEST", "Patch", "Snapshot"]

log = logging.getLogger("instar.snapshot")

MOST: Final = 100_000
"""Files that are taken in at once; a project with more has no snapshots."""
KEPT_DAYS: Final = 30
"""Days for which a snapshot can be gone back to."""

_HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DAY: Final = 24 * 60 * 60
_FAULTS: Final = (GitError, ProcessError, OSError)
_Answer = TypeVar("_Answer")


class Patch(msgspec.Struct, frozen=True):
    """The files (absolute paths) that differ between a snapshot and a later one; `hash` is the earlier."""

    hash: str
    files: Sequence[str]


class Snapshot:
    """The snapshots of one worktree.

    `off` says why none are taken, None while they are. A failure switches them off for this runtime, with one
    warning: work goes on without them.
    """

    def __init__(self, shadow: Shadow | None, off: str | None = None) -> None:
        self._shadow = shadow
        self._known: tuple[object, str] | None = None
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
        if self._next is None:
            self._next = asyncio.create_task(self._track(self._shadow), name="snapshot")
        return await asyncio.shield(self._next)

    async def patch(self, tree: str) -> Patch:
        """Return the files that differ between a snapshot and now; none while snapshots are off."""
        now = await self.track()
        return Patch(tree, await self.changed(tree, now) if now is not None else [])

    async def changed(self, before: str, after: str) -> list[str]:
        """Return the absolute paths of the files that differ; none where a snapshot is gone."""
        found = await self._asked(before, after, lambda shadow: diff.names(shadow, before, after))
        return [str(self._worktree / name) for name in found or []]

    async def diff(self, before: str, after: str) -> str:
        """Return the difference as a unified diff, "" where a snapshot is gone."""
        return await self._asked(before, after, lambda shadow: diff.text(shadow, before, after)) or ""

    async def diff_full(
        self, before: str, after: str, only: Collection[str] | None = None
    ) -> list[FileDiff] | None:
        """Return each changed file with its patch and counts; None where a snapshot is gone.

        `only` are absolute paths: other files are left out.
        """
        wanted = None if only is None else {files.inside(self._worktree, name) or "" for name in only}
        return await self._asked(before, after, lambda shadow: diff.full(shadow, before, after, wanted))

    async def restore(self, tree: str) -> Restored | None:
        """Make every file as it was in a snapshot; otherwise as `revert`."""
        now = await self.track()
        changed = await self.changed(now, tree) if now is not None else []
        return await self.revert([Patch(tree, changed)])

    async def revert(self, patches: Sequence[Patch]) -> Restored | None:
        """Put each file back as it was in the first patch that names it; None while snapshots are off.

        A file that did not exist then is deleted. What stands there now is in the snapshot `Restored.before`;
        a file that this one does not hold (ignored, too large) is left alone and named in `Restored.kept`.
        """
        shadow = self._shadow
        if shadow is None or self.off is not None:
            return None
        try:
            async with shadow.held():
                return await self._revert(shadow, patches)
        except (Taken, *_FAULTS) as error:
            log.warning("files not put back worktree=%s: %s", shadow.worktree, error)
            return None

    async def cleanup(self) -> None:
        """Drop what is older than `KEPT_DAYS`, at most once a day. What fails is tried again a day later."""
        shadow = self._shadow
        if shadow is None or self.off is not None or not self.is_due():
            return
        try:
            async with shadow.held():
                # Marked first: a process that is ended meanwhile must not begin anew at each start.
                (shadow.folder / "cleaned").touch()
                await shadow.run("prune", f"--expire={KEPT_DAYS}.days.ago")
        except (Taken, *_FAULTS) as error:
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

    async def _track(self, shadow: Shadow) -> str | None:
        task = asyncio.current_task()
        try:
            async with shadow.held():
                # From here on files are read: who asks now may have written since.
                self._next = None
                return await self._tree(shadow)
        except Taken as error:
            log.warning("no snapshot worktree=%s: %s", shadow.worktree, error)
        except _FAULTS as error:
            self.off = f"a snapshot failed: {error}"
            log.warning("snapshots are off worktree=%s folder=%s: %s", shadow.worktree, shadow.folder, error)
        finally:
            if self._next is task:
                self._next = None
        return None

    async def _tree(self, shadow: Shadow) -> str:
        try:
            await self._take_in(shadow)
            return await self._write_tree(shadow)
        except GitError as error:
            if error.code is None:  # it took too long, or was ended
                raise
            # A file system that lost power leaves an index that git cannot read: it can be made anew.
            return await self._anew(shadow, str(error))

    async def _anew(self, shadow: Shadow, why: str) -> str:
        log.warning("the index is made anew worktree=%s: %s", shadow.worktree, why)
        shadow.index.unlink(missing_ok=True)
        self._known = None
        await self._take_in(shadow)
        return await self._write_tree(shadow)

    async def _take_in(self, shadow: Shadow) -> None:
        records = await shadow.names("ls-files", "-t", "-m", "-o", "--exclude-standard", "-z")
        found = scan.sort(shadow.worktree, records)
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

    async def _write_tree(self, shadow: Shadow) -> str:
        stamp = shadow.stamp()
        if self._known is None or stamp is None or self._known[0] != stamp:
            tree = (await shadow.run("write-tree")).decode().strip()
            self._known = (shadow.stamp(), tree)
        return self._known[1]

    async def _revert(self, shadow: Shadow, patches: Sequence[Patch]) -> Restored:
        before = await self._tree(shadow)
        present = await _entries(shadow, before)
        if present is None:
            # Somebody deleted what the index speaks of: every file is read again.
            before = await self._anew(shadow, f"snapshot {before} is gone")
            present = await _entries(shadow, before) or {}
        restored = Restored(before, before)
        wanted = await self._wanted(shadow, patches, restored)
        await files.put_back(shadow, wanted, present, restored)
        restored.after = await self._tree(shadow)
        there = files.parse_tree(await shadow.names("ls-tree", "-r", "-z", restored.after))
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
                if (name := files.inside(shadow.worktree, file)) is not None:
                    wanted.setdefault(name, tree.get(name))
        return wanted

    async def _asked(
        self, before: str, after: str, question: Callable[[Shadow], Awaitable[_Answer]]
    ) -> _Answer | None:
        shadow = self._shadow
        if shadow is None or not (_HASH.fullmatch(before) and _HASH.fullmatch(after)):
            return None
        try:
            async with shadow.held():
                return await question(shadow)
        except (Taken, *_FAULTS) as error:
            log.warning("snapshots not compared worktree=%s: %s", shadow.worktree, error)
            return None


async def _entries(shadow: Shadow, tree: str) -> dict[str, str] | None:
    """The entries of a snapshot, None where it is gone, or no name of one."""
    if not _HASH.fullmatch(tree):
        return None
    try:
        return files.parse_tree(await shadow.names("ls-tree", "-r", "-z", tree))
    except GitError:
        return None


def _lines(names: Sequence[str]) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


def _changed(path: str) -> float | None:
    """When a file was changed last, or None where there is none."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 - as above
    except OSError:
        return None
