"""Changing guarded files of a workspace: install, rollback, accept, restore, each one transaction.

A refusal writes nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from instar.plugins.evolve.ledger.book import LedgerError
from instar.plugins.evolve.ledger.journal import JournalPiece, Kind
from instar.plugins.evolve.ledger.ledger import Departure, Ledger
from instar.plugins.evolve.ledger.lock import held
from instar.plugins.evolve.ledger.repository import FAILED, WorkspaceRepository
from instar.plugins.evolve.ledger.standing import FOLDERS, LARGEST, NotPlain, Version
from instar.plugins.evolve.ledger.transaction import Changed, ChangeRefused, Commit, Transaction, find

T = TypeVar("T")


class NewContent(Protocol):
    """New content of a file, with its permission bits."""

    @property
    def content(self) -> bytes:
        """Return its bytes."""

    @property
    def mode(self) -> int:
        """Return its permission bits."""


class Installer:
    """Makes the changes of one workspace. `wait`: seconds for another instar's change to end.

    `step` is told each of `transaction.STEPS` as it is done.
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
        self._transaction = Transaction(ledger, repository, commit, step)
        self._wait = wait

    async def open(self) -> list[str]:
        """Load the ledger, or make it, and end a change that a crash cut short; return what was found and done.

        To be called at start, once the workspace is a repository. See `ledger` for what serves when parts are broken.
        Where the ledger cannot be written the last good versions are only read. Raises `lock.WorkspaceBusy`.
        """
        known = self._ledger.is_known()
        try:
            async with held(self._ledger.home, self._wait):
                if not self._ledger.load():
                    await self._rebuild(known)
                await self._transaction.recover()
        except (OSError, LedgerError) as error:
            self._ledger.notice(str(error))
            self._ledger.load()
        return self._ledger.notices

    async def install(
        self, changes: Mapping[str, NewContent | None], message: str, kind: Kind = "install"
    ) -> Changed:
        """Put these files in place (None deletes) as one commit with this message and the next epoch.

        `kind` is install or rollback. Raises `ChangeRefused` where a file has departed or cannot be written,
        `LedgerError` where the ledger cannot, `lock.WorkspaceBusy`. Once begun it is carried to its end, also when
        the caller is cancelled.
        """
        return await whole(self._install(changes, message, kind))

    async def accept(self, message: str, paths: Collection[str] | None = None) -> Changed:
        """Accept departed files as they stand, all of them or `paths`, as a commit and with the next epoch.

        A person's order. Raises as `install` does.
        """
        return await whole(self._accept(message, paths))

    async def restore(self, message: str, paths: Collection[str] | None = None) -> Changed:
        """Put the accepted version of departed files back, all of them or `paths`. Raises as `install` does.

        What stood there stays in the vault. New files are left: deleting is a person's.
        """
        return await whole(self._restore(message, paths))

    async def _install(self, changes: Mapping[str, NewContent | None], message: str, kind: Kind) -> Changed:
        async with self._alone():
            self._refuse(changes)
            with _refusing():
                pieces = [
                    piece for path in changes if (piece := self._piece(path, changes[path])) is not None
                ]
            return await self._transaction.carry(kind, pieces, message)

    async def _accept(self, message: str, paths: Collection[str] | None) -> Changed:
        async with self._alone():
            pieces = []
            for one in self._departures(paths):
                with _refusing():
                    new = self._ledger.stand(one.path)
                pieces.append(JournalPiece(one.path, self._ledger.files.get(one.path), new))
            return await self._transaction.carry("accept", pieces, message)

    async def _restore(self, message: str, paths: Collection[str] | None) -> Changed:
        async with self._alone():
            pieces = []
            for one in self._departures(paths):
                accepted = self._ledger.files.get(one.path)
                if accepted is None and paths is None:
                    continue
                pieces.append(await self._accepted(one, accepted))
            return await self._transaction.carry("restore", pieces, message)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the ledger's lock, with no change of another unfinished."""
        try:
            async with held(self._ledger.home, self._wait):
                self._ledger.refresh()
                await self._transaction.begin()
                yield
        except OSError as error:
            raise LedgerError(f"the ledger in {self._ledger.home} cannot be used: {error}") from None

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

    def _piece(self, path: str, file: NewContent | None) -> JournalPiece | None:
        """The change of one file, its contents in the vault; None where it changes nothing."""
        old = self._ledger.files.get(path)
        if old is not None and old.link is not None:
            raise ChangeRefused(f"{path} is a symbolic link; evolve changes only real files")
        if old is not None:
            # What a crash would go back to must be at hand, whatever happened to the vault.
            self._ledger.stand(path)
        if file is None:
            return JournalPiece(path, old, None) if old is not None else None
        if len(file.content) > LARGEST:
            raise ChangeRefused(f"{path} would be larger than {LARGEST >> 20} MiB")
        new = Version(self._ledger.vault.put(file.content), file.mode & 0o777, len(file.content))
        return JournalPiece(path, old, new) if new != old else None

    async def _accepted(self, one: Departure, accepted: Version | None) -> JournalPiece:
        """The change that puts the accepted version of a departed file back."""
        if accepted is None:
            raise ChangeRefused(
                f"{one.path} was never accepted, so there is nothing to put back: delete it by hand"
            )
        if accepted.link is not None:
            raise ChangeRefused(
                f"{one.path} was a symbolic link to {accepted.link}: make it again by hand, or accept it"
            )
        if await find(self._ledger, self._repository, one.path, accepted) is None:
            raise ChangeRefused(
                f"no copy of the accepted version of {one.path} is left: accept what stands, or mend it by hand"
            )
        try:
            old = self._ledger.stand(one.path)
        except (OSError, NotPlain):
            old = None
        return JournalPiece(one.path, old, accepted)

    def _departures(self, paths: Collection[str] | None) -> list[Departure]:
        """The departures among `paths`; each path must be one."""
        found = {one.path: one for one in self._ledger.check()}
        for path in paths or ():
            if path not in found:
                raise ChangeRefused(f"{path} has not departed: it is as accepted, or there is no such file")
        return [one for path, one in found.items() if paths is None or path in paths]

    async def _rebuild(self, known: bool) -> None:
        """Make the ledger: from what stands at first sight, else from git's HEAD, else none."""
        if not known:
            self._ledger.first_sight()
            return
        lost = f"the ledger of {self._ledger.root} was lost"
        try:
            contents = await self._repository.files()
        except FAILED as error:
            self._ledger.notice(
                f"{lost}, and git's HEAD cannot be read ({error}): no script is run until `instar evolve accept`"
            )
            return
        self._ledger.adopt(contents)
        self._ledger.notice(
            f"{lost}: the {len(contents)} guarded files of git's HEAD are the accepted ones now"
        )


async def whole(change: Coroutine[Any, Any, T]) -> T:
    """Carry a change to its end, also when whoever waits for it is cancelled: half of one must not be left."""
    task = asyncio.ensure_future(change)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to be told
        raise


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (OSError, NotPlain) as error:
        raise ChangeRefused(f"it cannot be read or kept: {error}; nothing was changed") from None
