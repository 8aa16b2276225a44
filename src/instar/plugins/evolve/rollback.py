"""Rollbacks by a person, the agent or probation, and files that somebody changed outside of the gate."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from instar.plugins.evolve.books import Books
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.revision import Revision
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
    commit_of,
    explained,
)
from instar.plugins.evolve.ledger.install import Changed
from instar.plugins.evolve.ledger.own import RESTORED
from instar.plugins.evolve.ledger.standing import Version, sha256
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.state import RollBack
from instar.plugins.evolve.trial import TrialFile

Check = Callable[[Revision, Mapping[str, TrialFile | None]], Awaitable[None]]
"""Gets a change and its files before it. Raises `NotChanged` to refuse the rollback."""


class Rollback:
    """Rolls changes of one workspace back, under `lock`. `may_change` raises `NotChanged`."""

    def __init__(
        self,
        books: Books,
        change_installer: ChangeInstaller,
        observer: Observer,
        lock: asyncio.Lock,
        may_change: Callable[[str, ChangeCause], Awaitable[None]],
    ) -> None:
        self._books = books
        self._change_installer = change_installer
        self._observer = observer
        self._lock = lock
        self._may_change = may_change
        self._told: set[str] = set()

    async def roll_back(self, ref: str, cause: ChangeCause, check: Check | None = None) -> Changed:
        """Restore the files of a change to the state before it, as a new change.

        `ref` names a change as `revision.Revisions.find` does; "" is the newest one that is no rollback itself. `check`
        raises `NotChanged` where it may not be taken back. What a person left there comes back also where git never had
        it. Raises `NotChanged` and `revision.NoSuchChange`.
        """
        async with self._lock:
            revision = await self._books.revisions.last(ref)
            found = await self._books.revisions.before(revision)
            before = {path: None if one is None else TrialFile(*one) for path, one in found.items()}
            for path in before:
                await self._may_change(path, cause)
            if check is not None:
                await check(revision, before)
            before |= await self._left(revision, before)
            old = {path: self._change_installer.sha(path) for path in before}
            epoch = self._books.ledger.next_epoch
            said = trailers.Trailers(by=cause.by, epoch=epoch, rolls_back=revision.id)
            subject = f"roll back {revision.subject}"
            changed = await self._change_installer.make(before, subject, called_by(cause, said))
            for path in changed.files:
                self._settle(path, old[path], cause)
            if commit_of(changed) is not None:
                await self._books.own.taken_back(revision, changed.files)
            await self._change_installer.rolled_back(changed, cause, f"{revision.id[:12]} {revision.subject}")
            return changed

    async def _left(
        self, change: Revision, before: Mapping[str, TrialFile | None]
    ) -> dict[str, TrialFile | None]:
        """Return the files as a person left them before `change`, where git has another version.

        They had changed one without a commit when instar first saw it, or their commit is owed, or went into one of the
        agent's. Raises `NotChanged` where that would be lost.
        """
        own, files = self._books.own, self._books.ledger.files
        left = {path: version for path, version in own.changed.items() if path in before}
        told = await own.told({path: files[path] for path in left if path in files})
        found: dict[str, TrialFile | None] = {}
        for path, version in left.items():
            if _sha(version) in (_sha(told.get(path)), _sha_of(before[path])):
                continue
            set_by = (await self._books.repository.files(change.id, [path])).get(path)
            if set_by is not None and version is not None and sha256(set_by[0]) == version.sha:
                continue  # it is their own change that they take back, and git has it
            since = own.since(path)
            earlier = _before(path, change, await self._books.revisions.touching())
            if earlier is not None and (earlier.trailers.epoch or -1) >= since:
                continue  # git's version is the agent's, from after that
            if change.trailers.epoch is not None and change.trailers.epoch < since:
                raise NotChanged(
                    f"git never had {path} as you left it after {change.short}, and it would be lost: take back what "
                    f"the agent changed since first, with instar evolve rollback @{since}"
                )
            found[path] = None if version is None else await self._kept(path, version, change)
        return found

    async def _kept(self, path: str, version: Version, change: Revision) -> TrialFile:
        content = await self._books.content(path, version.sha)
        if content is None:
            raise NotChanged(
                f"there is no copy of {path} as you left it before {change.short}, and git never had it: for what git "
                f"has of it, git checkout {change.short}^ -- {path}, then instar evolve accept"
            )
        return TrialFile(content, version.mode)

    async def settle(self) -> list[str]:
        """Perform the rollbacks that probation decided. Return a sentence on each for the session."""
        said = []
        if not self._observer.owed():
            return []
        async with self._lock:
            for one in self._observer.owed():
                text = await self._taken_back(one)
                # A rollback that fails is tried again at each step, and reported once.
                again = one in self._observer.owed()
                if not again or text not in self._told:
                    said.append(text)
                (self._told.add if again else self._told.discard)(text)
        return said

    async def accept(self, paths: Collection[str] | None) -> Changed:
        """Accept files that were changed outside of the gate, by a person's order. Raises `NotChanged`."""
        async with self._lock:
            said = trailers.Trailers(by="person", epoch=self._books.ledger.next_epoch)
            with explained():
                changed = await self._books.installer.accept(trailers.write("accept by hand", said), paths)
            for path in changed.files:
                self._observer.placed(path, self._change_installer.sha(path) or None)
            self._change_installer.happened("accepted", ChangeCause(by="person"), changed.files, "", changed)
            await self._change_installer.live(changed)
            return changed

    async def restore(self, paths: Collection[str] | None) -> Changed:
        """Restore the accepted files that were changed outside of the gate, by a person's order. Raises
        `NotChanged`.
        """
        async with self._lock:
            said = trailers.Trailers(by="person", epoch=self._books.ledger.next_epoch)
            with explained():
                changed = await self._books.installer.restore(trailers.write(RESTORED, said), paths)
            self._change_installer.happened(
                "rolled back", ChangeCause(by="person"), changed.files, "what stood was put back", changed
            )
            await self._change_installer.live(changed)
            return changed

    def _settle(self, path: str, old: str, cause: ChangeCause) -> None:
        """Start probation for a version that the agent restored; one that a person restored is kept."""
        version = self._change_installer.sha(path)
        if cause.by == "agent":
            self._observer.installed(path, old, version, None)
        else:
            self._observer.placed(path, version or None)

    async def _taken_back(self, one: RollBack) -> str:
        """Restore the kept version of a file. The reason is in the audit log."""
        version = self._books.ledger.files.get(one.file)
        content = await self._books.content(one.file, one.to)
        if version is None or version.sha != one.version or content is None:
            self._observer.rolled_back(one)
            return f"{one.file}: the version on probation is gone already"
        said = trailers.Trailers(by="instar", epoch=self._books.ledger.next_epoch, cause=one.why)
        try:
            changed = await self._change_installer.make(
                {one.file: TrialFile(content, version.mode)}, f"roll back {one.file}", said
            )
        except NotChanged as error:
            return f"{one.file} was to be rolled back ({one.why}), which failed: {error}"
        self._observer.rolled_back(one)
        await self._change_installer.rolled_back(changed, ChangeCause(by="instar"), one.why)
        return f"{one.file} was rolled back to its version before: {one.why}"


def _sha(version: Version | None) -> str:
    return "" if version is None else version.sha


def _sha_of(file: TrialFile | None) -> str:
    return "" if file is None else sha256(file.content)


def _before(path: str, change: Revision, commits: Sequence[Revision]) -> Revision | None:
    """Return the commit that changed `path` last before `change`; `commits` newest first."""
    ids = [one.id for one in commits]
    older = commits[ids.index(change.id) + 1 :] if change.id in ids else []
    return next((one for one in older if path in one.files), None)
