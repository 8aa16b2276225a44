"""Which changes of a workspace the agent may roll back by itself.

Its own, back to an earlier version, where that lowers or keeps what scripts reach: so nobody is asked.
What a person put there is theirs, deleting files and changing tests, evals and settings too. A version that a
person put there before the agent's first change goes through the gate once more, since nobody has judged it; so does
any where a person has changed what judges it since.
"""

import itertools
from collections.abc import Mapping
from typing import Final

from instar.plugins.evolve.books import Books
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.gate import authority
from instar.plugins.evolve.history.revision import NoSuchChange, Revision, is_start
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger import vault
from instar.plugins.evolve.ledger.own import RESTORED, is_agents
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.trial import TrialFile

_FOLDERS: Final = ("hooks", "prompts")
_ASK: Final = "a person can do it with: instar evolve rollback"


class AgentRollback:
    """Decides whether the agent may roll a change back."""

    def __init__(self, books: Books, evolution: Evolver) -> None:
        self._books = books
        self._evolution = evolution

    async def find(self, ref: str) -> Revision:
        """Return the change that `ref` names, without one the agent's newest that stands.

        Raises `NotChanged` for one that is not the agent's, and `NoSuchChange`.
        """
        if ref:
            found = await self._books.revisions.find(ref)
            self._demand_own(found)
            return found
        commits = await self._books.revisions.touching()
        for one in commits:
            if is_agents(one) and not one.trailers.rolls_back and not _taken_back(one, commits):
                return one
        raise NoSuchChange("there is no change of yours to take back")

    async def check(self, change: Revision, before: Mapping[str, TrialFile | None]) -> None:
        """Return if the files of `change` may become what they were `before` it. Raises `NotChanged`."""
        self._demand_own(change)
        commits = await self._books.revisions.touching()
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
        found = self._books.ledger.files.get(path)
        if found is None or file is None:
            return found is None and file is None
        return found.sha == vault.sha256(file.content)

    async def _check_kept(self, change: Revision, before: Mapping[str, TrialFile | None]) -> None:
        """Look after what a person left there that git never had: its commit is owed, or went into one of the agent's.

        Raises `NotChanged` where that stands, or was not what git would put back.
        """
        own = self._books.own
        live = {path: version for path, version in self._books.ledger.files.items() if path in before}
        told = await own.told(live)
        for path, file in before.items():
            left = own.changed.get(path)
            at_git = told.get(path)
            stands = path not in own.changed
            same = _sha(left) == _sha(at_git) or (
                file is not None and vault.sha256(file.content) == _sha(left)
            )
            if stands or not same:
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
            known = self._books.grants.of(script)
            others = self._books.grants.others(script)
        except OSError as error:
            raise NotChanged(f"it cannot be told what {path} may reach: {error}") from None
        held = None if known is None else known.versions.get(vault.sha256(file.content))
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


def _sha(version: Version | None) -> str:
    return "" if version is None else version.sha


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
