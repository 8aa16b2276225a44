"""Being told by the kernel: a thread that waits for changes below a folder, and looks what they were.

``watchfiles`` is given each folder by itself and never told to descend: it would follow links out of the
folder, and into what nobody wants to hear of.
"""

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from instar.watch.tree import Changes, collapse

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

MOST_AT_ONCE: Final = 1_000
"""Changes that are told file by file; more at once are told by folder."""
STEP: Final = 50
"""Milliseconds without a change after which what came is told, and within which the thread hears its end."""
LONGEST: Final = 1_000
"""Milliseconds for which changes are gathered at most."""
_TRIES: Final = 5


class Batch(msgspec.Struct, frozen=True):
    """What happened since the last one: files, and whether one of the watched marks (a ``HEAD``) changed."""

    changes: Changes
    marked: bool = False


class Unwatched(Exception):
    """A folder is not watched, or no longer; the text says why and what to do."""


class Watched(Protocol):
    """What is watched: its `folders`, and what happened there (`Tree`). `root` is the folder without which it ends."""

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


class Notice(threading.Thread):
    """Watches `tree`, and the files `marks`, until `stop`; `tell` is called in this thread with each batch.

    The first batch is empty: what happens from then on is heard. The last one told is an `Unwatched` when
    the watch ended by itself, else None.
    """

    def __init__(
        self,
        tree: Watched,
        marks: frozenset[str],
        tell: Callable[[Batch | Unwatched | None], None],
        name: str = "instar-watch",
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._tree = tree
        self._marks = marks
        self._tell = tell
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
        except Exception as error:  # the program goes on without being told
            end = Unwatched(f"{type(error).__name__}: {error}")
        self._tell(end)

    def _watch(self) -> None:
        notify, _ = self._open()
        try:
            self._tell(Batch({}))
            while isinstance(found := notify.watch(LONGEST, STEP, 0, self._stopping), set):
                batch, grown = self._look(found)
                if grown:
                    old, (notify, more) = notify, self._open()
                    batch = self._joined(batch, more, self._rest(old))
                if batch.changes or batch.marked:
                    self._tell(batch)
                if not os.path.isdir(self._tree.root):  # noqa: PTH112
                    raise Unwatched(f"{self._tree.root} is gone")
        finally:
            notify.close()

    def _look(self, found: "set[tuple[int, str]]") -> tuple[Batch, bool]:
        paths = {path for _, path in found}
        changes, grown = self._tree.settle(paths)
        return Batch(
            collapse(changes, self._tree.root, MOST_AT_ONCE), not self._marks.isdisjoint(paths)
        ), grown

    def _joined(self, *batches: Batch) -> Batch:
        changes: Changes = {}
        for batch in batches:
            changes.update(batch.changes)
        whole = collapse(changes, self._tree.root, MOST_AT_ONCE)
        return Batch(whole, any(batch.marked for batch in batches))

    def _rest(self, old: "RustNotify") -> Batch:
        """What a watch that was replaced still had to say."""
        found = old.watch(1, 1, 1, None)
        old.close()
        return self._look(found)[0] if isinstance(found, set) else Batch({})

    def _open(self) -> "tuple[RustNotify, Batch]":
        """Watch every folder that there is now, and return what came and went until then."""
        # 15 ms and 3 MB: paid only where somebody listens, and in this thread.
        from watchfiles._rust_notify import RustNotify

        homes = sorted({os.path.dirname(mark) for mark in self._marks})  # noqa: PTH120
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
                return notify, Batch(changes)
            notify.close()
        raise Unwatched("its folders come and go faster than they can be watched")


def _advice(error: OSError) -> str:
    return (
        f"{error}; a limit of the system's may be reached (on Linux: fs.inotify.max_user_watches and"
        " max_user_instances). Raise it, or name large folders under `watcher.ignore`"
    )
