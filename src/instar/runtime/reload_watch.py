"""The files that an instance is made of, those too that are not there yet, and the folders in which to hear of them.

They stand near the person and near the project: settings and the folders beside them, instructions, files of rules,
the plugins that settings name, the lists of trusted folders and of plugin folders. Of a folder nothing else is looked
at, however many files come and go in it.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from instar.definitions.instruction import NAMES
from instar.git.project import Project
from instar.project.watch import ChangeBatch, Changes, Unwatched, WatchThread
from instar.runtime import plugin_order
from instar.runtime.reload import ReloadedRuntime
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.settings.load import folder_chain
from instar.settings.paths import Paths
from instar.settings.steered import (
    CODE_FOLDERS,
    DEFINITION_FOLDERS,
    FOLDERS,
    SETTINGS,
    SKILL_FOLDERS,
)

# Asked for each file that changes anywhere beside them.
# ruff: noqa: PTH112, PTH117, PTH119, PTH120


Signature = Mapping[str, tuple[int, int, int] | None]
"""What each file is known by: its inode, size in bytes and time of change in ns; None: there is none."""

MOST: Final = 2_000
"""Files and folders that are looked at in the folders of one place: a stranger's repository may be of any size."""

_VARIABLES: Final = ("OPENCODE_CONFIG", "INSTAR_CONFIG")
_UNREAD: Final = ("__pycache__", "node_modules", ".git")
log = logging.getLogger("instar.reload")
_Told = ChangeBatch | Unwatched | None
_Queue = asyncio.Queue[tuple[int, _Told]]
"""What watches told, each with the number of the watch."""
QUIET: Final = 0.2
"""Seconds without a change after which files are looked at: an editor writes several at once."""
LONGEST: Final = 2.0
"""Seconds for which changes are gathered at most."""
POLL: Final = 2.0
"""Seconds between two looks where the system tells of no changes, or is not asked."""
_GRAIN: Final = 20_000_000
"""Nanoseconds by which a file's time of change may be behind the clock."""
_ENDING: Final = 5.0
"""Seconds that closing waits for a reload to come to its end."""


