"""Rollbacks by a person, the agent or probation, and files that somebody changed outside of the gate.

The agent rolls back its own changes, back to an earlier version, where that lowers or keeps what scripts reach: so
nobody is asked. What a person put there is theirs, deleting files and changing tests, evals and settings too. A version
that a person put there before the agent's first change goes through the gate once more, since nobody has judged it; so
does any where a person has changed what judges it since.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.gate import authority
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.revision import NoSuchChange, Revision, is_start
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
    commit_of,
    explained,
)
from instar.plugins.evolve.ledger.install import Changed
from instar.plugins.evolve.ledger.own import RESTORED, is_agents
from instar.plugins.evolve.ledger.standing import Version, sha256
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.state import RollBack
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile

Check = Callable[[Revision, Mapping[str, TrialFile | None]], Awaitable[None]]
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
        """Restore the files of a change to the state before it, as a new change.

        `ref` names a change as `revision.Revisions.find` does; "" is the newest one that is no rollback itself. `check`
        raises `NotChanged` where it may not be taken back. What a person left there comes back also where git never had
        it. Raises `NotChanged` and `revision.NoSuchChange`.
        """
        async with self._lock:
            revision = await self._storage.revisions.last(ref)
            found = await self._storage.revisions.before(revision)
            before = {path: None if one is None else TrialFile(*one) for path, one in found.items()}
            for path in before:
                await self._may_change(path, cause)
            if check is not None:
                await check(revision, before)
            before |= await self._left(revision, before)
            old = {path: self._change_installer.sha(path) for path in before}
            epoch = self._storage.ledger.next_epoch
            said = trailers.Trailers(by=cause.by, epoch=epoch, rolls_back=revision.id)
            subject = f"roll back {revision.subject}"
            changed = await self._change_installer.make(before, subject, called_by(cause, said))
            for path in changed.files:
                self._settle(path, old[path], cause)
            if commit_of(changed) is not None:
                await self._storage.own.taken_back(revision, changed.files)
            await self._change_installer.rolled_back(changed, cause, f"{revision.id[:12]} {revision.subject}")
            return changed

    async def _left(
        self, change: Revision, before: Mapping[str, TrialFile | None]
    ) -> dict[str, TrialFile | None]:
        """Return the files as a person left them before `change`, where git has another version.

        They had changed one without a commit when instar first saw it, or their commit is owed, or went into one of the
        agent's. Raises `NotChanged` where that would be lost.
        """
        own, files = self._storage.own, self._storage.ledger.files
        left = {path: version for path, version in own.changed.items() if path in before}
        told = await own.told({path: files[path] for path in left if path in files})
        found: dict[str, TrialFile | None] = {}
        for path, version in left.items():
            if _sha(version) in (_sha(told.get(path)), _sha_of(before[path])):
                continue
            set_by = (await self._storage.repository.files(change.id, [path])).get(path)
            if set_by is not None and version is not None and sha256(set_by[0]) == version.sha:
                continue  # it is their own change that they take back, and git has it
            since = own.since(path)
            earlier = _before(path, change, await self._storage.revisions.touching())
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
        content = await self._storage.content(path, version.sha)
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
            said = trailers.Trailers(by="person", epoch=self._storage.ledger.next_epoch)
            with explained():
                changed = await self._storage.installer.accept(trailers.write("accept by hand", said), paths)
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
        version = self._change_installer.sha(path)
        if cause.by == "agent":
            self._observer.installed(path, old, version, None)
        else:
            self._observer.placed(path, version or None)

    async def _taken_back(self, one: RollBack) -> str:
        """Restore the kept version of a file. The reason is in the audit log."""
        version = self._storage.ledger.files.get(one.file)
        content = await self._storage.content(one.file, one.to)
        if version is None or version.sha != one.version or content is None:
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

    async def check(self, change: Revision, before: Mapping[str, TrialFile | None]) -> None:
        """Return if the files of `change` may become what they were `before` it. Raises `NotChanged`."""
        self._demand_own(change)
        commits = await self._storage.revisions.touching()
        if _taken_back(change, commits):
            raise NotChanged(f"{change.short} was taken back already")
        since = list(itertools.takewhile(lambda one: one.id != change.id, commits))
        for later in since:
            touched = sorted(before.keys() & set(later.files))
            if touched and _is_persons(later):
                raise NotChanged(
                    f"a person changed {', '.join(touched)} since, with {later.short}, which would be lost: {_ASK} "
                    f"{change.short}"
                )
        if all(self._stands(path, file) for path, file in before.items()):
            raise NotChanged(f"the files of {change.short} are as they were before it already")
        anew = any(_is_persons(later) and _judges(later) for later in since)
        for path, file in before.items():
            await self._check_file(change, path, file, anew=anew)
        await self._check_kept(change, before)

    def _stands(self, path: str, file: TrialFile | None) -> bool:
        return _sha(self._storage.ledger.files.get(path)) == _sha_of(file)

    async def _check_kept(self, change: Revision, before: Mapping[str, TrialFile | None]) -> None:
        """Look after what a person left there that git never had: its commit is owed, or went into one of the agent's.

        Raises `NotChanged` where that stands, or was not what git would put back.
        """
        own = self._storage.own
        live = {path: version for path, version in self._storage.ledger.files.items() if path in before}
        told = await own.told(live)
        for path, file in before.items():
            left = _sha(self._storage.ledger.left.get(path))
            same = left == _sha(told.get(path)) or (file is not None and left == _sha_of(file))
            if (not own.is_changed(path) and path not in told) or not same:
                raise NotChanged(
                    f"git never had {path} as a person left it, and it would be lost: {_ASK} {change.short}"
                )

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
        held = None if known is None else known.versions.get(sha256(file.content))
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


def _judges(commit: Revision) -> bool:
    """Return whether a commit changed tests, evals or settings of the gate."""
    return any(path.partition("/")[0] not in _FOLDERS for path in commit.files)


def _is_persons(commit: Revision) -> bool:
    """Return whether a commit is a person's own work. A rollback is not."""
    said = commit.trailers
    back = said.rolls_back or said.by == "instar" or commit.subject == RESTORED
    return not back and not is_agents(commit)
