"""One change of guarded files, carried to its end or taken back, whatever ended the process in between.

The order: journal entry, each file written beside its place and synced, renamed, the folder synced, the git commit,
the ledger with the next epoch, the journal cleared. `recover` ends what a crash cut short: forward if git's HEAD holds
the new version, or every file is in place and the commit can be made; else back to the bytes and modes before. What
somebody changed in the meantime is left as it stands. A crash in `recover` is recovered in the same way.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

import msgspec

from instar.plugins.evolve.ledger import place, sealed
from instar.plugins.evolve.ledger.journal import JournalEntry, JournalPiece, Kind
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.repository import WorkspaceRepository
from instar.plugins.evolve.ledger.standing import Version

BEGUN: Final = "begun"
KEPT: Final = "kept"
JOURNALED: Final = "journaled"
BESIDE: Final = "beside"
PLACED: Final = "placed"
COMMITTED: Final = "committed"
RECORDED: Final = "recorded"
ENDED: Final = "ended"
BACK: Final = "back"
SETTLED: Final = "settled"
STEPS: Final = (BEGUN, KEPT, JOURNALED, BESIDE, PLACED, COMMITTED, RECORDED, ENDED)
"""The steps of a change, each named when it is done; `PLACED` once a file.

`recover` has two of its own: `BACK` once a file that it took back, `SETTLED` when git agrees with what it finished.
"""

Commit = Callable[[Collection[str], str], Awaitable[object | None]]
"""Commits just these paths as they stand, with this message; None where git failed or nothing differs.