class WatchedFiles:
    """The watched files of one directory's instance. `WatchThread` sees a tree whose `root` always exists.

    Which folders are watched is decided where they are (`read`), in the thread of that.
    """

    root = os.sep

    def __init__(
        self, directory: Path, project: Project, paths: Paths, environment: Mapping[str, str]
    ) -> None:
        chain = folder_chain(directory.resolve(), project)
        bases = [*paths.config_homes, *(folder / name for folder in chain for name in FOLDERS)]
        rules = plugin_order.places(project, directory, paths.home)
        files = [
            *(folder / name for folder in (*bases, *chain) for name in ("config.json", *SETTINGS, *NAMES)),
            *(folder / name for folder in rules for one in FLAGSHIPS.values() for name in one.files),
            *(
                directory / Path(environment[name]).expanduser()
                for name in _VARIABLES
                if environment.get(name)
            ),
            *(paths.home / ".claude" / name for name in NAMES),
        ]
        trees = [
            *(base / name for base in bases for name in (*CODE_FOLDERS, *DEFINITION_FOLDERS)),
            *(folder / name for folder in (paths.home, *chain) for name in SKILL_FOLDERS),
        ]
        self._files = list(dict.fromkeys(map(str, files)))
        self._trees = list(dict.fromkeys(map(str, trees)))
        self._beside_database = (str(paths.trust_file), str(paths.plugins))
        self._more: list[str] = []
        self.grown = False
        """Whether there are more folders to watch than there were the last time that they were found."""
        self._watched: list[str] = []
        self._known: set[str] = set()

    def name(self, plugins: Iterable[str]) -> None:
        """Watch these plugins too: absolute paths of files or folders."""
        more = [path for path in plugins if os.path.isabs(path) and not _is_below(path, self._trees)]
        self.grown = self.grown or more != self._more
        self._more = more

    def signature(self) -> Signature:
        """Look at every file. Takes some ms at most, and raises nothing."""
        return {**self._look()[0], **self.unheard()}

    def unheard(self) -> Signature:
        """Return the signatures of the polled files: they are in a folder that each turn writes to."""
        return {path: _state(path) for path in self._beside_database}

    def _look(self) -> tuple[dict[str, tuple[int, int, int] | None], list[str]]:
        """Return the signatures of all files, and the folders that were read."""
        single = [*self._files, *(path for path in self._more if not os.path.isdir(path))]
        found = {path: _state(path) for path in single}
        folders = list[str]()
        for tree in [*self._trees, *(path for path in self._more if os.path.isdir(path))]:
            for path, is_folder in _walk(tree):
                if is_folder:
                    folders.append(path)
                else:
                    found[path] = _state(path)
        return found, folders

    # -- as a tree that is watched ---------------------------------------------------------------------

    @property
    def folders(self) -> list[str]:
        """Return the folders in which watched files exist or may be created."""
        return list(self._watched)

    def read(self) -> Changes:
        """Find the folders again, without reporting a change."""
        self.grown = False
        found, folders = self._look()
        self._watched, self._known = _heard_in([*found, *self._trees], folders)
        return {}

    def settle(self, paths: Iterable[str]) -> tuple[Changes, bool]:
        """Return the relevant ones of `paths`, and whether there may be other folders to watch."""
        found: Changes = {path: "change" for path in paths if self._matters(path)}
        return found, any(os.path.isdir(path) or path in self._watched for path in found)

    def _matters(self, path: str) -> bool:
        if os.path.basename(path) in _UNREAD:
            return False
        return path in self._known or _is_below(path, (*self._trees, *self._more))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def _heard_in(paths: Iterable[str], folders: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return the folders to watch for `paths` and `folders`, and the paths that matter there.

    Of a file that a link stands for, the folder of the file itself as well; of what is not there, the nearest folder
    that is.
    """
    watched = dict.fromkeys(folders)
    known = {*paths, *watched}
    for path in tuple(known):
        real = os.path.realpath(path)
        for one in (path, real) if real != path else (path,):
            known.add(one)
            parent = os.path.dirname(one)
            while not os.path.isdir(parent):
                known.add(parent)
                parent = os.path.dirname(parent)
            watched[parent] = None
    return list(watched), known


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield a folder and everything below it, each with whether it is a folder; each link is followed once."""
    waiting, entered, count = [top], set[str](), 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # start-up time: most are not there, and need no real path
        real = os.path.realpath(folder)
        if real in entered:
            continue
        entered.add(real)
        yield folder, True
        for entry in entries:
            count += 1
            if count > MOST:
                return
            if entry.name in _UNREAD:
                continue
            if entry.is_dir():
                waiting.append(entry.path)
            else:
                yield entry.path, False


class ReloadWatch:
    """Reloads a runtime with the paths of files in `places` that differ from `seen`; idle before `start`.

    Each time its settings are asked which plugins they name, and whether it is wanted still.
    """

    def __init__(
        self,
        places: WatchedFiles,
        seen: Signature,
        runtime: ReloadedRuntime,
    ) -> None:
        self._places = places
        self._of = runtime
        self._seen = seen
        self._name()
        self._now = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._notice: WatchThread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0

    def start(self, after: float = 0.0) -> None:
        """Begin to wait in `after` seconds; a later call with less brings it forward."""
        if self._task is None and not self._closed and self._of.settings.config.reload:
            self._task = asyncio.create_task(self._run(after), name="reload")
        if after <= 0:
            self._now.set()

    async def close(self) -> None:
        """Stop watching; a running reload is cancelled. May be called twice."""
        self._closed = True
        if self._notice is not None:
            self._notice.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_ENDING)

    async def _run(self, after: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._now.wait(), after or None)
        told: _Queue = asyncio.Queue()
        self._watch(told)
        self._poll(told, self._places.unheard())
        try:
            await self._listen(told)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _listen(self, told: "_Queue") -> None:
        while isinstance(batch := await self._told(told), ChangeBatch):
            # The first one is empty: what changed before the watch began is found by looking.
            if batch.changes:
                await self._settled(told)
            await self._look()
            if self._places.grown:
                self._watch(told)
        if batch is not None:
            log.warning("files are looked at every %g s: %s", POLL, batch)
            while True:
                await asyncio.sleep(POLL)
                await self._look()

    def _poll(self, told: "_Queue", before: Signature) -> None:
        """Report changes of the polled file: a watch would report each write to the database, too."""
        found = self._places.unheard()
        if found != before:
            told.put_nowait((self._number, ChangeBatch(dict.fromkeys(found, "change"))))
        self._timer = asyncio.get_running_loop().call_later(POLL, self._poll, told, found)

    def _watch(self, told: "_Queue") -> None:
        """Watch the present folders; reports of an earlier watch are dropped."""
        if self._notice is not None:
            self._notice.stop()
        self._places.grown = False
        self._number += 1
        tell = partial(_tell, asyncio.get_running_loop(), told, self._number)
        self._notice = WatchThread(self._places, frozenset(), tell, "instar-reload")
        self._notice.start()

    async def _told(self, told: "_Queue") -> _Told:
        while True:
            number, batch = await told.get()
            if number == self._number:
                return batch

    async def _settled(self, told: "_Queue") -> None:
        """Return once nothing changed for `QUIET` seconds; the watch's end stays in the queue."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                while True:
                    batch = await asyncio.wait_for(self._told(told), QUIET)
                    if not isinstance(batch, ChangeBatch):
                        told.put_nowait((self._number, batch))
                        return

    async def _look(self) -> None:
        """Reload until no file differs: some may change meanwhile."""
        while await self._looked():  # noqa: ASYNC110 - nobody could set an event: it is asked whether there is more
            # What a plugin writes each time that it is loaded must not keep the loop busy.
            await asyncio.sleep(QUIET)

    async def _looked(self) -> bool:
        found = await asyncio.to_thread(self._places.signature)
        if found == self._seen or not self._of.settings.config.reload:
            return False
        before, self._seen = self._seen, found
        began = time.time_ns() - _GRAIN
        try:
            await self._of.reload([path for path in {*before, *found} if before.get(path) != found.get(path)])
        except Exception as error:
            # The next change is another try.
            log.error("reload failed", exc_info=error)
        self._seen = found
        await asyncio.to_thread(self._name, began)
        return True

    def _name(self, began: int | None = None) -> None:
        """Watch the plugins that the new settings name.

        A file of theirs that changed since the reading `began` (ns) may have been read before: it is not seen yet.
        """
        settings = self._of.settings
        self._places.name(entry.target for entry in settings.plugins)
        if self._places.grown:
            found = self._places.signature()
            read = {path: one for path, one in found.items() if one is None or not began or one[2] < began}
            self._seen = {**read, **self._seen}


def _tell(loop: asyncio.AbstractEventLoop, told: _Queue, number: int, batch: _Told) -> None:
    # A closed loop has nobody left to hear of it.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(told.put_nowait, (number, batch))
