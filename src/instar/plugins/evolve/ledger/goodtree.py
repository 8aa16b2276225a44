"""The last good tree: a folder with the accepted versions, where scripts run while the workspace has departed.

It holds the guarded folders with accepted contents and modes. Every other top-level entry of the workspace is a link
into it, so that ``state/`` and ``notes/`` work, and what a script makes beside the links is moved there (`gather`);
``.git`` is not there. While anything guarded has departed all scripts
run from here, not just the departed one: a script may import, read or start any file beside it.
"""
# ruff: noqa: PTH105

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import accepted, sandbox
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.install import find
from instar.plugins.evolve.ledger.ledger import Departure, Ledger
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.workspace import FOLDERS, SCRIPTS_OWN

log = logging.getLogger("instar.evolve")

_ATTEMPTS: Final = 3


class NotServed(Exception):
    """The last good tree cannot be made; the text says why and what to do. Nothing may be run."""


class Served(msgspec.Struct, frozen=True):
    """Where scripts run now: in `root`, of which only `files` (paths in it) may be run or read as prompts.

    `departures` is why it is the last good tree, empty where `root` is the workspace. `lost` are accepted files of
    which no copy is left.
    """

    root: Path
    files: frozenset[str]
    departures: list[Departure]
    lost: list[str] = []


class GoodTree:
    """The last good tree of a ledger's workspace, in the folder `place`, which is wholly its own."""

    def __init__(self, ledger: Ledger, repository: WorkspaceRepository, place: Path) -> None:
        self._ledger = ledger
        self._repository = repository
        self._place = place

    async def serve(self) -> Served:
        """Check the workspace and return where scripts run: there if all is as accepted, else in the last good tree.

        Raises `NotServed`.
        """
        departures = self._ledger.check()
        files = self._ledger.files
        if not departures:
            return Served(self._ledger.root, frozenset(files), [])
        return msgspec.structs.replace(await self.make(files), departures=departures)

    async def make(self, files: Mapping[str, Version]) -> Served:
        """Put these versions into the tree, where they are not there, and return where they are. Raises `NotServed`."""
        for attempt in range(_ATTEMPTS):
            try:
                lost = await self._make(dict(files))
                break
            except OSError as error:
                # Another instar may be making the same tree.
                if attempt + 1 == _ATTEMPTS:
                    raise NotServed(
                        f"the tree {self._place} cannot be made: {error}; make room or mend its permissions"
                    ) from None
        return Served(self._place, frozenset(files.keys() - set(lost)), [], lost)

    def gather(self) -> None:
        """Move what scripts made here beside the guarded folders into the workspace, where they meant it to be.

        A script that writes beside a file and renames puts its own where a link was. What cannot be moved stays.
        """
        with contextlib.suppress(FileNotFoundError):
            for name in _names(self._place) - {*FOLDERS, ".git"}:
                if self._leads(name):
                    continue
                try:
                    _move(self._place / name, self._ledger.root / name)
                except OSError as error:
                    log.warning("evolve=goodtree unmoved=%s problem=%r", self._place / name, str(error))

    async def _make(self, wanted: dict[str, Version]) -> list[str]:
        """Make the tree, checking what stands there by hash; return the files of which no copy is left."""
        lost = []
        for path in await asyncio.to_thread(self._prepare, wanted):
            data = await find(self._ledger, self._repository, path, wanted[path])
            if data is None:
                lost.append(path)
                _remove(self._place / path)
            else:
                self._write(path, wanted[path], data)
        return lost

    def _prepare(self, wanted: dict[str, Version]) -> list[str]:
        """Make the folders and links, remove what does not belong, and return the files that are not as wanted."""
        accepted.make_folder(self._place.parent)
        _solid(self._place)
        for folder in FOLDERS:
            _solid(self._place / folder)
        self._link()
        here = standing.scan(self._place, caches=True)
        for path in here.keys() - wanted.keys():
            _remove(self._place / path)
        if not here.keys().isdisjoint(FOLDERS):  # not listed to the end
            return self._prepare(wanted)
        return [path for path, version in wanted.items() if not self._is_good(path, version, here.get(path))]

    def _is_good(self, path: str, version: Version, at: standing.GuardedFile | None) -> bool:
        if at is None or at.kind != "file":
            return False
        with contextlib.suppress(OSError, standing.NotPlain):
            found = standing.read(self._place, path)
            return found.blob == version.blob and found.mode == version.mode
        return False

    def _write(self, path: str, version: Version, data: bytes) -> None:
        full = self._place / path
        folder = self._place
        for part in Path(path).parts[:-1]:
            folder /= part
            _solid(folder)
        _remove(full)
        beside = full.with_name(f".{full.name[:200]}.{os.getpid()}")
        _remove(beside)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), version.mode)
        os.replace(beside, full)

    def _link(self) -> None:
        """Link the workspace's other top-level entries, and drop links to what is gone.

        What a script made is left, also while another one's call asks for the tree. The folders of the scripts' own are
        there in any case: a held script can make nothing beside the links.
        """
        root = self._ledger.root
        names = set[str]()
        for name in SCRIPTS_OWN:
            with contextlib.suppress(OSError):
                (root / name).mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # a workspace that is gone leaves what was accepted in it
            names = _names(root) - {*FOLDERS, ".git"}
        for name in _names(self._place) - set(FOLDERS):
            if name == ".git" or (name not in names and self._leads(name)):
                _remove(self._place / name)
        for name in names:
            with contextlib.suppress(FileExistsError):
                (self._place / name).symlink_to(root / name)

    def _leads(self, name: str) -> bool:
        """Whether an entry is our link into the workspace."""
        try:
            return os.readlink(self._place / name) == str(self._ledger.root / name)  # noqa: PTH115
        except OSError:
            return False


def _names(folder: Path) -> set[str]:
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries}


def _solid(folder: Path) -> None:
    """Make a folder that can be used; whatever else stands there is removed."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            _remove(folder)
        elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            folder.chmod(0o755)
    folder.mkdir(mode=0o755, exist_ok=True)


def _move(source: Path, target: Path) -> None:
    """Move a file, link or folder; into a folder that stands there already what is in it. Raises `OSError`."""
    if not target.is_dir():
        shutil.move(source, target)
    elif source.is_dir() and not source.is_symlink():
        for entry in list(source.iterdir()):
            _move(entry, target / entry.name)
        source.rmdir()
    else:
        raise IsADirectoryError(errno.EISDIR, "a folder stands there", str(target))


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            sandbox.remove(path)
        else:
            path.unlink()
