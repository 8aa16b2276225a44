"""Changing guarded files of a workspace: install, rollback, accept, restore, whatever ends the process in between.

The order: the new contents are kept, each is written beside its place and synced; then the ledger accepts them as the
next epoch, which is one rename and decides the change. From there it only goes forward: each file is renamed into its
place, git's commit is made, and the ledger says that the change is placed. What a crash cut short after the decision is
ended by the next start or change; before it nothing has changed, and what was written beside is removed. What somebody
changed in the meantime is left as it stands. A refusal writes nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from instar.plugin import accepted
from instar.plugins.evolve.history.plumbing import WorkspaceCommit
from instar.plugins.evolve.history.repository import FAILED, WorkspaceRepository, whole
from instar.plugins.evolve.ledger import standing, takeover
from instar.plugins.evolve.ledger.ledger import ACCEPTED, Departure, Ledger, LedgerError, Versions, held
from instar.plugins.evolve.ledger.standing import LARGEST, NotPlain, Version
from instar.plugins.evolve.trial import Changes, TrialFile
from instar.plugins.evolve.workspace import FOLDERS

BEGUN: Final = "begun"
BESIDE: Final = "beside"
DECIDED: Final = "decided"
PLACED: Final = "placed"
COMMITTED: Final = "committed"
ENDED: Final = "ended"
STEPS: Final = (BEGUN, BESIDE, DECIDED, PLACED, COMMITTED, ENDED)
"""The steps of a change, each named when it is done; `PLACED` once a file."""

Commit = Callable[[Collection[str], str], Awaitable[WorkspaceCommit | None]]
"""Commits just these paths as they stand, with this message; None where git failed or nothing differs.

