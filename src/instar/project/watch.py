"""Watching a directory for as long as somebody listens: its files, its branch, its project.

`FileTree` knows the files below a folder. `WatchThread` waits for the kernel's reports of changes. `Watching` publishes
``file.watcher.updated``, ``vcs.branch.updated`` and ``project.updated`` (opencode's events) for one instance. A
directory that cannot be watched is named once in the log, and everything else goes on.
"""

import asyncio
import contextlib
import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from instar import git
from instar.event import FileWatcherUpdated, ProjectTime, VcsBranchUpdated, make
from instar.process import ProcessError
from instar.project.projects import Projects, project_updated
from instar.session.instance import Instance
from instar.store import PutProject, PutValue
from instar.tool.walk import MAX_RULES, Rules, entries, ignored, parse
from instar.wire.document import open_regular

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


# A walk of ten thousand folders on pathlib takes three times as long.
# ruff: noqa: PTH118, PTH119, PTH120, PTH206


Kind = Literal["add", "change", "unlink"]
Changes = dict[str, Kind]
"""What happened, by absolute path."""

MOST_FOLDERS: Final = 5_000
"""Folders that are watched, the nearest to the root first: the kernel's watches are shared by all programs."""
MOST_FILES: Final = 100_000
"""Files whose names are kept."""
MOST_SECONDS: Final = 3.0
"""How long looking at everything may take; a repository is untrusted, and so are its ignore files."""
LONGEST_LINE: Final = 1_000
"""Characters of a line of an ignore file; longer ones are left out."""
MOST_LINES: Final = 500
"""Lines of one ignore file that are read."""
MACHINE_MADE: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".cache", ".DS_Store"),
    )
)
"""Names that are never watched."""
_TEMPORARY: Final = (".pyc", ".swp", ".swo", "~")


