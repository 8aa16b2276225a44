"""Own: which guarded files are as a person left them, and what they left where the agent has changed one since.

What a person put there by hand and accepted is theirs; what went live through the gate is the agent's, whoever
approved it. The ledger keeps it (`Ledger.left`). For a workspace that is new here (a clone) git's history tells it: a
commit whose trailers name a session, a call or an agent is the agent's; one that rolls back or restores is nobody's.

A safe start (``instar run --safe``) runs what a person left, in a tree of its own beside the last good one; nothing is
changed meanwhile.
"""

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from instar.plugin import accepted
from instar.plugins.evolve import script
from instar.plugins.evolve.history.repository import (
    FAILED,
    Revision,
    Revisions,
    WorkspaceRepository,
    is_start,
)
from instar.plugins.evolve.ledger.goodtree import GoodTree, Served
from instar.plugins.evolve.ledger.ledger import Ledger, LedgerError, Versions
from instar.plugins.evolve.ledger.standing import Version

log = logging.getLogger("instar.evolve")

RESTORED: Final = "restore by hand"
"""The subject of a commit that puts accepted versions back."""

_TOOL: Final = re.compile(r"(?:[a-z0-9_-]+, )*[a-z0-9_-]+_(?:hook|prompt)_(?:write|edit|propose)\b")
"""The subject of a change by one of evolve's tools, also where its trailers were lost."""


class Left(NamedTuple):
    """What a person left of a file that the agent changed: the commit (an id) that has it, None for no file."""

    commit: str | None


class Own:
    """Whose the guarded files of one workspace are."""

    def __init__(self, ledger: Ledger, repository: WorkspaceRepository, revisions: Revisions) -> None:
        self._ledger = ledger
        self._repository = repository
        self._revisions = revisions

    @property
    def changed(self) -> Versions:
        """Return what a person left at each path where the agent's version is live; None: the agent made it."""
        left = self._ledger.left
        return {path: left.get(path) for path in self._ledger.files if self.is_changed(path)}

    def is_changed(self, path: str) -> bool:
        """Whether the live version of a file is the agent's."""
        live = self._ledger.files.get(path)
        return live is not None and live != self._ledger.left.get(path)

    def has_made(self, folder: str) -> bool:
        """Whether a live file below `folder` (with a slash at its end) is one that the agent made anew."""
        left = self._ledger.left
        return any(path.startswith(folder) and path not in left for path in self._ledger.files)

    @property
    def problem(self) -> str:
        """Why it is not known of every file whose it is; empty when it is."""
        if self._ledger.is_told:
            return ""
        return "git could not be asked which files the agent had changed before instar saw this workspace"

    async def open(self) -> None:
        """Ask git about a workspace that is new here."""
        if self._ledger.is_told or not self._ledger.epoch:
            return
        with _logged():
            changed = set(self.changed)
            told = await self.told(self._ledger.files)
            self._ledger.leave({path: one for path, one in told.items() if path not in changed}, told=True)

    async def told(self, files: Mapping[str, Version]) -> dict[str, Version | None]:
        """Return what git says a person left at those of `files` that the agent changed.

        Raises `git.GitError`, `process.ProcessError` and `LedgerError`.
        """
        commits = await self._revisions.touching()
        said = {path: left([one for one in commits if path in one.files]) for path in files}
        by_agent = {path: one.commit for path, one in said.items() if one is not None}
        if not by_agent:
            return {}
        head, strange = await self._repository.files(), set(await self._revisions.uncommitted())
        found: dict[str, Version | None] = {}
        for path, one in by_agent.items():
            at_head = head.get(path)
            same = at_head is not None and accepted.blob_id(at_head[0]) == files[path].blob
            if same or path not in strange:  # else a person changed it since, and it was accepted
                found[path] = None if one is None else await self._version(one, path)
        return found

    async def _version(self, commit: str, path: str) -> Version | None:
        """The file as a commit has it, its content kept."""
        found = (await self._repository.files(commit, [path])).get(path)
        if found is None:  # the commit removed it
            return None
        return self._ledger.keep(*found, durable=False)


def left(commits: Sequence[Revision]) -> Left | None:
    """Return what a person left of a file, told by the commits that changed it, newest first; None: it stands.

    The newest commit counts that is a person's: neither taken back by a later one, nor one that takes back or restores,
    nor the agent's. Where no commit of the agent's is newer, the file stands as a person left it.
    """
    gone: list[str] = []
    is_changed = False
    for one in commits:
        if one.trailers.rolls_back:
            # One that was taken back itself takes nothing back: what it was about is live again.
            gone += [] if _is_named(one.id, gone) else [one.trailers.rolls_back]
        elif one.trailers.by == "instar" or one.subject == RESTORED or _is_named(one.id, gone):
            continue
        elif is_agents(one):
            is_changed = True
        else:
            return Left(one.id) if is_changed else None
    return Left(None) if is_changed else None


def is_agents(commit: Revision) -> bool:
    """Whether a commit is of a tool call of the model's."""
    said = commit.trailers
    return bool(said.session or said.call or said.agent or _TOOL.match(commit.subject))


def _is_named(commit: str, names: Iterable[str]) -> bool:
    return any(is_start(name, commit) for name in names)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Let git's or the disk's failing cost what was to be written down, and no more."""
    try:
        yield
    except (*FAILED, LedgerError) as error:
        log.warning("evolve=own problem=%s", script.show(str(error)))


class Safe:
    """What a person left of a workspace, served from `tree`."""

    def __init__(self, ledger: Ledger, own: Own, tree: GoodTree) -> None:
        self._ledger = ledger
        self._own = own
        self._tree = tree

    @property
    def files(self) -> dict[str, Version]:
        """Return what a person left, by path in the workspace. What they deleted since is not in it."""
        left = self._ledger.left
        return {path: left[path] for path in self._ledger.files if path in left}

    @property
    def changed(self) -> list[str]:
        """Return the files that are not what is live now, a phrase each."""
        files, mine = self._ledger.files, self.files
        return [
            f"{path} {'as a person left it' if path in mine else 'left out, since the agent made it'}"
            for path in sorted(files)
            if mine.get(path) != files[path]
        ]

    @property
    def why(self) -> str:
        """Say that this run is safe, what differs from what is live, and how to end it."""
        changed = ", ".join(self.changed) or "the agent has changed nothing here"
        doubt = f"; {self._own.problem}" if self._own.problem else ""
        return f"this run is safe (--safe): {changed}{doubt}; nothing is changed until instar is started without it"

    async def serve(self) -> Served:
        """Return where scripts run: in the tree, put right if need be. Raises `NotServed`."""
        self._ledger.refresh()
        return await self._tree.make(self.files)

    def gather(self) -> None:
        """Move what scripts made in the tree into the workspace."""
        self._tree.gather()


class Unkept:
    """A plugin's values that end with the process: what a safe run learns must not meet what is live."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""
        return self._held.get(key)

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""
        if value is None:
            self._held.pop(key, None)
        else:
            self._held[key] = value

    async def swap(self, key: str, before: Any, value: Any) -> bool:
        """Set the value for `key` if it still is `before` (None: there is none); return whether it was."""
        if self._held.get(key) != before:
            return False
        await self.set(key, value)
        return True

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""
        return {key: value for key, value in self._held.items() if key.startswith(prefix)}