It may be called again for a change whose commit was cut short. What it raises leaves the change to `Installer.open`.
"""


class ChangeRefused(Exception):
    """A change that is not made; the text says why and what to do. The workspace is as it was."""


class Changed(msgspec.Struct, frozen=True):
    """A change that was made: its epoch, its files, and what `Commit` gave (None: git failed, or nothing differs)."""

    epoch: int
    files: list[str]
    commit: object | None


class Transaction:
    """Carries the changes of one ledger's workspace. Who calls it holds the ledger's lock.

    `step` is told each of `STEPS` as it is done.
    """

    def __init__(
        self,
        ledger: Ledger,
        repository: WorkspaceRepository,
        commit: Commit,
        step: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._ledger = ledger
        self._repository = repository
        self._commit = commit
        self._step = step

    async def begin(self) -> None:
        """Make sure that no other change is unfinished. Raises `ChangeRefused`."""
        if not await self.recover():
            raise ChangeRefused(
                "a change that was cut short is not ended yet: its git still runs; try again later"
            )
        self._step(BEGUN)

    async def carry(self, kind: Kind, pieces: list[JournalPiece], message: str) -> Changed:
        """Make the change; its contents stand in the vault. Raises `ChangeRefused`, `LedgerError`, and what `Commit`
        does.
        """
        if not pieces:
            raise ChangeRefused("there is nothing to change: every file is so already")
        self._step(KEPT)
        made = place.missing(self._ledger.root, [piece.path for piece in pieces])
        entry = JournalEntry(kind, self._ledger.next_epoch, pieces, message, int(time.time() * 1000), made)
        try:
            await asyncio.to_thread(self._place, entry)
        except (OSError, ChangeRefused) as error:
            await self._back(entry)
            raise ChangeRefused(
                f"{', '.join(entry.paths)} could not be written: {error}; all is as it was"
            ) from None
        commit = await self._commit(entry.paths, message)
        self._step(COMMITTED)
        self._end(entry)
        return Changed(self._ledger.epoch, entry.paths, commit)

    def _place(self, entry: JournalEntry) -> None:
        """Journal the change and bring its files into place. Raises `OSError`."""
        self._ledger.journal.write(entry)
        self._step(JOURNALED)
        if entry.kind == "accept":
            return
        for piece in entry.pieces:
            if piece.new is not None:
                place.write(self._ledger.root, piece, self._kept(piece.path, piece.new))
        self._step(BESIDE)
        for piece in entry.pieces:
            place.swap(self._ledger.root, piece)
            self._step(PLACED)

    def _kept(self, path: str, version: Version) -> bytes:
        data = self._ledger.vault.get(version.sha)
        if data is None:
            raise ChangeRefused(f"the content of {path} was lost from {self._ledger.home}")
        return data

    def _end(self, entry: JournalEntry) -> None:
        """Accept the new versions with the entry's epoch, or the next one where another has it; clear the journal."""
        self._ledger.record(
            {piece.path: piece.new for piece in entry.pieces}, max(entry.epoch, self._ledger.epoch + 1)
        )
        self._step(RECORDED)
        with contextlib.suppress(OSError):  # it says what is recorded, and the next start clears it
            self._ledger.journal.clear()
        self._step(ENDED)

    async def recover(self) -> bool:
        """End the change that the journal holds, if it holds one; False while a git of it still runs."""
        try:
            entry = self._ledger.journal.read()
        except sealed.Broken as error:
            aside = self._ledger.journal.put_aside()
            self._ledger.notice(f"{error}; it stands as {aside} now, and what it was about has departed")
            return True
        if entry is None:
            return True
        if not await self._repository.unlock(entry.time / 1000):
            self._ledger.notice(
                f"the change of {', '.join(entry.paths)} is not ended yet: its git still runs"
            )
            return False
        forward = await self._goes_forward(entry)
        try:
            await (self._forward(entry) if forward else self._back(entry))
        except (OSError, ChangeRefused):
            if not forward:
                raise
            forward = False
            await self._back(entry)
        done = "finished" if forward else "taken back"
        self._ledger.notice(
            f"the {entry.kind} of {', '.join(entry.paths)} that was cut short has been {done}"
        )
        return True

    async def _goes_forward(self, entry: JournalEntry) -> bool:
        if entry.kind == "restore" or self._is_recorded(entry):
            return True
        placed = [piece.path for piece in entry.pieces if self._is_at(piece.path, piece.new)]
        if await self._holds(entry, placed):
            return True
        if len(placed) < len(entry.pieces):
            return entry.kind == "accept"
        await self._commit(entry.paths, entry.message)
        return entry.kind == "accept" or await self._holds(entry, placed)

    async def _forward(self, entry: JournalEntry) -> None:
        if entry.kind == "restore":
            await self._fetch(entry, [piece.new for piece in entry.pieces])
            await asyncio.to_thread(self._place, entry)
            await self._commit(entry.paths, entry.message)
        self._tidy(entry)
        await self._repository.settle(entry.paths)
        self._step(SETTLED)
        if self._is_recorded(entry) and entry.epoch <= self._ledger.epoch:
            self._ledger.journal.clear()
        else:
            self._end(entry)

    async def _back(self, entry: JournalEntry) -> None:
        """Put the old versions back where the new ones stand, and clear the journal. Raises `OSError`."""
        await self._fetch(entry, [piece.old for piece in entry.pieces])
        for piece in entry.pieces if entry.kind != "accept" else []:
            if not self._is_at(piece.path, piece.new) or self._is_at(piece.path, piece.old):
                continue
            data = self._ledger.vault.get(piece.old.sha) if piece.old is not None else b""
            if data is None:
                self._ledger.notice(
                    f"{piece.path}: no copy of the version before is left, so it stays as it stands"
                )
                continue
            await asyncio.to_thread(
                place.put, self._ledger.root, JournalPiece(piece.path, piece.new, piece.old), data
            )
            self._step(BACK)
        self._tidy(entry)
        fresh = [piece.path for piece in entry.pieces if piece.old is None]
        if fresh:
            await self._repository.settle(fresh)
        self._ledger.journal.clear()

    def _tidy(self, entry: JournalEntry) -> None:
        for piece in entry.pieces:
            place.clear(self._ledger.root, piece.beside)
        place.remove_empty(self._ledger.root, entry.made)

    async def _holds(self, entry: JournalEntry, placed: Collection[str]) -> bool:
        wanted = dict[str, tuple[bytes, int] | None]()
        for piece in entry.pieces:
            data = self._ledger.vault.get(piece.new.sha) if piece.new is not None else None
            wanted[piece.path] = (data or b"", piece.new.mode) if piece.new is not None else None
        return await self._repository.holds(wanted, placed)

    def _is_recorded(self, entry: JournalEntry) -> bool:
        return all(self._ledger.files.get(piece.path) == piece.new for piece in entry.pieces)

    def _is_at(self, path: str, version: Version | None) -> bool:
        """Whether this version stands in the workspace."""
        return place.stands(self._ledger.root, path, version)

    async def _fetch(self, entry: JournalEntry, versions: Iterable[Version | None]) -> None:
        """Have the contents of these versions in the vault, from wherever a copy is left."""
        for path, version in zip(entry.paths, versions, strict=True):
            if version is not None and self._ledger.vault.get(version.sha) is None:
                await self._content(path, version)

    async def _content(self, path: str, version: Version) -> bytes | None:
        return await find(self._ledger, self._repository, path, version)


async def find(ledger: Ledger, repository: WorkspaceRepository, path: str, version: Version) -> bytes | None:
    """Return the content of a version of `path` from the vault, the workspace or git's history; None: nowhere.

    What was found elsewhere is kept in the vault again.
    """
    data = ledger.vault.get(version.sha)
    if data is None:
        data = place.read(ledger.root, path, version)
        if data is None:
            data = await repository.content(path, version.sha)
        if data is None:
            return None
        with contextlib.suppress(OSError):  # it is found again the next time
            ledger.vault.put(data)
    return data