It may be called again for a change whose commit was cut short.
"""


class ChangeRefused(Exception):
    """A change that is not made; the text says why and what to do. The workspace is as it was."""


class Changed(msgspec.Struct, frozen=True):
    """A change that was made: its epoch, its files, and what `Commit` gave (None: git failed, or nothing differs)."""

    epoch: int
    files: list[str]
    commit: WorkspaceCommit | None


class _Piece(NamedTuple):
    """One file of a change: the version that it becomes, None where it is deleted, and its content."""

    path: str
    new: Version | None
    data: bytes


class Installer:
    """Makes the changes of one workspace. `wait`: seconds for another instar's change to end.

    `step` is told each of `STEPS` as it is done.
    """

    def __init__(
        self,
        ledger: Ledger,
        repository: WorkspaceRepository,
        commit: Commit,
        *,
        wait: float = 15.0,
        step: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._ledger = ledger
        self._repository = repository
        self._commit = commit
        self._wait = wait
        self._step = step

    async def open(self) -> list[str]:
        """Load the ledger, or make it, and end a change that a crash cut short; return what was found and done.

        To be called at start, once the workspace is a repository. See `ledger` for what serves when it is damaged.
        Where it cannot be written the last good versions are only read. Raises `ledger.WorkspaceBusy`.
        """
        known = self._ledger.is_known()
        try:
            async with held(self._ledger.lock, self._wait):
                await self._load(known)
                await self._fill()
                await self._recover()
                self._sweep()
        except (OSError, LedgerError) as error:
            self._ledger.notice(str(error))
            self._ledger.refresh()
        return self._ledger.notices

    async def install(self, changes: Changes, message: str, left: Versions | None = None) -> Changed:
        """Put these files in place (None deletes) as one commit with this message and the next epoch.

        `left`: a person leaves these versions by it.

        Raises `ChangeRefused` where a file has departed or cannot be written, `LedgerError` where the ledger cannot,
        `ledger.WorkspaceBusy`. Once begun it is carried to its end, also when the caller is cancelled.
        """
        return await whole(self._install(changes, message, left))

    async def accept(self, message: str, paths: Collection[str] | None = None) -> Changed:
        """Accept departed files as they stand, all of them or `paths`, as a commit and with the next epoch.

        A person's order: they leave the files so. Raises as `install` does.
        """
        return await whole(self._accept(message, paths))

    async def restore(self, message: str, paths: Collection[str] | None = None) -> Changed:
        """Put the accepted version of departed files back, all of them or `paths`. Raises as `install` does.

        What stood there stays in the ledger. New files are left: deleting is a person's.
        """
        return await whole(self._restore(message, paths))

    async def _install(self, changes: Changes, message: str, left: Versions | None) -> Changed:
        async with self._alone():
            self._refuse(changes)
            pieces = [one for path, file in changes.items() if (one := self._piece(path, file)) is not None]
            return await self._carry(pieces, message, left=left)

    async def _accept(self, message: str, paths: Collection[str] | None) -> Changed:
        async with self._alone():
            found = dict[str, Version | None]()
            for one in self._departures(paths):
                try:
                    found[one.path] = self._ledger.stand(one.path)
                except (OSError, NotPlain) as error:
                    why = f"it cannot be read or kept: {error}; nothing was changed"
                    raise ChangeRefused(why) from None
            _demand(found)
            self._ledger.record(message, found, found)
            self._step(DECIDED)
            return Changed(self._ledger.epoch, list(found), await self._end(list(found), message))

    async def _restore(self, message: str, paths: Collection[str] | None) -> Changed:
        async with self._alone():
            pieces, before = [], dict[str, Version | None]()
            for one in self._departures(paths):
                version = self._ledger.files.get(one.path)
                if version is None and paths is None:
                    continue
                pieces.append(await self._back(one.path, version))
                before[one.path] = None
                with contextlib.suppress(OSError, NotPlain):
                    before[one.path] = self._ledger.stand(one.path)
            return await self._carry(pieces, message, before=before)

    # -- the way of a change ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the ledger's lock, with no change of another unfinished."""
        try:
            async with held(self._ledger.lock, self._wait):
                await self._load(known=True)
                if not await self._recover():
                    raise ChangeRefused(
                        "a change that was cut short is not ended yet: its git still runs; try again later"
                    )
                self._step(BEGUN)
                yield
        except OSError as error:
            raise LedgerError(f"the ledger in {self._ledger.home} cannot be used: {error}") from None

    async def _carry(
        self,
        pieces: list[_Piece],
        message: str,
        *,
        before: Versions | None = None,
        left: Versions | None = None,
    ) -> Changed:
        _demand(pieces)
        root, files = self._ledger.root, [piece.path for piece in pieces]
        try:
            await asyncio.to_thread(self._write, pieces)
            self._step(BESIDE)
            self._ledger.record(message, {piece.path: piece.new for piece in pieces}, left, before=before)
        except (OSError, LedgerError) as error:
            for path in files:
                standing.clear_beside(root, path)
            if isinstance(error, LedgerError):
                raise
            raise ChangeRefused(
                f"{', '.join(files)} could not be written: {error}; all is as it was"
            ) from None
        self._step(DECIDED)
        try:
            await asyncio.to_thread(self._swap, pieces)
        except OSError as error:
            self._ledger.notice(
                f"{', '.join(files)} is accepted and not in its place: {error}; it is tried again"
            )
            return Changed(self._ledger.epoch, files, None)
        return Changed(self._ledger.epoch, files, await self._end(files, message))

    def _write(self, pieces: list[_Piece]) -> None:
        for path, new, data in pieces:
            if new is not None:
                standing.write(self._ledger.root, path, data, new.mode)
                standing.make_way(self._ledger.root, path)

    def _swap(self, pieces: list[_Piece]) -> None:
        for path, new, _ in pieces:
            if new is None:
                standing.clear(self._ledger.root, path)
            else:
                standing.swap(self._ledger.root, path)
            self._step(PLACED)

    async def _end(self, files: list[str], message: str) -> WorkspaceCommit | None:
        commit = await self._commit(files, message)
        self._step(COMMITTED)
        self._ledger.settled()
        self._step(ENDED)
        return commit

    async def _recover(self) -> bool:
        """End a change that was cut short, if there is one; False while a git of it still runs."""
        ledger = self._ledger
        flight = dict(ledger.in_flight)
        if not flight:
            return True
        if not await self._repository.unlock(ledger.kept.moved(ACCEPTED)):
            ledger.notice(f"the change of {', '.join(flight)} is not ended yet: its git still runs")
            return False
        for path, old in flight.items():
            new = ledger.files.get(path)
            if standing.stands(ledger.root, path, old) or (
                old is None and not standing.is_file(ledger.root, path)
            ):
                await self._put(path, new)
                self._step(PLACED)
        departed = {one.path for one in ledger.check()}
        await self._commit([path for path in flight if path not in departed], ledger.message)
        await self._repository.settle(list(flight))
        ledger.settled()
        ledger.notice(f"the change of {', '.join(flight)} that was cut short has been finished")
        return True

    async def _put(self, path: str, version: Version | None) -> None:
        """Bring a version into its place again."""
        data = None if version is None else await find(self._ledger, self._repository, path, version)
        try:
            if version is None:
                await asyncio.to_thread(standing.clear, self._ledger.root, path)
            elif data is None:
                self._ledger.notice(
                    f"{path}: no copy of the accepted version is left, so it stays as it stands"
                )
            else:
                await asyncio.to_thread(standing.put, self._ledger.root, path, data, version.mode)
        except OSError as error:
            self._ledger.notice(f"{path} is accepted and cannot be brought into its place: {error}")

    def _sweep(self) -> None:
        """Remove what a crash before the decision left beside its place."""
        for one in self._ledger.check():
            if one.kind == "installing" and standing.is_beside(one.path):
                standing.clear(self._ledger.root, one.path)
                standing.clear_beside(self._ledger.root, one.path)

    # -- the files of a change -------------------------------------------------------------------------

    def _refuse(self, changes: Iterable[str]) -> None:
        """Refuse names that mean no guarded file, and files that are not as accepted."""
        departed = {one.path: one for one in self._ledger.check()}
        for path in changes:
            parts = path.split("/")
            bad = {"", ".", "..", "__pycache__"} & set(parts) or "\0" in path or not path.isprintable()
            if bad or len(parts) < 2 or parts[0] not in FOLDERS:
                raise ChangeRefused(f"{path!r} is no file in {', '.join(FOLDERS)}")
            if path in departed:
                raise ChangeRefused(departed[path].text)

    def _piece(self, path: str, file: TrialFile | None) -> _Piece | None:
        """The change of one file, its content kept; None where it changes nothing."""
        old = self._ledger.files.get(path)
        if old is not None and old.link is not None:
            raise ChangeRefused(f"{path} is a symbolic link; evolve changes only real files")
        if file is None:
            return _Piece(path, None, b"") if old is not None else None
        if len(file.content) > LARGEST:
            raise ChangeRefused(f"{path} would be larger than {LARGEST >> 20} MiB")
        new = self._ledger.keep(file.content, file.mode)
        return _Piece(path, new, file.content) if new != old else None

    async def _back(self, path: str, version: Version | None) -> _Piece:
        """The change that puts the accepted version of a departed file back."""
        if version is None:
            raise ChangeRefused(
                f"{path} was never accepted, so there is nothing to put back: delete it by hand"
            )
        if version.link is not None:
            raise ChangeRefused(
                f"{path} was a symbolic link to {version.link}: make it again by hand, or accept it"
            )
        data = await find(self._ledger, self._repository, path, version)
        if data is None:
            raise ChangeRefused(
                f"no copy of the accepted version of {path} is left: accept what stands, or mend it by hand"
            )
        return _Piece(path, version, data)

    def _departures(self, paths: Collection[str] | None) -> list[Departure]:
        """The departures among `paths`; each path must be one."""
        found = {one.path: one for one in self._ledger.check()}
        for path in paths or ():
            if path not in found:
                raise ChangeRefused(f"{path} has not departed: it is as accepted, or there is no such file")
        return [one for path, one in found.items() if paths is None or path in paths]

    # -- making the ledger -----------------------------------------------------------------------------

    async def _load(self, known: bool) -> None:
        """Read the ledger; where it is damaged or there is none, make it."""
        ledger = self._ledger
        try:
            if ledger.load():
                return
        except accepted.Damaged as error:
            ledger.notice(str(error))
            with contextlib.suppress(FileNotFoundError):
                ledger.notice(f"the ledger that cannot be read stands as {ledger.kept.set_aside()} now")
        if takeover.take_over(ledger):
            return
        if not known:
            ledger.first_sight()
            return
        lost = f"the ledger of {ledger.root} was lost"
        try:
            contents = await self._repository.files()
        except FAILED as error:
            ledger.notice(
                f"{lost}, and git's HEAD cannot be read ({error}): no script is run until `instar evolve accept`"
            )
            return
        files = {path: ledger.keep(data, mode, durable=False) for path, (data, mode) in contents.items()}
        ledger.begin(files, files, "what git's HEAD holds", ledger.next_epoch)
        ledger.notice(f"{lost}: the {len(files)} guarded files of git's HEAD are the accepted ones now")

    async def _fill(self) -> None:
        """Keep again what the ledger has lost, from wherever a copy is left."""
        ledger = self._ledger
        versions = {
            one.blob: (path, one) for side in (ledger.left, ledger.files) for path, one in side.items()
        }
        for blob, (path, version) in versions.items():
            if not ledger.kept.holds(blob):
                await find(ledger, self._repository, path, version)


async def find(ledger: Ledger, repository: WorkspaceRepository, path: str, version: Version) -> bytes | None:
    """Return the content of a version of `path` from the ledger, the workspace or git's history; None: nowhere.

    What was found elsewhere is kept in the ledger again.
    """
    data = ledger.kept.content(version.blob)
    if data is None:
        data = ledger.content(path, version)
        data = await repository.blob(version.blob) if data is None else data
        if data is not None:
            with contextlib.suppress(LedgerError):  # it is found again the next time
                ledger.keep(data, version.mode)
    return data


def _demand(pieces: Collection[object]) -> None:
    if not pieces:
        raise ChangeRefused("there is nothing to change: every file is so already")
