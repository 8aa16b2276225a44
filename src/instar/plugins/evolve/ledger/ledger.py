"""The ledger: which versions of a workspace's guarded files are accepted, and their contents.

It stands in instar's data, never in the workspace: the book of accepted versions, the
generation before it, and the contents by hash, so that the last good version of each file is at hand though workspace
and git are broken. What differs from it is a *departure*: reported, and not run until a person accepts it or puts the
accepted version back.

What serves when parts of it are broken, in this order:

1. The book; where it is damaged, the generation before it. A file that was installed in between is a departure then.
2. Both gone or damaged: what git's HEAD holds is accepted (`install.Installer.open`).
3. HEAD cannot be read either, but something says that this is no first sight (`VersionBook.is_known`): nothing is
   accepted, so nothing is run, until a person accepts. Files as they stand are accepted by themselves only at first
   sight.

A file is hashed only when its stat signature, with ctime, is not the one under which it was found good by this process.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from instar.plugins.evolve.ledger import journal, sealed, standing, vault
from instar.plugins.evolve.ledger.book import VersionBook, explained
from instar.plugins.evolve.ledger.standing import GuardedFile, Signature, Version

Kind = Literal["changed", "mode", "missing", "new", "link", "special", "unreadable", "installing"]


class Departure(msgspec.Struct, frozen=True):
    """A guarded file that is not as accepted. `text` is a sentence for people and the model.

    `installing`: an instar is at work on it, or was and died (`transaction`); it is no person's change.
    """

    path: str
    kind: Kind
    text: str


class Ledger:
    """The ledger of the workspace `root`, in the folder `home`.

    One writer at a time: who calls `record`, `first_sight` or `adopt` holds the lock of `home` (`lock.held`).
    """

    def __init__(self, home: Path, root: Path) -> None:
        self.home = home
        self.root = root.resolve()
        self.vault = vault.Vault(home / "objects")
        self.journal = journal.Journal(home)
        self._book = VersionBook(home, self.root)
        self._seen: dict[str, tuple[Signature, Version, Departure | None]] = {}

    @property
    def files(self) -> Mapping[str, Version]:
        """Return what is accepted, by path in the workspace."""
        return self._book.files

    @property
    def epoch(self) -> int:
        """Return the number that rises with each change: install, rollback, accept. 0 before the first sight."""
        return self._book.epoch

    @property
    def next_epoch(self) -> int:
        """Return the epoch that the next change makes."""
        return self._book.next_epoch

    @property
    def notices(self) -> list[str]:
        """Return what was found broken and what was done about it, a sentence each."""
        return self._book.notices

    def notice(self, text: str) -> None:
        """Add a sentence to `notices`."""
        self._book.notice(text)

    def is_known(self) -> bool:
        """Whether this workspace was seen before. Asked before anything is written."""
        self._book.settle_home()
        return self._book.is_known()

    def load(self) -> bool:
        """Read the book, the older generation where need be; whether there is one."""
        found = self._book.load()
        self._fill_vault()
        return found

    def refresh(self) -> None:
        """Read the book again if somebody wrote it since."""
        if self._book.is_stale:
            self.load()

    def check(self) -> list[Departure]:
        """Return what is not as accepted, in order of the paths. What cannot be looked at has departed.

        2,000 files take some 10 ms where nothing was touched since the last check.
        """
        self.refresh()
        files, found = self.files, []
        here = standing.scan(self.root)
        for path, at in here.items():
            accepted, seen = files.get(path), self._seen.get(path)
            if seen is not None and seen[0] == at.signature and seen[1] is accepted:
                departure = seen[2]
            else:
                departure = self._look(path, at, accepted)
            if departure is not None:
                found.append(departure)
        found += [_departed(path, "missing", "is gone") for path in files.keys() - here.keys()]
        flight = self._in_flight() if found else {}
        return sorted(
            (self._excused(one, flight) if one.path in flight else one for one in found),
            key=lambda one: one.path,
        )

    def good(self, path: str) -> bytes | None:
        """Return the accepted content of a file: from the vault, else from the workspace if it is still that.

        None where the file is not accepted, or no copy of it is left.
        """
        accepted = self.files.get(path)
        if accepted is None:
            return None
        kept = self.vault.get(accepted.sha)
        if kept is None:
            found = self._stands(path, accepted, keep=True)
            kept = found.data if found is not None and found.sha == accepted.sha else None
        return kept

    def stand(self, path: str) -> Version | None:
        """Return the version that stands in the workspace now, kept in the vault; None where nothing does.

        Raises `standing.NotPlain` and `OSError`.
        """
        return self._stand(path, durable=True)

    def record(self, changes: Mapping[str, Version | None], epoch: int) -> None:
        """Accept these versions (None: no longer any) and set the epoch, durably. Raises `LedgerError`."""
        files = {**self.files, **{path: version for path, version in changes.items() if version is not None}}
        for path, version in changes.items():
            if version is None:
                files.pop(path, None)
        self._book.save(files, epoch)

    def first_sight(self) -> None:
        """Accept what stands, since nothing says that anything else was ever accepted. Raises `LedgerError`."""
        files = dict[str, Version]()
        for path, at in standing.scan(self.root).items():
            try:
                version = self._stand(path, durable=False) if at.kind in ("file", "link") else None
            except (OSError, standing.NotPlain) as error:
                self.notice(f"{path} is not accepted: {error}")
                continue
            if version is not None:
                files[path] = version
        self._book.save(files, 1)

    def adopt(self, contents: Mapping[str, tuple[bytes, int]]) -> None:
        """Accept these contents with their modes instead of a ledger that was lost. Raises `LedgerError`."""
        files = dict[str, Version]()
        with explained(self.home):
            for path, (data, mode) in contents.items():
                files[path] = Version(self.vault.put(data, durable=False), mode, len(data))
        self._book.save(files, self.next_epoch)

    def _fill_vault(self) -> None:
        """Keep again, from the workspace, what the vault has lost."""
        for path, version in self.files.items():
            if self.vault.holds(version.sha, version.size):
                continue
            found = self._stands(path, version, keep=True)
            if found is not None and found.sha == version.sha:
                with contextlib.suppress(OSError):  # it is tried again at the next start
                    self.vault.put(found.data or b"", durable=False)

    def _stand(self, path: str, *, durable: bool) -> Version | None:
        if not os.path.lexists(self.root / path):
            return None
        link = self._target(path)
        found = standing.read(self.root, path, keep=True, follow=link is not None)
        sha = self.vault.put(found.data or b"", durable=durable)
        return Version(sha, found.mode, found.size, link)

    def _target(self, path: str) -> str | None:
        try:
            return str((self.root / path).readlink())
        except OSError:
            return None

    def _stands(self, path: str, accepted: Version, *, keep: bool = False) -> standing.Content | None:
        try:
            return standing.read(self.root, path, keep=keep, follow=accepted.link is not None)
        except (OSError, standing.NotPlain):
            return None

    def _look(self, path: str, at: GuardedFile, accepted: Version | None) -> Departure | None:
        if accepted is None:
            kind: Kind = "new" if at.kind in ("file", "link") else "special"
            return _departed(path, kind, "is new" if kind == "new" else f"cannot be used: {at.kind}")
        departure = self._compare(path, at, accepted)
        if at.kind == "file" and standing.settled(at.signature):
            self._seen[path] = (at.signature, accepted, departure)
        return departure

    def _compare(self, path: str, at: GuardedFile, accepted: Version) -> Departure | None:
        if at.kind not in ("file", "link"):
            return _departed(path, "special", f"cannot be used: {at.kind}; the accepted version serves")
        if (at.kind == "link") != (accepted.link is not None):
            became = (
                "became a symbolic link"
                if at.kind == "link"
                else "became a file; a symbolic link was accepted"
            )
            return _departed(path, "link", became)
        if at.kind == "link" and self._target(path) != accepted.link:
            return _departed(path, "link", f"leads elsewhere than to {accepted.link}")
        if at.kind == "file" and at.signature[1] != accepted.size:
            return _departed(path, "changed", "was changed")
        try:
            found = standing.read(self.root, path, follow=at.kind == "link")
        except FileNotFoundError:
            return _departed(path, "missing", "is gone")
        except OSError as error:
            return _departed(path, "unreadable", f"cannot be read ({error.strerror})")
        except standing.NotPlain as error:
            return _departed(path, "special", f"cannot be used: {error}; the accepted version serves")
        if found.sha != accepted.sha:
            return _departed(path, "changed", "was changed")
        if not accepted.same_mode(found.mode):
            return _departed(path, "mode", f"has the mode {found.mode:o} and had {accepted.mode:o}")
        return None

    def _in_flight(self) -> dict[str, journal.JournalPiece]:
        """The files of a change that has begun and not ended, with the names beside them."""
        try:
            entry = self.journal.read()
        except sealed.Broken:
            return {}
        pieces = entry.pieces if entry is not None else []
        return {name: piece for piece in pieces for name in (piece.path, piece.beside)}

    def _excused(self, one: Departure, flight: Mapping[str, journal.JournalPiece]) -> Departure:
        piece = flight[one.path]
        if one.path == piece.path and piece.new is not None:
            found = self._stands(piece.path, piece.new)
            if found is None or found.sha != piece.new.sha:
                return one
        elif one.path == piece.path and one.kind != "missing":
            return one
        return Departure(
            one.path, "installing", f"{one.path} is being changed by instar; the version before it serves"
        )


def _departed(path: str, kind: Kind, what: str) -> Departure:
    if kind == "special":  # no order of a person's can accept it as it is
        return Departure(path, kind, f"{path} {what}")
    serves = "it is not used" if kind == "new" else "the accepted version serves"
    return Departure(
        path, kind, f"{path} {what}, behind the gate: {serves} until `instar evolve accept {path}`"
    )
