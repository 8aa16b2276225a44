"""Evolving: a candidate that has passed the gate is installed, one that would reach more waits for a person.

One change of a workspace at a time. Whoever makes it, it is one commit and one epoch (`ledger.install`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from instar.plugins.evolve import edit
from instar.plugins.evolve.books import Books
from instar.plugins.evolve.candidate import Candidate, CandidateRefused, text
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.gate import judge, pending
from instar.plugins.evolve.gate.judge import GateVerdict
from instar.plugins.evolve.gate_context import Change, GateContexts
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.commits import WorkspaceCommit
from instar.plugins.evolve.history.pins import BadPin
from instar.plugins.evolve.install import (
    ChangeCause,
    ChangeInstaller,
    NotChanged,
    called_by,
    commit_of,
)
from instar.plugins.evolve.ledger.install import whole
from instar.plugins.evolve.ledger.standing import sha256
from instar.plugins.evolve.points import CandidateInput
from instar.plugins.evolve.probation import prediction
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.trial import TrialFile

_FROZEN = "frozen"

Progress = Callable[[str], None]
"""Hears of each stage of the gate as it begins."""


class Waits(NotChanged):
    """A candidate that waits for a person under the id `id`."""

    def __init__(self, id: str, text: str) -> None:  # noqa: A002 - the word that a person types
        super().__init__(text)
        self.id = id


class Installed(msgspec.Struct, frozen=True):
    """A change that went live: its commit (None: git failed) and what the gate found (None: it was not asked)."""

    path: str
    diff: str
    epoch: int
    verdict: GateVerdict | None = None
    commit: WorkspaceCommit | None = None


class Evolver:
    """Changes of one workspace, one at a time: `lock` is held meanwhile.

    `object` returns why another plugin objects to a candidate that passed its trials, "" when none does.
    """

    def __init__(
        self,
        books: Books,
        policy: ExecutionPolicy,
        gate_contexts: GateContexts,
        change_installer: ChangeInstaller,
        observer: Observer,
        object: Callable[[CandidateInput], Awaitable[str]],  # noqa: A002 - the verb
    ) -> None:
        self._books = books
        self._policy = policy
        self._gate_contexts = gate_contexts
        self._change_installer = change_installer
        self._observer = observer
        self._object = object
        self.lock = asyncio.Lock()

    # -- by the gate -----------------------------------------------------------------------------------

    async def validate(self, path: str, content: str) -> GateVerdict:
        """Take a new whole text of a file through the gate without installing it.

        Raises `CandidateRefused` and `NotChanged`.
        """
        return await self._judged(self._gate_contexts.candidate(path, lambda before: content))

    async def change(
        self,
        path: str,
        change: Change,
        cause: ChangeCause,
        expect: Prediction | None = None,
        also: Mapping[str, TrialFile] | None = None,
    ) -> Installed:
        """Change the file at `path` of the workspace, if its candidate passes the gate.

        Raises `CandidateRefused`, `Waits` when a person must allow it first, and `NotChanged`.
        """
        async with self.lock:
            await self.may_change(path, cause)
            candidate = self._gate_contexts.candidate(path, change, expect, also)
            try:
                verdict = await self._judged(candidate)
                await self._heard(candidate, verdict, cause)
            except CandidateRefused as error:
                await self._change_installer.refused(path, cause, error.stage, str(error))
                raise
            if verdict.raised:
                raise await self._waits(candidate, verdict, cause)
            return await whole(self._install(candidate, verdict, cause))

    async def approve(
        self,
        id: str,  # noqa: A002 - the word that a person types
        who: str,
        said: Progress = lambda stage: None,
    ) -> Installed:
        """Install what waits under `id`: a person allows what it raises. It is judged once more before.

        Raises `pending.NotPending`, `CandidateRefused` and `NotChanged`.
        """
        async with self.lock:
            entry = await asyncio.to_thread(self._books.pending.get, id)
            proposal, cause = entry.proposal, _cause(entry.proposal.cause)
            path, live = proposal.file, self._change_installer.sha(proposal.file)
            if why := entry.stale(live):
                raise pending.NotPending(why)
            also = {name: TrialFile(new.encode(), 0o755) for name, new in proposal.also.items()}
            expect = _prediction(proposal.prediction)
            candidate = self._gate_contexts.candidate(path, lambda before: proposal.content, expect, also)
            verdict = await self._judged(candidate, said)
            # The decision is kept once it can be carried out: what is refused now waits as it did.
            if not entry.is_of(self._proposal(candidate, verdict, cause)):
                raise NotChanged(
                    f"{id} would reach something else now than was approved: {'; '.join(verdict.raised) or 'nothing'}; "
                    "let it be proposed again"
                )
            await asyncio.to_thread(self._books.pending.decide, id, True, who, live)
            ordered = msgspec.structs.replace(cause, by="person")
            self._change_installer.happened("approved", ordered, [path], f"{id} by {who}")
            installed = await whole(self._install(candidate, verdict, ordered))
            await asyncio.to_thread(self._books.pending.remove, id)
            return installed

    async def reject(self, id: str, who: str, why: str = "") -> pending.PendingEntry:  # noqa: A002 - as above
        """Refuse what waits under `id` for good. Raises `pending.NotPending`."""
        path = (await asyncio.to_thread(self._books.pending.get, id)).proposal.file
        entry = await asyncio.to_thread(
            self._books.pending.decide, id, False, who, self._change_installer.sha(path)
        )
        self._change_installer.happened(
            "rejected", ChangeCause(by="person"), [entry.proposal.file], why or f"{id} by {who}"
        )
        return entry

    # -- freezing --------------------------------------------------------------------------------------

    async def freeze(self, why: str = "") -> None:
        """Change nothing until a person thaws it. Raises `OSError`."""
        self._books.keep(_FROZEN, {"why": why or "a person froze it"})
        self._change_installer.happened("frozen", ChangeCause(by="person"), [], why)

    async def thaw(self) -> None:
        """Let evolve change again what was frozen by a person, or by too many failures. Raises `OSError`."""
        self._books.keep(_FROZEN, None)
        self._observer.thaw()
        self._change_installer.happened("thawed", ChangeCause(by="person"), [], "")

    async def frozen(self) -> str:
        """Return why nothing may change now; empty when it may."""
        if self._books.safe is not None:
            return self._books.safe.why
        kept = self._books.note(_FROZEN)
        if isinstance(kept, dict):
            return f"changes are frozen: {kept.get('why')}; a person can end it with: instar evolve thaw"
        return self._observer.frozen() or await self._policy.frozen()

    async def may_change(self, path: str, cause: ChangeCause) -> None:
        """Raise `NotChanged` when the file may not be changed now by whoever wants to; a person always may."""
        if cause.by == "person":
            return
        why = await self.frozen()
        if why:
            raise NotChanged(f"{path} was not changed: {why}")
        try:
            pin = self._books.pins.find(path)
        except BadPin as error:
            raise NotChanged(f"{path} was not changed: {error}") from None
        if pin is not None:
            raise NotChanged(f"{path} was not changed: it is pinned by {pin.by or 'a person'}")

    # -- the parts -------------------------------------------------------------------------------------

    async def _judged(self, candidate: Candidate, said: Progress = lambda stage: None) -> GateVerdict:
        gate_context = await self._gate_contexts.gate_context(candidate)
        return await judge.judge(candidate, gate_context, await self._policy.bench(), said)

    async def _heard(self, candidate: Candidate, verdict: GateVerdict, cause: ChangeCause) -> None:
        """Let other plugins refuse what passed its trials. Raises `CandidateRefused`."""
        before = None if candidate.before is None else text(candidate.before.content)
        after = text(candidate.after.content)
        why = await self._object(
            CandidateInput(
                path=candidate.path,
                before=before,
                after=after,
                diff=edit.diff(candidate.path, before or "", after),
                raised=list(verdict.raised),
                tool=cause.tool,
                session_id=cause.session,
                call_id=cause.call,
                agent=cause.agent,
            )
        )
        if why:
            raise CandidateRefused("hooks", why)

    async def _install(self, candidate: Candidate, verdict: GateVerdict, cause: ChangeCause) -> Installed:
        """Make a candidate live that may be."""
        books, path = self._books, candidate.path
        old, new = self._change_installer.sha(path), sha256(candidate.after.content)
        if verdict.held is not None and verdict.settled is not None:
            # First, so that no crash leaves a version of the agent's that runs as the person's own.
            books.grants.expect(candidate.file, new, verdict.held, old, verdict.settled)
        said = trailers.Trailers(
            by="person" if cause.by == "person" else "",
            epoch=books.ledger.next_epoch,
            gate=[f"{stage.name}: {stage.found} ({stage.ms} ms)" for stage in verdict.stages],
            cost=verdict.ms,
            expect="" if candidate.expect is None else msgspec.json.encode(candidate.expect).decode(),
        )
        tool = cause.tool or "instar evolve"
        try:
            with self._observer.trying(path, old, new, candidate.expect):
                changed = await self._change_installer.make(
                    candidate.changes, f"{tool} {candidate.file}", called_by(cause, said)
                )
        except NotChanged as error:
            await self._change_installer.refused(path, cause, "install", str(error))
            raise
        if verdict.settled is not None:
            books.grants.settle(candidate.file, verdict.settled)
        await self._change_installer.installed(changed, cause, verdict.ms)
        before = "" if candidate.before is None else text(candidate.before.content)
        diff = edit.diff(path, before, text(candidate.after.content))
        return Installed(path, diff, changed.epoch, verdict, commit_of(changed))

    async def _waits(self, candidate: Candidate, verdict: GateVerdict, cause: ChangeCause) -> NotChanged:
        """Let a candidate wait for a person."""
        proposal = self._proposal(candidate, verdict, cause)
        try:
            entry = await asyncio.to_thread(self._books.pending.put, proposal)
        except pending.NotPending as error:
            return NotChanged(f"{candidate.path} was not changed: {error}")
        raised = "\n".join(f"- {sentence}" for sentence in verdict.raised)
        if entry.state == "rejected":
            return NotChanged(
                f"{candidate.path} was not changed: a person has rejected just this ({entry.id}).\n{raised}"
            )
        await self._change_installer.refused(
            candidate.path, cause, "authority", f"it waits for a person as {entry.id}: {raised}"
        )
        return Waits(
            entry.id,
            f"{candidate.path} was not changed: it passed its trials, but it would reach more than it may:\n{raised}\n"
            f"It waits for a person as {entry.id} (instar evolve approve {entry.id}). Propose it without that to have "
            "it installed at once.",
        )

    def _proposal(self, candidate: Candidate, verdict: GateVerdict, cause: ChangeCause) -> pending.Proposal:
        before = "" if candidate.before is None else text(candidate.before.content)
        after = text(candidate.after.content)
        return pending.Proposal(
            file=candidate.path,
            base=self._change_installer.sha(candidate.path),
            content=after,
            raised=verdict.raised,
            cause=pending.Cause(cause.session, cause.call, cause.tool, cause.agent, cause.message),
            also={path: text(file.content) for path, file in candidate.also.items()},
            diff=edit.diff(candidate.path, before, after),
            test=verdict.test or "",
            replay=verdict.replay.text() if verdict.replay is not None else "",
            prediction=msgspec.to_builtins(candidate.expect),
        )


def _cause(kept: pending.Cause) -> ChangeCause:
    return ChangeCause(
        "agent", kept.tool or "", kept.session or "", kept.call or "", kept.agent or "", kept.message or ""
    )


def _prediction(kept: Any) -> Prediction | None:
    """The prediction of a proposal, which was valid when it was made."""
    return None if kept is None else prediction.restore(kept)
