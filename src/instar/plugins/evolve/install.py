"""Makes one change of a workspace, and reports it to the log, subscribers and the audit log."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from instar.plugin import event
from instar.plugins.evolve.gate import authority
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.audit_log import AuditEntry, By
from instar.plugins.evolve.history.audit_log import Kind as Happened
from instar.plugins.evolve.ledger.install import Changed, ChangeRefused
from instar.plugins.evolve.ledger.ledger import LedgerError, Versions, WorkspaceBusy
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile

log = logging.getLogger("instar.evolve")


class NotChanged(Exception):
    """A change was not made. The text says why and what to do. The workspace is unchanged."""


class ChangeCause(msgspec.Struct, frozen=True):
    """Who changes something and why: the model's tool call, with the message that made it, or a person's order."""

    by: By = "agent"
    tool: str = ""
    session: str = ""
    call: str = ""
    agent: str = ""
    message: str = ""


class ChangeInstaller:
    """Makes the changes of one workspace, and reports them.

    `publish` sends an event's properties, `refresh` is called when something was installed.
    """

    def __init__(
        self,
        storage: Storage,
        publish: Callable[[Any], Awaitable[None]],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        self._storage = storage
        self._publish = publish
        self._refresh = refresh

    async def make(
        self,
        changes: Mapping[str, TrialFile | None],
        subject: str,
        said: trailers.Trailers,
        left: Versions | None = None,
    ) -> Changed:
        """Put files in place (None deletes) as one commit; a person leaves `left` by it. Raises `NotChanged`."""
        with explained():
            return await self._storage.installer.install(changes, trailers.write(subject, said), left)

    def version(self, path: str) -> str:
        """Return git's id of the accepted version of a file; "" for none."""
        version = self._storage.ledger.files.get(path)
        return "" if version is None else version.blob

    async def installed(
        self, changed: Changed, cause: ChangeCause, gate: dict[str, int], learned: str, report: str
    ) -> None:
        """Report a change that went live, the ms of the gate's stages, what is new, and the id of the gate's report."""
        log.info(
            "evolution=installed epoch=%d files=%s tool=%s session=%s",
            changed.epoch,
            ",".join(changed.files),
            cause.tool,
            cause.session,
        )
        self.happened("installed", cause, changed.files, learned, changed, sum(gate.values()), report=report)
        await self._publish(
            event.EvolveInstalled(
                files=changed.files, epoch=changed.epoch, session_id=cause.session or None, gate=gate
            )
        )
        await self.live(changed)

    async def refused(
        self, path: str, cause: ChangeCause, stage: str, why: str, gate: dict[str, int], report: str
    ) -> None:
        """Report a refused candidate, with the ms of the gate's stages and the id of the gate's report."""
        log.info("evolution=refused file=%s stage=%s", path, stage)
        self.happened("refused", cause, [path], why, stage=stage, report=report)
        await self._publish(
            event.EvolveRefused(
                file=path, stage=stage, message=why[:2000], session_id=cause.session or None, gate=gate
            )
        )

    async def rolled_back(self, changed: Changed, cause: ChangeCause, why: str) -> None:
        """Report a rollback, and restore the grants of the scripts."""
        log.warning(
            "evolution=rolledback epoch=%d files=%s why=%r", changed.epoch, ",".join(changed.files), why
        )
        for path in changed.files:
            try:
                self._regrant(path)
            except OSError as error:
                # Its scripts run behind the shield then (`ExecutionPolicy.held`).
                log.error("evolve=grants problem=%r", str(error))
        self.happened("rolled back", cause, changed.files, why, changed)
        await self._publish(event.EvolveRolledback(files=changed.files, epoch=changed.epoch, message=why))
        await self.live(changed)

    async def live(self, changed: Changed) -> None:
        """Tell all subscribers what is live now."""
        for file in changed.files:
            await self._publish(event.FileEdited(file=str(self._storage.ledger.root / file)))
        await self._refresh()

    def happened(
        self,
        kind: Happened,
        cause: ChangeCause,
        files: list[str],
        why: str,
        changed: Changed | None = None,
        cost: int | None = None,
        stage: str = "",
        report: str = "",
    ) -> None:
        """Add an entry to the audit log. A failed write loses the entry, not the change."""
        made: dict[str, Any] = msgspec.structs.asdict(cause)
        if changed is not None:
            commit = "" if changed.commit is None else changed.commit.id
            made |= {"epoch": changed.epoch, "commit": commit}
        try:
            self._storage.audit_log.add(
                AuditEntry(kind=kind, files=files, text=why, stage=stage, cost=cost, report=report, **made)
            )
        except OSError as error:
            log.warning("evolve=chronicle problem=%r", str(error))

    def _regrant(self, path: str) -> None:
        """Restore the grant of the version that is live again."""
        folder, _, file = path.partition("/")
        known = self._storage.grants.of(file) if folder == "hooks" else None
        if known is None:
            return
        held = known.versions.get(self.version(path))
        if held is not None:
            grant = authority.after(known.grant, held.authority, True, self._storage.grants.others(file))
            self._storage.grants.settle(file, grant)
        elif self.version(path) == known.own:
            self._storage.grants.settle(file, authority.reopened(known.grant))


def called_by(cause: ChangeCause, said: trailers.Trailers) -> trailers.Trailers:
    """Return trailers with the session, call and agent of a cause."""
    return msgspec.structs.replace(said, session=cause.session, call=cause.call, agent=cause.agent)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn the errors of a change into `NotChanged`."""
    try:
        yield
    except (ChangeRefused, LedgerError, WorkspaceBusy) as error:
        raise NotChanged(f"nothing was changed: {error}") from None
