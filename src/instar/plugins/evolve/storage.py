"""The storage: all that evolve keeps on a workspace, in instar's own data folder, where no child can write or read."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from instar.plugin import Means, PluginInput, process, sandbox
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.forget.uses import Uses
from instar.plugins.evolve.gate.known import Known
from instar.plugins.evolve.gate.pending import Pending
from instar.plugins.evolve.gate.record import Bounds, Records
from instar.plugins.evolve.gate.reference import References
from instar.plugins.evolve.gate.report import GateReports
from instar.plugins.evolve.grants import ScriptGrants
from instar.plugins.evolve.heartbeat.book import HeartbeatBook as Beats
from instar.plugins.evolve.history.audit_log import AuditLog
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.pins import Pins
from instar.plugins.evolve.history.repository import Revisions, WorkspaceRepository
from instar.plugins.evolve.ledger.goodtree import GoodTree
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.own import Own, Safe
from instar.plugins.evolve.takeover import take_over


class Storage:
    """The storage of the workspace `root`. `shown` are its folders that children may read.

    `safe` is set where only what a person left is to run.
    """

    def __init__(
        self,
        given: PluginInput | Means,
        processes: process.Processes,
        root: Path,
        history: History,
        config: EvolveConfig,
    ) -> None:
        folder = given.data / "workspaces" / _key(root)
        self.folder = folder
        good, safe = folder / "good", folder / "safe"
        self.shown = (good, safe)
        self.ledger = Ledger(folder, root)
        self.repository = WorkspaceRepository(processes, root)
        self.installer = Installer(self.ledger, self.repository, history.commit)
        self.tree = GoodTree(self.ledger, self.repository, good)
        self.database = Database(folder, take_over)
        self.grants = ScriptGrants(self.database)
        self.pending = Pending(self.database)
        self.audit_log = AuditLog(self.database)
        self.reports = GateReports(self.database)
        self.known = Known(self.database)
        self.uses = Uses(self.database)
        self.references = References(self, lambda: self.ledger.files, self.content)
        self.pins = Pins(self.database, config.pins)
        self.revisions = Revisions(processes, root)
        self.own = Own(self.ledger, self.repository, self.revisions)
        self.safe: Safe | None = None
        self._safe_tree = GoodTree(self.ledger, self.repository, safe)
        self.checkouts = ReplayCheckouts(processes, root, folder / "checkouts")
        self.records = Records(
            self.database,
            lambda: [*(secret.reveal() for secret in given.children.secrets()), *_secret(given.environment)],
            Bounds(calls=config.replay_records),
        )
        self.heartbeat = Beats(self.database)

    def begin_safe(self) -> Safe:
        """Let only what a person left run from now on."""
        self.safe = Safe(self.ledger, self.own, self._safe_tree)
        return self.safe

    async def content(self, blob: str) -> bytes | None:
        """Return a content by git's id of it, from the ledger or from git; None where no copy is left."""
        return self.ledger.kept.content(blob) or await self.repository.blob(blob)

    def note(self, name: str) -> Any:
        """Return the JSON value that was kept under `name`; None when there is none, or it cannot be read."""
        try:
            return msgspec.json.decode(self.database.note(name) or b"")
        except (OSError, ValueError, TypeError):
            return None

    def keep(self, name: str, value: Any, *, durable: bool = True) -> None:
        """Keep a JSON value under `name`; `durable`: on the disk. Raises `OSError`."""
        encoded = msgspec.json.encode(value)
        # The state of calls is kept at each step, and most of its parts stay as they were.
        if self.database.note(name) != encoded:
            self.database.keep(name, encoded, durable=durable)

    async def close(self) -> None:
        """Write what waits to be written, and close the database."""
        await self.records.close()
        self.database.close()


def _key(root: Path) -> str:
    """A folder's name for a workspace: its own, so that a person finds it, and its path's hash."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", root.name)[:40] or "root"
    return f"{name}-{sha256(str(root.resolve()).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def _secret(variables: Mapping[str, str]) -> list[str]:
    """The values of the person's variables that look like secrets: scripts may be given them (`evolve.env`)."""
    return [value for name, value in variables.items() if sandbox.is_secret_name(name)]
