"""The journal: what a change is about to do to the workspace, written before it does.

One file in the ledger's folder. As long as it stands, a change has begun and has not ended; `install` finishes it or
takes it back after a crash: one of the two commits, never a state between.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.plugins.evolve.ledger import sealed, vault
from instar.plugins.evolve.ledger.standing import Signature, Version, sign

FILE: Final = "journal"

Kind = Literal["install", "rollback", "restore", "accept"]
"""What a change is. `restore` puts the accepted version back, `accept` takes what stands; both go only forward."""


class JournalPiece(msgspec.Struct, frozen=True):
    """One file of a change: its version before and after, None where it does not exist."""

    path: str
    old: Version | None
    new: Version | None

    @property
    def beside(self) -> str:
        """Return the path under which the new content is written first, in the same folder."""
        folder, _, name = self.path.rpartition("/")
        return f"{folder}/.{name[:200]}.instar"


class JournalEntry(msgspec.Struct, frozen=True):
    """A change: the epoch that it makes, its files, its commit's message.

    `time` in ms since 1970. `made` are folders that it makes. The contents of its versions stand in the vault.
    """

    kind: Kind
    epoch: int
    pieces: list[JournalPiece]
    message: str
    time: int
    made: list[str] = []

    @property
    def paths(self) -> list[str]:
        """Return the files that it changes."""
        return [piece.path for piece in self.pieces]


class Journal:
    """The journal in the ledger's folder `home`."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._seen: tuple[Signature, JournalEntry] | None = None

    def write(self, entry: JournalEntry) -> None:
        """Write the entry durably. Raises `OSError`."""
        sealed.write(self._path, entry)

    def read(self) -> JournalEntry | None:
        """Return the change that has begun, None where none has. Raises `sealed.Broken`."""
        try:
            signature = sign(self._path.lstat())
        except OSError:
            return None
        if self._seen is None or self._seen[0] != signature:
            entry = sealed.read(self._path, JournalEntry)
            self._seen = (signature, entry) if entry is not None else None
        return self._seen[1] if self._seen is not None else None

    def clear(self) -> None:
        """Say that the change has ended. Raises `OSError`."""
        vault.remove(self._path)

    def put_aside(self) -> Path:
        """Keep a journal that cannot be read under another name, and return that. Raises `OSError`."""
        return vault.put_aside(self._path)