class FileTree:
    """The files below `root`, an absolute path without links. `globs` are the person's own, as in an ignore file."""

    def __init__(
        self,
        root: str,
        globs: Sequence[str] = (),
        *,
        repository: str | None = None,
        excludes: Sequence[str] = (),
        most: int = MOST_FOLDERS,
    ) -> None:
        """`repository` is the worktree that `root` lies in, whose ignore files hold from there down.

        `excludes` are git's other ignore files, those that weigh less first.
        """
        self.root = root
        self._excludes = excludes
        self.complete = True
        self._most = most
        self._repository = repository
        self._own: Rules = ((root, parse(_short(globs))),) if globs else ()
        self._names: dict[str, set[str]] = {}
        self._rules: dict[str, Rules] = {}
        self._inodes: dict[str, int] = {}

    @property
    def folders(self) -> list[str]:
        """The folders that were found, the root first."""
        return list(self._names)

    def read(self) -> Changes:
        """Look at everything again and return what was added and what is gone since the last time."""
        before, self._names, rules, self._rules, self._inodes = self._names, {}, self._rules, {}, {}
        was_complete = self.complete
        self.complete = self._walk()
        found = self._difference(before, was_complete and self.complete)
        return _without_ignored(found, {**rules, **self._rules})

    def settle(self, paths: Iterable[str]) -> tuple[Changes, bool]:
        """Return what happened to `paths`, and whether a folder is there that `read` has not seen yet."""
        found: Changes = {}
        grown = False
        for path in paths:
            status = _status(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                grown = grown or self._is_new(path, status.st_ino)
            elif status is None and path in self._names:
                found.update(self._drop(path))
            elif (kind := self._file(path, status is not None)) is not None:
                found[path] = kind
                # What it says of folders is known once they are looked at again.
                grown = grown or path.endswith("/.gitignore")
        return _without_ignored(found, self._rules), grown

    def _file(self, path: str, there: bool) -> Kind | None:
        folder, name = os.path.split(path)
        names = self._names.get(folder)
        if names is None or self._unwanted(path, False):
            return None
        if there:
            kind: Kind = "change" if name in names else "add"
            names.add(name)
            return kind
        if name not in names:
            return None
        names.remove(name)
        return "unlink"

    def _is_new(self, path: str, inode: int) -> bool:
        if path in self._names:
            # Removed and made again: what is watched is the one that is gone.
            return self._inodes.get(path, inode) != inode
        if not self.complete:
            return False
        rules = self._rules.get(os.path.dirname(path))
        return rules is not None and not self._skipped(path, rules)

    def _drop(self, folder: str) -> Changes:
        gone = [one for one in self._names if one == folder or one.startswith(folder + os.sep)]
        return {os.path.join(one, name): "unlink" for one in gone for name in self._names.pop(one)}

    def _walk(self) -> bool:
        """Look at every folder, those near the root first; False when there are too many."""
        waiting = deque([(self.root, self._above())])
        files, end = 0, time.monotonic() + MOST_SECONDS
        while waiting:
            if len(self._names) >= self._most or files >= MOST_FILES or time.monotonic() > end:
                return False
            folder, rules = waiting.popleft()
            rules = self._rules[folder] = self._entered(folder, rules)
            names = self._names[folder] = set()
            for entry in entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    if not self._skipped(entry.path, rules):
                        self._inodes[entry.path] = entry.inode()
                        waiting.append((entry.path, rules))
                elif not self._unwanted(entry.path, False):
                    names.add(entry.name)
            files += len(names)
        return True

    def _skipped(self, folder: str, rules: Rules) -> bool:
        return self._unwanted(folder, True) or ignored(folder, True, rules)

    def _unwanted(self, path: str, folder: bool) -> bool:
        name = os.path.basename(path)
        return name in MACHINE_MADE or name.endswith(_TEMPORARY) or ignored(path, folder, self._own)

    def _above(self) -> Rules:
        """What the ignore files say that stand above the root, from the worktree's folder down."""
        if self._repository is None:
            return ()
        rules: Rules = tuple(
            (self._repository, parse(_text(os.path.realpath(file)))) for file in self._excludes
        )
        if self.root == self._repository:
            return rules
        for folder in _between(self._repository, self.root):
            rules = self._entered(folder, rules)
        return rules

    def _entered(self, folder: str, rules: Rules) -> Rules:
        if self._repository is None:
            return ()
        lines = parse(_text(os.path.join(folder, ".gitignore")))
        return (*rules, (folder, lines)) if lines else rules

    def _difference(self, before: Mapping[str, set[str]], whole: bool) -> Changes:
        """What came and went; unless the looks were `whole`, a folder seen in one alone says nothing."""
        found: Changes = {}
        for folder, names in self._names.items():
            if whole or folder in before:
                new = names - before.get(folder, set())
                found.update({os.path.join(folder, name): "add" for name in new})
        for folder, names in before.items():
            if whole or folder in self._names:
                gone = names - self._names.get(folder, set())
                found.update({os.path.join(folder, name): "unlink" for name in gone})
        return found


def _without_ignored(changes: Changes, rules: Mapping[str, Rules]) -> Changes:
    return {
        path: kind
        for path, kind in changes.items()
        if not ignored(path, False, rules.get(os.path.dirname(path), ()))
    }


def collapse(changes: Changes, root: str, most: int) -> Changes:
    """Return `changes` when they are at most `most`; else a ``change`` of each folder that they stand in.

    Folders become the folders above them until there are few enough; `root` stands for what lies in it.
    """
    while len(changes) > most:
        changes = {root if path == root else os.path.dirname(path): "change" for path in changes}
    return changes


def _between(top: str, folder: str) -> Iterator[str]:
    """The folders from `top` down to the one that holds `folder`."""
    yield top
    for name in os.path.relpath(folder, top).split(os.sep)[:-1]:
        top = os.path.join(top, name)
        yield top


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _text(path: str) -> str:
    """The lines of an ignore file that are read; none of a pipe or device, which could be waited for for ever."""
    try:
        with open_regular(path, os.O_NOFOLLOW) as file:
            return _short(file.read(MAX_RULES).decode(errors="replace").splitlines())
    except OSError:
        return ""


def _short(lines: Iterable[str]) -> str:
    """Join lines to one text, without those that would take long to match: the text is untrusted."""
    return "\n".join([line for line in lines if len(line) <= LONGEST_LINE][:MOST_LINES])


MOST_AT_ONCE: Final = 1_000
"""Changes that are reported file by file; more at once are reported by folder."""
STEP: Final = 50
"""Milliseconds without a change after which the changes are reported, and within which the thread ends."""
LONGEST: Final = 1_000
"""Milliseconds for which changes are gathered at most."""
_TRIES: Final = 5


class ChangeBatch(msgspec.Struct, frozen=True):
    """What happened since the last one: files, and whether one of the watched marks (a ``HEAD``) changed."""

    changes: Changes
    marked: bool = False


class Unwatched(Exception):
    """A folder is not watched, or no longer; the text says why and what to do."""


class Watched(Protocol):
    """What a `WatchThread` watches, as `FileTree`: its `folders`. The watch ends when `root` is gone."""

    @property
    def root(self) -> str:
        """The folder that holds all of it."""

    @property
    def folders(self) -> list[str]:
        """The folders that are watched."""

    def read(self) -> Changes:
        """Look at everything again."""

    def settle(self, paths: Iterable[str]) -> tuple[Changes, bool]:
        """Return what happened to `paths`, and whether there may be more folders."""


class WatchThread(threading.Thread):
    """Watches `tree`, and the files `marks`, until `stop`; `report` is called in this thread with each batch.

    The first batch is empty: changes are seen from then on. The last call gets an `Unwatched` if the watch ended by
    itself, else None.
    """

    def __init__(
        self,
        tree: Watched,
        marks: frozenset[str],
        report: Callable[[ChangeBatch | Unwatched | None], None],
        name: str = "instar-watch",
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._tree = tree
        self._marks = marks
        self._report = report
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make the thread end within `STEP`."""
        self._stopping.set()

    def run(self) -> None:
        """Watch; see the class."""
        end: Unwatched | None = None
        try:
            self._watch()
        except Unwatched as reason:
            end = reason
        except Exception as error:  # the program goes on unwatched
            end = Unwatched(f"{type(error).__name__}: {error}")
        self._report(end)

    def _watch(self) -> None:
        notify, _ = self._open()
        try:
            self._report(ChangeBatch({}))
            while isinstance(found := notify.watch(LONGEST, STEP, 0, self._stopping), set):
                batch, grown = self._look(found)
                if grown:
                    old, (notify, more) = notify, self._open()
                    batch = self._joined(batch, more, self._rest(old))
                if batch.changes or batch.marked:
                    self._report(batch)
                if not os.path.isdir(self._tree.root):  # noqa: PTH112
                    raise Unwatched(f"{self._tree.root} is gone")
        finally:
            notify.close()

    def _look(self, found: "set[tuple[int, str]]") -> tuple[ChangeBatch, bool]:
        paths = {path for _, path in found}
        changes, grown = self._tree.settle(paths)
        return ChangeBatch(
            collapse(changes, self._tree.root, MOST_AT_ONCE), not self._marks.isdisjoint(paths)
        ), grown

    def _joined(self, *batches: ChangeBatch) -> ChangeBatch:
        changes: Changes = {}
        for batch in batches:
            changes.update(batch.changes)
        whole = collapse(changes, self._tree.root, MOST_AT_ONCE)
        return ChangeBatch(whole, any(batch.marked for batch in batches))

    def _rest(self, old: "RustNotify") -> ChangeBatch:
        """The changes that a replaced watch still had to report."""
        found = old.watch(1, 1, 1, None)
        old.close()
        return self._look(found)[0] if isinstance(found, set) else ChangeBatch({})

    def _open(self) -> "tuple[RustNotify, ChangeBatch]":
        """Watch every folder that there is now, and return what came and went until then."""
        # 15 ms and 3 MB: paid only where somebody listens, and in this thread.
        from watchfiles._rust_notify import RustNotify

        homes = sorted({os.path.dirname(mark) for mark in self._marks})
        changes: Changes = {}
        for _ in range(_TRIES):
            changes.update(self._tree.read())
            folders = [*self._tree.folders, *homes]
            try:
                notify = RustNotify(folders, False, False, 0, False, True)
            except FileNotFoundError:
                continue  # a folder went away between being seen and being watched
            except OSError as error:
                raise Unwatched(_advice(error)) from error
            # What came in a new folder before it was watched is found by looking once more.
            changes.update(self._tree.read())
            if set(self._tree.folders) <= set(folders):
                return notify, ChangeBatch(changes)
            notify.close()
        raise Unwatched("its folders come and go faster than they can be watched")


def _advice(error: OSError) -> str:
    return (
        f"{error}; a limit of the system's may be reached (on Linux: fs.inotify.max_user_watches and"
        " max_user_instances). Raise it, or name large folders under `watcher.ignore`"
    )


log = logging.getLogger("instar.watch")
PAUSE: Final = 0.5
"""Seconds between a file's change that is told and its next one; each further one doubles them."""
LONGEST_PAUSE: Final = 60.0


class ChangesTold:
    """Tells changes of files; those of one file that come fast are merged, with a pause that doubles.

    A listener that writes a file of the project for each event would else feed itself for ever.
    """

    def __init__(self, tell: Callable[[str, Kind], None]) -> None:
        self._tell = tell
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._held: dict[str, Kind] = {}

    def take(self, path: str, kind: Kind) -> None:
        """Tell a change, or keep it until its file's pause is over."""
        if path in self._pauses:
            self._held[path] = "add" if (self._held.get(path), kind) == ("add", "change") else kind
        else:
            self._now(path, kind, PAUSE)

    def close(self) -> None:
        """Tell what is kept."""
        for pause in self._pauses.values():
            pause.cancel()
        for path, kind in self._held.items():
            self._tell(path, kind)
        self._pauses, self._held = {}, {}

    def _now(self, path: str, kind: Kind, pause: float) -> None:
        self._tell(path, kind)
        loop = asyncio.get_running_loop()
        self._pauses[path] = loop.call_later(pause, self._over, path, min(2 * pause, LONGEST_PAUSE))

    def _over(self, path: str, next_pause: float) -> None:
        del self._pauses[path]
        if (kind := self._held.pop(path, None)) is not None:
            self._now(path, kind, next_pause)


_Report = ChangeBatch | Unwatched | None
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
        self._notice: WatchThread | None = None
        self._branch: str | None = None
        self._told = ChangesTold(
            lambda path, kind: instance.bus.publish(make(FileWatcherUpdated(file=path, event=kind)))
        )

    def start(self, after: float = 0.0) -> None:
        """Begin to watch in `after` seconds; a later call with less brings it forward."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(after), name="watch")
        if after <= 0:
            self._wanted.set()

    async def close(self) -> None:
        """Stop; the changes reported so far are published. May be called twice."""
        if self._task is None:
            return
        if self._notice is None:
            self._task.cancel()
        else:
            self._notice.stop()
        await asyncio.wait([self._task], timeout=_ENDING)
        self._task.cancel()
        self._told.close()

    async def _run(self, after: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), after or None)
        await announce_project(self._instance)
        self._branch = await self._checked_out()
        if _is_wide(self._instance):
            log.info("not watched directory=%s: it holds a whole home", self._instance.directory)
            return
        tree, marks = await self._watched()
        reports: asyncio.Queue[_Report] = asyncio.Queue()
        self._notice = WatchThread(tree, marks, partial(_enqueue, asyncio.get_running_loop(), reports))
        self._notice.start()
        await self._listen(reports, tree)

    async def _listen(self, reports: asyncio.Queue[_Report], tree: FileTree) -> None:
        directory = self._instance.directory
        complete = True
        while isinstance(batch := await reports.get(), ChangeBatch):
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

    async def _watched(self) -> tuple[FileTree, frozenset[str]]:
        project = self._instance.project
        folder = git.git_folder(project.worktree) if project.vcs else None
        repository = str(project.worktree.resolve()) if project.vcs else None
        root = str(self._instance.directory.resolve())
        excludes = await self._excludes() if project.vcs else []
        tree = FileTree(root, _globs(self._instance.config.data), repository=repository, excludes=excludes)
        return tree, frozenset(map(str, _marks(folder)))

    async def _publish(self, batch: ChangeBatch) -> None:
        if batch.marked:
            branch = await self._checked_out()
            if branch != self._branch:
                self._branch = branch
                self._instance.bus.publish(make(VcsBranchUpdated(branch=branch)))
        for number, (path, kind) in enumerate(sorted(batch.changes.items()), 1):
            self._told.take(path, kind)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _excludes(self) -> list[str]:
        """Git's ignore files beside ``.gitignore``: the person's own, and the repository's."""
        worktree, environment = self._instance.project.worktree, self._instance.environment
        home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
        args = ("config", "--type=path", "--default", f"{home}/git/ignore", "--get", "core.excludesFile")
        own = ""
        with contextlib.suppress(git.GitError, ProcessError):
            own = (await git.git(self._instance.processes, worktree, *args)).strip()
        common = git.common_folder(worktree)
        return [own, *([str(common / "info" / "exclude")] if common else [])]

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


async def announce_project(instance: Instance) -> None:
    """Save and publish the instance's project when it is new here, or its worktree is another than before."""
    project, store = instance.project, instance.store
    key = f"project:{project.id}"
    now = time.time_ns() // 1_000_000
    known: dict[str, Any] = await store.value("instar", key) or {}
    state = {"worktree": str(project.main_worktree), "vcs": project.vcs, "created": known.get("created", now)}
    if known == state:
        return
    # The event holds what a client would read: also the name and all else that a person gave the project.
    current = await Projects(instance).current()
    current.time = ProjectTime(created=current.time.created, updated=now)
    row = PutProject(project.id, str(project.main_worktree), project.vcs, now)
    await store.commit([row, PutValue("instar", key, state)], [make(project_updated(current))])


def _enqueue(loop: asyncio.AbstractEventLoop, reports: asyncio.Queue[_Report], batch: _Report) -> None:
    # The loop may be closed already.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(reports.put_nowait, batch)


def _is_wide(instance: Instance) -> bool:
    """True if a directory outside a repository holds a whole home, which nobody works in."""
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
