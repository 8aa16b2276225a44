"""What a shell completes after the commands of `instar evolve`."""

from instar.plugins.evolve import person
from instar.plugins.evolve.cli.command import NamedWorkspace, Names, OpenedEngine, completed
from instar.plugins.evolve.evals.case import load
from instar.plugins.evolve.gate import score
from instar.plugins.evolve.history import timeline
from instar.plugins.evolve.history.timeline import TimelinePage
from instar.plugins.evolve.workspace import FOLDERS

_CHANGES = 50
"""The newest changes that are offered."""


async def _refs(found: NamedWorkspace, at: OpenedEngine) -> Names:
    storage = at.engine.storage
    told = await timeline.page(storage.revisions, storage.audit_log, TimelinePage(_CHANGES))
    return [(one.commit[:8], one.subject) for one in told.changes if one.commit]


async def _waiting(found: NamedWorkspace, at: OpenedEngine) -> Names:
    listed = person.pending(at.engine, rejected=False)
    return [(one.id, one.proposal.file) for one in listed.entries]


async def _files(found: NamedWorkspace, at: OpenedEngine) -> Names:
    paths = (path for folder in FOLDERS for path in sorted((found.root / folder).rglob("*")))
    return [(path.relative_to(found.root).as_posix(), "") for path in paths if path.is_file()]


async def _evals(found: NamedWorkspace, at: OpenedEngine) -> Names:
    suite = load(found.root, {})
    programs = [name for name in score.find(found.root) if name not in suite.programs]
    return [(name, "") for name in (*(case.name for case in suite.cases), *suite.problems, *programs)]


async def _pinned(found: NamedWorkspace, at: OpenedEngine) -> Names:
    return [(one.file, one.by) for one in at.engine.storage.pins.all()]


refs = completed(_refs)
waiting = completed(_waiting)
files = completed(_files)
evals = completed(_evals)
pinned = completed(_pinned)
