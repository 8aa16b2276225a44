"""The ledger: which versions of a workspace's guarded files are accepted, and what a person left of them.

Both are one commit of accepted content (`instar.settings.accepted`) in instar's data, never in the workspace, so that
the last good version of each file is at hand though workspace and git are broken. What differs from it is a
*departure*: reported, and not run until a person accepts it or puts the accepted version back.

The branch ``accepted`` has a commit for each change, the branch ``placed`` the one whose files were laid out in the
workspace last: where they differ a change was cut short (`install`). A commit holds ``accepted/``, and ``left/``: the
files as a person left them. A symbolic link is kept as the file that it leads to, and its text in ``accepted.links/``.

What serves when it is damaged:

1. It is set aside, and what git's HEAD of the workspace holds is accepted (`install.Installer.open`).
2. HEAD cannot be read either, but something says that this is no first sight (`Ledger.is_known`): nothing is accepted,
   so nothing is run, until a person accepts. Files as they stand are accepted by themselves only at first sight.

A file is hashed only when its stat signature, with ctime, is not the one under which it was found good by this process.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.plugin import accepted, git
from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.standing import GuardedFile, Signature, Version

_POLL: Final = 0.01


class WorkspaceBusy(Exception):
    """Another instar, or another task of this one, is at work on the workspace; the text says what to do."""


@contextlib.asynccontextmanager
async def held(folder: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock of `folder`, made if need be; the end of a process lets go of it.

    Waits up to `seconds`, then raises `WorkspaceBusy`. Raises `OSError` where the folder cannot be made or opened.
    """
    deadline = time.monotonic() + seconds
    while (handle := _lock(folder)) is None:
        if time.monotonic() > deadline:
            raise WorkspaceBusy(
                f"another instar has been changing this workspace for more than {seconds:g} s "
                f"(it holds {folder}): wait for it or end it, then try again"
            )
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int | None:
    accepted.make_folder(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who waited for a folder that was removed meanwhile holds nothing.
        if os.path.samestat(os.fstat(handle), os.stat(folder)):  # noqa: PTH116
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


Kind = Literal["changed", "mode", "missing", "new", "link", "special", "unreadable", "installing"]

Versions = Mapping[str, Version | None]
"""A version for each path in the workspace, None for no file."""

Sides = tuple[Mapping[str, Version], Mapping[str, Version]]
"""What is accepted, and what a person left."""

ACCEPTED: Final = "accepted"
PLACED: Final = "placed"
MARK: Final = "instar-epoch"
"""A file in the workspace's git folder with the epoch: it tells a lost ledger from a first sight."""

_LEFT: Final = "left"
_TOLD: Final = "told"
"""An empty file of a commit: git was asked what a person left before instar saw the workspace."""
_LINK: Final = 0o120000
_FILE: Final = 0o100000


class LedgerError(Exception):
    """The ledger cannot be written; the text says where, why and what to do. Nothing was changed."""


class Departure(msgspec.Struct, frozen=True):
    """A guarded file that is not as accepted. `text` is a sentence for people and the model.

    `installing`: an instar is at work on it, or was and died; it is no person's change.
    """

    path: str
    kind: Kind
    text: str


class Ledger:
    """The ledger of the workspace `root`, in the folder `home`. `left` are all files as a person left them.

    `epoch` rises with each change: install, rollback, accept, restore; it is 0 before the first sight. `in_flight` has
    the versions before a change that is not in its place yet. `notices` say what was found broken and what was done.

    One writer at a time: who calls what writes holds the lock of `home` (`held`).
    """

    def __init__(self, home: Path, root: Path) -> None:
        self.home = home
        # Not the folder itself: the database that stands in it locks that for its own files.
        self.lock = home / "change"
        self.root = root.resolve()
        self.kept = accepted.AcceptedContent(home / "accepted.git")
        self.files: Mapping[str, Version] = {}
        self.left: Mapping[str, Version] = {}
        self.is_told = False
        self.epoch = 0
        self.message = ""
        self.in_flight: Versions = {}
        self.notices: list[str] = []
        self._tips = ("", "")
        self._seen: dict[str, tuple[Signature, Version, Departure | None]] = {}

    @property
    def next_epoch(self) -> int:
        """Return the epoch that the next change makes.

        Without a ledger it goes on above the mark's, or, where that is lost as well, at the seconds since 1970.
        """
        return (self.epoch or self._marked() or int(time.time())) + 1

    def notice(self, text: str) -> None:
        """Add a sentence to `notices`, once."""
        if text not in self.notices:
            self.notices.append(text)

    def is_known(self) -> bool:
        """Whether this workspace was seen before, by what is left of the ledger or its mark in the git folder."""
        left = (self.kept.place, self.home / "ledger")
        return any(os.path.lexists(path) for path in left) or self._marked() is not None

    # -- reading ---------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Read what is accepted, where it was moved since; False where nothing ever was.

        Raises `accepted.Damaged`; then what was read before stays.
        """
        tip = self.kept.tip(ACCEPTED)
        try:
            placed = self.kept.tip(PLACED)
        except accepted.Damaged as error:
            self.notice(f"{error}; a change that was cut short has departed")
            placed = tip
        if not tip and self._tips[0]:
            raise accepted.Damaged(f"{self.kept.place} is gone")
        if tip and (tip, placed) != self._tips:
            now = self.kept.read(tip)
            self._take(now, self.kept.read(placed) if placed not in ("", tip) else now)
            self._tips = tip, placed
        return bool(tip)

    def refresh(self) -> None:
        """Read it again if somebody moved it since; what cannot be read is remembered until the next start."""
        try:
            self.load()
        except accepted.Damaged as error:
            self.notice(f"{error}: what was accepted is remembered until instar starts again")

    def _take(self, now: accepted.AcceptedTree, before: accepted.AcceptedTree) -> None:
        files = self._versions(now, ACCEPTED)
        self.left = self._versions(now, _LEFT)
        placed = files if before is now else self._versions(before, ACCEPTED)
        both = files.keys() | placed.keys()
        self.in_flight = {path: placed.get(path) for path in both if placed.get(path) != files.get(path)}
        self.files, self.is_told = files, _TOLD in now.files
        self.epoch, self.message = _epoch(now.message), now.message.partition(" ")[2]

    def _versions(self, commit: accepted.AcceptedTree, side: str) -> dict[str, Version]:
        found = {}
        for name, entry in commit.files.items():
            top, _, path = name.partition("/")
            if top != side:
                continue
            linked = commit.files.get(f"{side}.links/{path}")
            link = None if linked is None else os.fsdecode(self.kept.content(linked.blob) or b"")
            found[path] = Version(entry.blob, entry.mode & 0o777, link)
        return found

    def around(self, epoch: int) -> tuple[Sides, Sides] | None:
        """Return what was accepted, and left, before the change of this epoch and after it; None: it is not known.

        Raises `accepted.Damaged`.
        """
        after = None
        for commit, message in self.kept.commits(ACCEPTED):
            here = _epoch(message)
            if here < epoch:
                return None if after is None else (self._sides(commit), self._sides(after))
            after = commit if here == epoch and after is None else after
        return None

    def _sides(self, commit: str) -> Sides:
        tree = self.kept.read(commit)
        return self._versions(tree, ACCEPTED), self._versions(tree, _LEFT)

    def good(self, path: str) -> bytes | None:
        """Return the accepted content of a file. None where the file is not accepted, or no copy of it is left."""
        version = self.files.get(path)
        return None if version is None else self.content(path, version)

    def content(self, path: str, version: Version) -> bytes | None:
        """Return the content of a version, also from the workspace if it still stands there; None: no copy is left."""
        kept = self.kept.content(version.blob)
        if kept is None:
            with contextlib.suppress(OSError, standing.NotPlain):
                found = standing.read(self.root, path, keep=True, follow=version.link is not None)
                kept = found.data if found.blob == version.blob else None
        return kept

    # -- writing ---------------------------------------------------------------------------------------

    def keep(self, data: bytes, mode: int, link: str | None = None, *, durable: bool = True) -> Version:
        """Keep a content and return it as a version. Raises `LedgerError`."""
        with self._explained():
            blob = self.kept.put(data, durable=durable)
        return Version(blob, standing.plain_mode(mode), link)

    def stand(self, path: str, *, durable: bool = True) -> Version | None:
        """Return the version that stands in the workspace now, which is kept; None where nothing does.

        Raises `standing.NotPlain` and `OSError`.
        """
        if not os.path.lexists(self.root / path):
            return None
        link = self._target(path)
        found = standing.read(self.root, path, keep=True, follow=link is not None)
        if found.mode & 0o7000:
            raise standing.NotPlain(f"it has the mode {found.mode:o}: take the set-id bits away")
        return self.keep(found.data or b"", found.mode, link, durable=durable)

    def record(
        self,
        message: str,
        changes: Versions,
        left: Versions | None = None,
        *,
        before: Versions | None = None,
        epoch: int | None = None,
        durable: bool = True,
    ) -> None:
        """Accept these versions, which were kept, as the next epoch: from here on the change is decided.

        `left`: what a person left changes too. `before`: what stands at these paths, where that is not the accepted
        version; until `placed` says otherwise it is to be replaced. Raises `LedgerError`.
        """
        files = _merged(self.files, changes)
        mine = _merged(self.left, left or {})
        epoch = self.next_epoch if epoch is None else epoch
        with self._explained():
            if before is not None:
                stood = self._entries(_merged(self.files, before), mine)
                self.kept.commit(PLACED, stood, f"@{self.epoch} what stood", parent=self._tips[0])
            tip = self.kept.commit(
                ACCEPTED,
                self._entries(files, mine),
                f"@{epoch} {message}",
                parent=self._tips[0],
                durable=durable,
            )
        was = self.files if before is None else _merged(self.files, before)
        self.in_flight = {path: was.get(path) for path in changes}
        self.files, self.left, self.epoch, self.message = files, mine, epoch, message
        self._tips = tip, self._tips[1]
        self._mark(epoch)

    def settled(self) -> None:
        """Say that what is accepted stands in the workspace."""
        self.in_flight = {}
        # Else the next start says so: it finds everything in its place.
        with contextlib.suppress(OSError):
            self.kept.point(PLACED, self._tips[0])
            self._tips = self._tips[0], self._tips[0]

    def leave(self, left: Versions, *, told: bool) -> None:
        """Let a person have left these versions, which were kept. `told`: git was asked. Raises `LedgerError`."""
        self.is_told = told
        flight = self.in_flight
        self.record(self.message, {}, left, epoch=self.epoch)
        self.in_flight = flight
        if not flight:
            self.settled()

    def first_sight(self) -> None:
        """Accept what stands, since nothing says that anything else was ever accepted. Raises `LedgerError`."""
        files = dict[str, Version]()
        for path, at in standing.scan(self.root).items():
            try:
                version = self.stand(path, durable=False) if at.kind in ("file", "link") else None
            except (OSError, standing.NotPlain) as error:
                self.notice(f"{path} is not accepted: {error}")
                continue
            if version is not None:
                files[path] = version
        self.begin(files, files, "first sight", 1)

    def begin(self, files: Mapping[str, Version], left: Versions, message: str, epoch: int) -> None:
        """Accept these versions, which were kept, where there is no ledger. Raises `LedgerError`."""
        self.files, self.left, self._tips, self.is_told = {}, {}, ("", ""), False
        self.record(message, files, left, epoch=epoch, durable=False)
        self.settled()

    def _entries(
        self, files: Mapping[str, Version], left: Mapping[str, Version]
    ) -> dict[str, accepted.AcceptedFile]:
        found = dict[str, accepted.AcceptedFile]()
        for side, versions in ((ACCEPTED, files), (_LEFT, left)):
            for path, one in versions.items():
                found[f"{side}/{path}"] = accepted.AcceptedFile(_FILE | one.mode, one.blob)
                if one.link is not None:
                    text = self.kept.put(os.fsencode(one.link))
                    found[f"{side}.links/{path}"] = accepted.AcceptedFile(_LINK, text)
        if self.is_told:
            found[_TOLD] = accepted.AcceptedFile(_FILE | 0o644, self.kept.put(b""))
        return found

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerError(
                f"{self.kept.place} cannot be written: {error.strerror or error}; make room or mend its permissions"
            ) from None

    def _marked(self) -> int | None:
        # Also in a git folder that has lost its HEAD, and is none to git.
        folder = git.git_folder(self.root) or self.root / ".git"
        if not os.path.lexists(folder / MARK):
            return None
        try:
            return abs(int((standing.read(folder, MARK, keep=True).data or b"")[:15]))
        except (OSError, ValueError, standing.NotPlain):
            return int(time.time())

    def _mark(self, epoch: int) -> None:
        folder = git.git_folder(self.root)
        # Only a hint for the day on which the ledger is lost: a git folder that cannot be written costs nothing now.
        with contextlib.suppress(OSError):
            if folder is not None:
                accepted.replace(folder / MARK, f"{epoch}\n".encode(), durable=False)

    # -- departures ------------------------------------------------------------------------------------

    def check(self) -> list[Departure]:
        """Return what is not as accepted, in order of the paths. What cannot be looked at has departed.

        2,000 files take some 10 ms where nothing was touched since the last check.
        """
        self.refresh()
        files, found = self.files, []
        here = standing.scan(self.root)
        for path, at in here.items():
            version, seen = files.get(path), self._seen.get(path)
            if seen is not None and seen[0] == at.signature and seen[1] == version:
                departure = seen[2]
            else:
                departure = self._look(path, at, version)
            if departure is not None:
                found.append(departure)
        found += [_departed(path, "missing", "is gone") for path in files.keys() - here.keys()]
        return sorted(map(self._excused, found), key=lambda one: one.path)

    def _target(self, path: str) -> str | None:
        try:
            return str((self.root / path).readlink())
        except OSError:
            return None

    def _look(self, path: str, at: GuardedFile, version: Version | None) -> Departure | None:
        if version is None:
            kind: Kind = "new" if at.kind in ("file", "link") else "special"
            return _departed(path, kind, "is new" if kind == "new" else f"cannot be used: {at.kind}")
        differs = self._compare(path, at, version)
        departure = None if differs is None else _departed(path, *differs)
        if at.kind == "file":
            self._remember(path, at.signature, version, departure)
        return departure

    def _remember(
        self, path: str, signature: Signature, version: Version, departure: Departure | None
    ) -> None:
        if standing.settled(signature):
            self._seen[path] = (signature, version, departure)

    def _compare(self, path: str, at: GuardedFile, version: Version) -> tuple[Kind, str] | None:
        """Return how what stands differs from a version; None where it does not."""
        if at.kind not in ("file", "link"):
            return "special", f"cannot be used: {at.kind}; the accepted version serves"
        if (at.kind == "link") != (version.link is not None):
            now = "a symbolic link" if at.kind == "link" else "a file; a symbolic link was accepted"
            return "link", f"became {now}"
        if at.kind == "link" and self._target(path) != version.link:
            return "link", f"leads elsewhere than to {version.link}"
        try:
            found = standing.read(self.root, path, follow=at.kind == "link")
        except FileNotFoundError:
            return "missing", "is gone"
        except OSError as error:
            return "unreadable", f"cannot be read ({error.strerror})"
        except standing.NotPlain as error:
            return "special", f"cannot be used: {error}; the accepted version serves"
        if found.blob != version.blob:
            return "changed", "was changed"
        if not version.same_mode(found.mode):
            return "mode", f"has the mode {found.mode:o} and had {version.mode:o}"
        return None

    def _excused(self, one: Departure) -> Departure:
        """Say of what a change is at work on that it is no person's departure."""
        is_old = one.path in self.in_flight and standing.stands(self.root, one.path, self.in_flight[one.path])
        if not is_old and not (one.kind == "new" and standing.is_beside(one.path)):
            return one
        return Departure(
            one.path, "installing", f"{one.path} is being changed by instar; the new version serves"
        )


def _epoch(message: str) -> int:
    return int(message[1:].partition(" ")[0])


def _merged(files: Mapping[str, Version], changes: Versions) -> dict[str, Version]:
    both = {**files, **changes}
    return {path: version for path, version in both.items() if version is not None}


def _departed(path: str, kind: Kind, what: str) -> Departure:
    if kind == "special":  # no order of a person's can accept it as it is
        return Departure(path, kind, f"{path} {what}")
    serves = "it is not used" if kind == "new" else "the accepted version serves"
    return Departure(
        path, kind, f"{path} {what}, behind the gate: {serves} until `instar evolve accept {path}`"
    )
