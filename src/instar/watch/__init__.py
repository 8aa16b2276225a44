"""Watching a directory for as long as somebody listens: its files, its branch, its project.

Publishes ``file.watcher.updated``, ``vcs.branch.updated`` and ``project.updated`` (issue 4, item 2). A
directory that cannot be watched is named once in the log, and everything else goes on.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from instar import git
from instar.event import FileWatcherUpdated, ProjectTime, VcsBranchUpdated, make
from instar.instance import Instance
from instar.process import ProcessError
from instar.projects import Projects, told
from instar.store import PutProject, PutValue
from instar.watch.notice import Batch, Notice, Unwatched
from instar.watch.tree import Changes, Tree

log = logging.getLogger("instar.watch")

_Told = Batch | Unwatched | None
_AT_ONCE: Final = 100
"""Events that are published before others get their turn on the event loop."""
_ENDING: Final = 1.0
"""Seconds that closing waits for the thread."""


class Watching:
    """The watch of one instance's directory; nothing runs before `start`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._notice: Notice | None = None
        self._branch: str | None = None

    def start(self, after: float = 0.0) -> None:
        """Begin to watch in `after` seconds; a later call with less brings it forward."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(after), name="watch")
        if after <= 0:
            self._wanted.set()

    async def close(self) -> None:
        """Stop; what was told so far is published. May be called twice."""
        if self._task is None:
            return
        if self._notice is None:
            self._task.cancel()
        else:
            self._notice.stop()
        await asyncio.wait([self._task], timeout=_ENDING)
        self._task.cancel()

    async def _run(self, after: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), after or None)
        await announce_project(self._instance)
        self._branch = await self._checked_out()
        if _is_wide(self._instance):
            log.info("not watched directory=%s: it holds a whole home", self._instance.directory)
            return
        tree, marks = self._watched()
        told: asyncio.Queue[_Told] = asyncio.Queue()
        self._notice = Notice(tree, marks, partial(_tell, asyncio.get_running_loop(), told))
        self._notice.start()
        await self._listen(told, tree)

    async def _listen(self, told: asyncio.Queue[_Told], tree: Tree) -> None:
        directory = self._instance.directory
        complete = True
        while isinstance(batch := await told.get(), Batch):
            await self._publish(batch)
            if complete and not tree.complete:
                complete = False
                log.warning(
                    "watched in part directory=%s: only its first %d folders; name large ones under watcher.ignore",
                    directory,
                    len(tree.folders),
                )
        if batch is not None:
            log.warning("not watched any more directory=%s: %s", directory, batch)

    def _watched(self) -> tuple[Tree, frozenset[str]]:
        project = self._instance.project
        folder = git.git_folder(project.worktree) if project.vcs else None
        repository = str(project.main_worktree) if project.vcs else None
        root = str(self._instance.directory.resolve())
        tree = Tree(root, _globs(self._instance.config.data), repository=repository)
        return tree, frozenset(map(str, _marks(folder)))

    async def _publish(self, batch: Batch) -> None:
        if batch.marked:
            await self._look_at_branch()
        await publish_changes(self._instance, batch.changes)

    async def _look_at_branch(self) -> None:
        branch = await self._checked_out()
        if branch != self._branch:
            self._branch = branch
            self._instance.bus.publish(make(VcsBranchUpdated(branch=branch)))

    async def _checked_out(self) -> str | None:
        project = self._instance.project
        if not project.vcs:
            return None
        found = git.head_branch(project.worktree)
        if found is not None or not _keeps_head_elsewhere(project.worktree):
            return found
        try:
            return await git.branch(self._instance.processes, project.worktree)
        except (git.GitError, ProcessError) as error:
            log.warning("the branch of %s cannot be read: %s", project.worktree, error)
            return self._branch


async def publish_changes(instance: Instance, changes: Changes) -> None:
    """Publish each change, letting others have the event loop in between."""
    for number, (path, kind) in enumerate(sorted(changes.items()), 1):
        instance.bus.publish(make(FileWatcherUpdated(file=path, event=kind)))
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)


async def announce_project(instance: Instance) -> None:
    """Save and publish the instance's project when it is new here, or its worktree is another than before."""
    project, store = instance.project, instance.store
    key = f"project:{project.id}"
    now = time.time_ns() // 1_000_000
    known: dict[str, Any] = await store.value("instar", key) or {}
    state = {"worktree": str(project.main_worktree), "vcs": project.vcs, "created": known.get("created", now)}
    if known == state:
        return
    # With the name and all else that a person gave it; what clients are told is what they find when they ask.
    current = await Projects(instance).current()
    current.time = ProjectTime(created=current.time.created, updated=now)
    row = PutProject(project.id, str(project.main_worktree), project.vcs, now)
    await store.commit([row, PutValue("instar", key, state)], [make(told(current))])


def _tell(loop: asyncio.AbstractEventLoop, told: asyncio.Queue[_Told], batch: _Told) -> None:
    # A closed loop has nobody left to hear of it.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(told.put_nowait, batch)


def _is_wide(instance: Instance) -> bool:
    """Whether a directory outside a repository holds a whole home, which nobody works in."""
    home = instance.environment.get("HOME")
    directory = instance.directory.resolve()
    return not instance.project.vcs and bool(home) and Path(str(home)).resolve().is_relative_to(directory)


def _globs(data: dict[str, Any]) -> Sequence[str]:
    """The globs of opencode's ``watcher.ignore``; what is none is said in the log."""
    block = data.get("watcher")
    found = block.get("ignore", []) if isinstance(block, dict) else []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        log.warning("watcher.ignore must be a list of globs, found %r: it is not used", found)
        return []
    return [one for one in found if "\n" not in one]


def _marks(folder: Path | None) -> list[Path]:
    """The files that change when another branch is checked out."""
    if folder is None:
        return []
    table = folder / "reftable" / "tables.list"
    return [folder / "HEAD", *([table] if table.is_file() else [])]


def _keeps_head_elsewhere(worktree: Path) -> bool:
    folder = git.git_folder(worktree)
    return folder is not None and (folder / "reftable").is_dir()
