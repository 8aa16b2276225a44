"""Which steps changed the agent: for `instar stats`, which tells what they cost."""

from pathlib import Path
from typing import Final, NamedTuple

from instar.plugins.evolve.history.audit_log import AuditLog

_CHANGES: Final = frozenset(("installed", "refused", "rolled back"))


class EvolveCall(NamedTuple):
    """A tool call by which the agent changed itself, or tried to; `kind` is the chronicle's.

    `message` is the message that made it, "" in what older versions wrote.
    """

    session: str
    call: str
    kind: str
    message: str


def changes(data: Path) -> list[EvolveCall]:
    """Return the agent's own changes of every workspace whose books lie in `data`, the plugin's folder.

    What cannot be read is left out: what it costs is only told, nothing is decided by it.
    """
    found = [
        EvolveCall(entry.session, entry.call, entry.kind, entry.message)
        for folder in sorted((data / "workspaces").glob("*"))
        for entry in AuditLog(folder).read().entries
        if entry.by == "agent" and entry.kind in _CHANGES and entry.session and entry.call
    ]
    return list(dict.fromkeys(found))
