"""The ledger's file: read with a fallback to the generation before it, written whole, and remembered in memory.

It stands in instar's data, never in the workspace. What was found broken is told in `notices`, a sentence each.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import git
from instar.plugins.evolve.ledger import journal, sealed, standing, vault
from instar.plugins.evolve.ledger.standing import Signature, Version

FILE: Final = "ledger"
PREVIOUS: Final = "ledger.previous"
MARK: Final = "instar-epoch"
"""A file in the workspace's git folder with the epoch: it tells a lost ledger from a first sight."""


class LedgerError(Exception):
    """The ledger cannot be written; the text says where, why and what to do. Nothing was changed."""


class _Page(msgspec.Struct, frozen=True):
    serial: int
    epoch: int
    files: dict[str, Version]


class VersionBook:
    """The accepted versions of the workspace `root`, in the folder `home`. One writer at a time."""

    def __init__(self, home: Path, root: Path) -> None:
        self.home = home
        self.notices: list[str] = []
        self._root = root
        self._page: _Page | None = None
        self._read: Signature | None = None

    @property
    def files(self) -> Mapping[str, Version]:
        """Return what is accepted, by path in the workspace."""
        return self._page.files if self._page is not None else {}

    @property
    def epoch(self) -> int:
        """Return the epoch, 0 before the first sight."""
        return self._page.epoch if self._page is not None else 0

    @property
    def next_epoch(self) -> int:
        """Return the epoch that the next change makes.

        Without a ledger it goes on above the mark's, or, where that is lost as well, at the seconds since 1970.
        """
        return (self.epoch or self._marked() or int(time.time())) + 1

    @property
    def is_stale(self) -> bool:
        """Whether the file is not the one that was last read or written."""
        return _signature(self.home / FILE) != self._read

    def is_known(self) -> bool:
        """Whether this workspace was seen before, by what is left of the ledger or its mark in the git folder."""
        left = (FILE, PREVIOUS, journal.FILE, "objects")
        return any(os.path.lexists(self.home / name) for name in left) or self._marked() is not None

    def load(self) -> bool:
        """Read the files, the older generation where need be, else keep what is in memory; whether there is any."""
        self.settle_home()
        for name in (FILE, PREVIOUS):
            page = self._read_page(name)
            if page is not None and (self._page is None or page.serial >= self._page.serial):
                self._take(page, older=name == PREVIOUS)
                return True
        if self._page is not None:
            self.notice(f"{self.home / FILE} was lost while instar ran: it was written again from memory")
            self._write_again()
        return self._page is not None

    def save(self, files: dict[str, Version], epoch: int) -> None:
        """Replace the file, keeping its present generation, durably. Raises `LedgerError`."""
        path = self.home / FILE
        page = _Page(self._page.serial + 1 if self._page is not None else 1, epoch, files)
        with explained(self.home):
            vault.make_folder(self.home)
            if self._read is not None and _signature(path) == self._read:
                _keep_previous(path, self.home / PREVIOUS)
            sealed.write(path, page)
            self._read = _signature(path)
            self._page = page
        self._mark(epoch)

    def settle_home(self) -> None:
        """Put aside what stands in the place of the ledger's folder and is none."""
        with contextlib.suppress(OSError):
            if self.home.is_symlink() or (self.home.exists() and not self.home.is_dir()):
                self.notice(f"{self.home} was no folder: it stands as {vault.put_aside(self.home)} now")

    def notice(self, text: str) -> None:
        """Add a sentence to `notices`, once."""
        if text not in self.notices:
            self.notices.append(text)

    def _read_page(self, name: str) -> _Page | None:
        path = self.home / name
        try:
            page = sealed.read(path, _Page)
        except sealed.Broken as error:
            self.notice(str(error))
            return None
        if name == FILE and page is not None:
            self._read = _signature(path)
        return page

    def _take(self, page: _Page, *, older: bool) -> None:
        mine = self.files
        # The same objects for the same versions: what was found good need not be hashed again.
        files = {
            path: mine[path] if mine.get(path) == version else version for path, version in page.files.items()
        }
        self._page = _Page(page.serial, page.epoch, files)
        if older:
            self.notice(
                f"{self.home / FILE} could not be used: the generation before it serves, and what was accepted "
                "last has departed"
            )
            # Above every epoch that anybody can have seen.
            self._page = _Page(page.serial + 2, page.epoch + 2, files)
            self._write_again()

    def _write_again(self) -> None:
        try:
            self.save(dict(self.files), self.epoch)
        except LedgerError as error:
            self.notice(str(error))

    def _marked(self) -> int | None:
        folder = git.git_folder(self._root)
        if folder is None or not os.path.lexists(folder / MARK):
            return None
        try:
            return abs(int((standing.read(folder, MARK, keep=True).data or b"")[:15]))
        except (OSError, ValueError, standing.NotPlain):
            return int(time.time())

    def _mark(self, epoch: int) -> None:
        folder = git.git_folder(self._root)
        # Only a hint for the day on which the ledger is lost: a git folder that cannot be written costs nothing now.
        with contextlib.suppress(OSError):
            if folder is not None:
                vault.replace(folder / MARK, f"{epoch}\n".encode(), durable=False)


@contextlib.contextmanager
def explained(home: Path) -> Iterator[None]:
    """Make a failure to write in `home` a `LedgerError`."""
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"the ledger in {home} cannot be written: {error.strerror or error}; make room or mend its permissions"
        ) from None


def _keep_previous(path: Path, previous: Path) -> None:
    """Make the present ledger the previous one; at no moment is there none."""
    beside = previous.with_name(f".{previous.name}.new")
    beside.unlink(missing_ok=True)
    beside.hardlink_to(path)
    if previous.is_dir() and not previous.is_symlink():
        vault.put_aside(previous)
    beside.replace(previous)


def _signature(path: Path) -> Signature | None:
    try:
        info = path.lstat()
    except OSError:
        return None
    # Another link to the file, as `_keep_previous` makes one, changes its ctime and nothing else.
    return (*standing.sign(info)[:4], 0)
