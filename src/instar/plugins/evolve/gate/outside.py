"""What of a workspace nobody accepted, outside the guarded folders: a candidate is tried without it.

A test may load files that no gate guards, a ``lib/`` for instance, and the model can write those. So a trial has them
as a person left them: in the version of the newest commit that is not the agent's. What git does not know is not
there. The folders of the scripts' own are data, and stay as they are.
"""

from collections.abc import Collection

from instar.plugins.evolve.history.repository import Revision, Revisions, WorkspaceRepository, both
from instar.plugins.evolve.ledger.own import left
from instar.plugins.evolve.trial import Changes, TrialFile
from instar.plugins.evolve.workspace import GUARDED, SCRIPTS_OWN


async def unaccepted(repository: WorkspaceRepository, revisions: Revisions, kept: Collection[str]) -> Changes:
    """Return what puts the files outside the guarded folders back to what a person left, by path.

    `kept` are entries of the workspace's own folder that stay as they are. Raises `git.GitError` and
    `process.ProcessError`.
    """
    stays = {*GUARDED, *SCRIPTS_OWN, *kept}
    known, changed = await both(_known(repository), _uncommitted(repository))
    entries = sorted(set(known) - stays)
    commits = await revisions.touching(entries) if entries else []
    touched: dict[str, list[Revision]] = {}
    for one in commits:
        for path in one.files:
            touched.setdefault(path, []).append(one)
    wanted = {path: last.commit for path, those in touched.items() if (last := left(those)) is not None}
    wanted |= {path: commit for path, commit in changed.items() if path not in wanted}
    found: dict[str, TrialFile | None] = {}
    for path, commit in wanted.items():
        if path.partition("/")[0] not in stays:
            file = None if commit is None else (await repository.files(commit, [path])).get(path)
            found[path.rstrip("/")] = None if file is None else TrialFile(*file)
    return found


async def _known(repository: WorkspaceRepository) -> list[str]:
    """The entries of the workspace's own folder in HEAD; none before the first commit."""
    if not await repository.text("rev-parse", "--verify", "--quiet", "HEAD", check=False):
        return []
    return (await repository.text("ls-tree", "--name-only", "-z", "HEAD")).split("\0")[:-1]


async def _uncommitted(repository: WorkspaceRepository) -> dict[str, str | None]:
    """What differs from HEAD, with the commit that has it; None for what git does not know (a folder as one path)."""
    asked = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignored=matching")
    printed = await repository.text("--no-optional-locks", *asked)
    return {line[3:]: None if line[:2] in ("??", "!!", "A ") else "HEAD" for line in printed.split("\0")[:-1]}
