"""Rollbacks by a person, the agent or probation, and files that somebody changed outside of the gate.

The agent rolls back its own changes, back to an earlier version, where that lowers or keeps what scripts reach: so
nobody is asked. What a person put there is theirs, deleting files and changing tests, evals and settings too. A version
that a person put there before the agent's first change goes through the gate once more, since nobody has judged it; so
does any where a person has changed what judges it since.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from instar.plugin import accepted
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.gate import authority
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.repository import NoSuchChange, Revision, is_start
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
    explained,
)
from instar.plugins.evolve.ledger.install import Changed
from instar.plugins.evolve.ledger.ledger import Sides
from instar.plugins.evolve.ledger.own import RESTORED, is_agents
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.state import RollBack
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile


@dataclass(frozen=True)
class Before:
    """The files of a change as they were before it, None where there was none, and how they were left then.

    Without `sides`, what was accepted and left before and after it, only git knows of the change.
    """

    files: Mapping[str, TrialFile | None]
    sides: tuple[Sides, Sides] | None = None


Check = Callable[[Revision, Before], Awaitable[None]]
"""Gets a change and its files before it. Raises `NotChanged` to refuse the rollback."""


class Rollback:
    """Rolls changes of one workspace back, under `lock`. `may_change` raises `NotChanged`."""

    def __init__(
        self,
        storage: Storage,
        change_installer: ChangeInstaller,
        observer: Observer,
        lock: asyncio.Lock,
        may_change: Callable[[str, ChangeCause], Awaitable[None]],
    ) -> None:
        self._storage = storage
        self._change_installer = change_installer
        self._observer = observer
        self._lock = lock
        self._may_change = may_change
        self._told: set[str] = set()

    async def roll_back(self, ref: str, cause: ChangeCause, check: Check | None = None) -> Changed:
        """Restore the files of a change to the state before it, as a new change: also whose they were.

        `ref` names a change as `Revisions.find` does; "" is the newest one that is no rollback itself. `check`
        raises `NotChanged` where it may not be taken back. Raises `NotChanged` and `repository.NoSuchChange`.
        """
        async with self._lock:
            revision = await self._storage.revisions.last(ref)
            before = await self.before(revision)
            for path in before.files:
                await self._may_change(path, cause)
            if check is not None:
                await check(revision, before)
            old = {path: self._change_installer.version(path) for path in before.files}
            epoch = self._storage.ledger.next_epoch
            said = trailers.Trailers(by=cause.by, epoch=epoch, rolls_back=revision.id)
            subject = f"roll back {revision.subject}"
            left = None
            if before.sides is not None:
                left = {path: before.sides[0][1].get(path) for path in before.files}
            changed = await self._change_installer.make(before.files, subject, called_by(cause, said), left)
            for path in changed.files:
                self._settle(path, old[path], cause)
            if cause.by == "person":
                self._storage.references.begin()
            else:
                for path in changed.files:
                    self._storage.references.taken_back(path)
            await self._change_installer.rolled_back(changed, cause, f"{revision.id[:12]} {revision.subject}")
            return changed

    async def before(self, change: Revision) -> Before:
        """Return the guarded files of a change as they were before it: as the ledger has them, else as git does.

        The ledger has what a person left and never committed too. Raises `NotChanged` and `repository.NoSuchChange`.
        """
        storage = self._storage
        paths = storage.revisions.guarded(change)
        sides = await self._around(change, paths)
        if sides is None:
            found = await storage.revisions.before(change)
            return Before({path: None if one is None else TrialFile(*one) for path, one in found.items()})
        files: dict[str, TrialFile | None] = dict.fromkeys(paths)
        for path in paths:
            version = sides[0][0].get(path)
            content = None if version is None else await storage.content(version.blob)
            if version is not None and (content is None or version.link is not None):
                raise NotChanged(
                    f"there is no copy of {path} as it was before {change.short}: mend it by hand"
                )
            if version is not None and content is not None:
                files[path] = TrialFile(content, version.mode)
        return Before(files, sides)

    async def _around(self, change: Revision, paths: Collection[str]) -> tuple[Sides, Sides] | None:
        """Return what the ledger has of a change, if that is the one that git has under its epoch."""
        if change.trailers.epoch is None:
            return None
        try:
            sides = self._storage.ledger.around(change.trailers.epoch)
        except accepted.Damaged:
            return None
        if sides is None:
            return None
        listed = await self._storage.repository.listed(change.id, list(paths))
        git = {one.path: one.blob for one in listed}
        after = sides[1][0]
        same = all(git.get(path) == (after[path].blob if path in after else None) for path in paths)
        return sides if same else None

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
            said = trailers.Trailers(by="person", epoch=self._storage.ledger.next_epoch)
            with explained():
                changed = await self._storage.installer.accept(trailers.write("accept by hand", said), paths)
            for path in changed.files:
                self._observer.placed(path, self._change_installer.version(path) or None)
            self._storage.references.begin()
            self._change_installer.happened("accepted", ChangeCause(by="person"), changed.files, "", changed)
            await self._change_installer.live(changed)
            return changed

    async def restore(self, paths: Collection[str] | None) -> Changed:
        """Restore the accepted files that were changed outside of the gate, by a person's order. Raises
        `NotChanged`.
        """
        async with self._lock:
            said = trailers.Trailers(by="person", epoch=self._storage.ledger.next_epoch)
            with explained():
                changed = await self._storage.installer.restore(trailers.write(RESTORED, said), paths)
            self._change_installer.happened(
                "rolled back", ChangeCause(by="person"), changed.files, "what stood was put back", changed
            )
            await self._change_installer.live(changed)
            return changed

    def _settle(self, path: str, old: str, cause: ChangeCause) -> None:
        """Start probation for a version that the agent restored; one that a person restored is kept."""
        version = self._change_installer.version(path)
        if cause.by == "agent":
            self._observer.installed(path, old, version, None)
        else:
            self._observer.placed(path, version or None)

    async def _taken_back(self, one: RollBack) -> str:
        """Restore the kept version of a file. The reason is in the audit log."""
        version = self._storage.ledger.files.get(one.file)
        content = await self._storage.content(one.to)
        if version is None or version.blob != one.version or content is None:
            self._observer.rolled_back(one)
            return f"{one.file}: the version on probation is gone already"
        said = trailers.Trailers(by="instar", epoch=self._storage.ledger.next_epoch, cause=one.why)
        try:
            changed = await self._change_installer.make(
                {one.file: TrialFile(content, version.mode)}, f"roll back {one.file}", said
            )
        except NotChanged as error:
            return f"{one.file} was to be rolled back ({one.why}), which failed: {error}"
        self._observer.rolled_back(one)
        self._storage.references.taken_back(one.file)
        await self._change_installer.rolled_back(changed, ChangeCause(by="instar"), one.why)
        return f"{one.file} was rolled back to its version before: {one.why}"


_FOLDERS: Final = ("hooks", "prompts")
_ASK: Final = "a person can do it with: instar evolve rollback"


class AgentRollback:
    """Decides whether the agent may roll a change back."""

    def __init__(self, storage: Storage, evolution: Evolver) -> None:
        self._storage = storage
        self._evolution = evolution

    async def find(self, ref: str) -> Revision:
        """Return the change that `ref` names, without one the agent's newest that stands.

        Raises `NotChanged` for one that is not the agent's, and `NoSuchChange`.
        """
        if ref:
            found = await self._storage.revisions.find(ref)
            self._demand_own(found)
            return found
        commits = await self._storage.revisions.touching()
        for one in commits:
            if is_agents(one) and not one.trailers.rolls_back and not _taken_back(one, commits):
                return one
        raise NoSuchChange("there is no change of yours to take back")

    async def check(self, change: Revision, before: Before) -> None:
        """Return if the files of `change` may become what they were `before` it. Raises `NotChanged`."""
        self._demand_own(change)
        if _taken_back(change, await self._storage.revisions.touching()):
            raise NotChanged(f"{change.short} was taken back already")
        if before.sides is None:
            raise NotChanged(
                f"{change.short} was not made here, so its files are not kept: {_ASK} {change.short}"
            )
        ledger = self._storage.ledger
        (files, left), now = before.sides[0], ledger.left
        touched = [path for path in {**left, **now} if left.get(path) != now.get(path)]
        lost = sorted(before.files.keys() & set(touched))
        if lost:
            raise NotChanged(
                f"a person changed {', '.join(lost)} since, which would be lost: {_ASK} {change.short}"
            )
        if all(files.get(path) == ledger.files.get(path) for path in before.files):
            raise NotChanged(f"the files of {change.short} are as they were before it already")
        anew = any(path.partition("/")[0] not in _FOLDERS for path in touched)
        for path, file in before.files.items():
            await self._check_file(change, path, file, anew=anew)

    async def _check_file(self, change: Revision, path: str, file: TrialFile | None, *, anew: bool) -> None:
        """Check one file. `anew`: the tests that a person has changed since have not run on this version."""
        folder, _, name = path.partition("/")
        if folder not in _FOLDERS:
            raise NotChanged(f"{path} is for a person alone to change: {_ASK} {change.short}")
        if file is None:
            raise NotChanged(
                f"{change.short} made {path}, and deleting is for a person alone: {_ASK} {change.short}"
            )
        raised = await self._tried(path, file) if anew else []
        if folder == "hooks" and not anew:
            raised = await self._raised(name, path, file)
        if raised:
            raise NotChanged(
                f"the version of {path} before {change.short} would reach more than it may now: {'; '.join(raised)}; "
                f"propose it with evolve_hook_write, so that a person can allow it"
            )

    async def _raised(self, script: str, path: str, file: TrialFile) -> list[str]:
        """Return what the version needs and its script is not granted now. Raises `NotChanged`."""
        try:
            known = self._storage.grants.of(script)
            others = self._storage.grants.others(script)
        except OSError as error:
            raise NotChanged(f"it cannot be told what {path} may reach: {error}") from None
        held = None if known is None else known.versions.get(accepted.blob_id(file.content))
        if known is not None and held is not None:
            return authority.raises(known.grant, held.authority, others)
        return await self._tried(path, file)

    async def _tried(self, path: str, file: TrialFile) -> list[str]:
        """Run the gate on the version, and return what it would raise. Raises `NotChanged`."""
        try:
            verdict = await self._evolution.validate(path, file.content.decode())
        except UnicodeDecodeError:
            raise NotChanged(f"the version of {path} before is no UTF-8 text: {_ASK}") from None
        except (CandidateRefused, NotChanged) as error:
            raise NotChanged(f"the version of {path} before does not pass the gate: {error}") from None
        return list(verdict.raised)

    def _demand_own(self, change: Revision) -> None:
        if change.trailers.rolls_back or change.trailers.by == "instar" or change.subject == RESTORED:
            raise NotChanged(
                f"{change.short} is a rollback itself: propose what it took back again with evolve_hook_write or "
                "evolve_prompt_write, so that it is tried"
            )
        if not is_agents(change):
            raise NotChanged(f"{change.short} is a person's change, not yours to take back")


def _taken_back(change: Revision, commits: list[Revision]) -> bool:
    """Return whether a change was rolled back, and that rollback was not itself rolled back."""
    back = [one for one in commits if is_start(one.trailers.rolls_back, change.id)]
    return any(not _taken_back(one, commits) for one in back)
