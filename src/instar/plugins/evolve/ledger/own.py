"""Own: which guarded files are as a person left them, and what they left where the agent has changed one since.

What a person put there by hand and accepted is theirs; what went live through the gate is the agent's, whoever
approved it. It is written down here when it happens. For a workspace that is new here (a clone) git's history tells it:
a commit whose trailers name a session, a call or an agent is the agent's; one that rolls back or restores is nobody's.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from instar.plugin import document
from instar.plugins.evolve import script
from instar.plugins.evolve.history.revision import Revision, Revisions, is_start
from instar.plugins.evolve.ledger import vault
from instar.plugins.evolve.ledger.book import LedgerError
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.repository import FAILED, WorkspaceRepository
from instar.plugins.evolve.ledger.standing import Version

log = logging.getLogger("instar.evolve")

RESTORED: Final = "restore by hand"
"""The subject of a commit that puts accepted versions back."""

_TOOL: Final = re.compile(r"(?:[a-z0-9_-]+, )*[a-z0-9_-]+_(?:hook|prompt)_(?:write|edit)\b")
"""The subject of a change by one of evolve's tools, also where its trailers were lost."""


class _Book(msgspec.Struct, frozen=True):
    """The file's content. `changed`: what a person left at each path that the agent changed, None: nothing.

    `since`: the epoch of the agent's first change after that, where it is known. `asked`: whether git was asked about
    what was there before this book.
    """

    changed: dict[str, Version | None] = {}
    since: dict[str, int] = {}
    asked: bool = False


_Change = Callable[[dict[str, Version | None]], dict[str, Version | None]]


class Left(NamedTuple):
    """What a person left of a file that the agent changed: the commit (an id) that has it, None for no file."""

    commit: str | None


class Own:
    """Whose the guarded files of one workspace are, kept in `file`, the only one in its folder."""

    def __init__(
        self, file: Path, ledger: Ledger, repository: WorkspaceRepository, revisions: Revisions
    ) -> None:
        self._file = file
        self._ledger = ledger
        self._repository = repository
        self._revisions = revisions
        self._read: tuple[tuple[int, int, int] | None, _Book] = (None, _Book())

    @property
    def changed(self) -> Mapping[str, Version | None]:
        """Return what a person left at each path where the agent's version may be live; None: the agent made it."""
        return self._book().changed

    @property
    def since(self) -> Mapping[str, int]:
        """Return the epoch of the agent's first change of a path after what `changed` has of it, where it is known."""
        return self._book().since

    def is_changed(self, path: str) -> bool:
        """Whether the live version of a file is the agent's."""
        changed = self.changed
        return path in changed and changed[path] != self._ledger.files.get(path)

    def has_made(self, folder: str) -> bool:
        """Whether a live file below `folder` (with a slash at its end) is one that the agent made anew."""
        made = [path for path, left in self.changed.items() if left is None and path.startswith(folder)]
        return any(self.is_changed(path) for path in made)

    @property
    def problem(self) -> str:
        """Why it is not known of every file whose it is; empty when it is."""
        if self._book().asked:
            return ""
        return "git could not be asked which files the agent had changed before instar saw this workspace"

    async def open(self) -> None:
        """Ask git about a workspace that is new here."""
        if self._book().asked:
            return
        with _logged():
            told = await self.told(self._ledger.files)
            self._save(lambda changed: {**told, **changed}, asked=True)

    def leave(self, paths: Iterable[str]) -> None:
        """Keep what stands accepted at these paths: the agent is about to change them. Raises `LedgerError`."""
        files = self._ledger.files
        fresh = {path: files.get(path) for path in paths if path not in self.changed}
        if not fresh:
            return
        try:
            self._save(
                lambda changed: {**fresh, **changed}, since=dict.fromkeys(fresh, self._ledger.next_epoch)
            )
        except OSError as error:
            raise LedgerError(f"{self._file} cannot be written: {error}") from None

    def take(self, paths: Iterable[str]) -> None:
        """Take what a person accepted at these paths for theirs."""
        gone = set(paths)
        if gone & self.changed.keys():
            with _logged():
                self._save(lambda changed: {path: one for path, one in changed.items() if path not in gone})

    async def taken_back(self, commit: Revision, paths: Collection[str]) -> None:
        """Ask git about these paths, where a person took back a change of their own: what they left was before it.

        Where the agent's change is live again, what they left is what it was; git may never have had it.
        """
        if is_agents(commit):
            return
        files = self._ledger.files
        with _logged():
            told = await self.told({path: files[path] for path in paths if path in files})
            again = is_agents(_about(commit, await self._revisions.touching()))
            self._save(
                lambda changed: (
                    {path: one for path, one in changed.items() if path not in paths}
                    | told
                    | {path: changed[path] for path in paths if again and path in changed}
                )
            )

    async def told(self, files: Mapping[str, Version]) -> dict[str, Version | None]:
        """Return what git says a person left at those of `files` that the agent changed.

        Raises `git.GitError` and `process.ProcessError`.
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
            same = at_head is not None and vault.sha256(at_head[0]) == files[path].sha
            if same or path not in strange:  # else a person changed it since, and it was accepted
                found[path] = None if one is None else await self._version(one, path)
        return found

    async def _version(self, commit: str, path: str) -> Version | None:
        """The file as a commit has it, its content kept in the vault."""
        found = (await self._repository.files(commit, [path])).get(path)
        if found is None:  # the commit removed it
            return None
        content, mode = found
        return Version(self._ledger.vault.put(content, durable=False), mode, len(content))

    def _book(self) -> _Book:
        try:
            status = self._file.stat()
            mark = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._read[0] != mark:
                self._read = (mark, msgspec.json.decode(self._file.read_bytes(), type=_Book))
        except FileNotFoundError:
            return _Book()
        except (OSError, msgspec.MsgspecError) as error:
            # What is lost with it git tells again.
            log.warning("evolve=own file=%s problem=%s", self._file, script.show(str(error)))
            return _Book()
        return self._read[1]

    def _save(
        self, change: _Change, *, asked: bool | None = None, since: Mapping[str, int] | None = None
    ) -> None:
        with document.locked(self._file.parent):
            book = self._book()
            changed, known = change(book.changed), {**(since or {}), **book.since}
            kept = {path: epoch for path, epoch in known.items() if path in changed}
            made = _Book(changed, kept, book.asked if asked is None else asked)
            document.atomic_write(self._file, msgspec.json.encode(made), mode=0o600)


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


def _about(commit: Revision, commits: Sequence[Revision]) -> Revision:
    """Return what a rollback is about at last, and any other commit as it is; `commits` newest first."""
    for one in commits:
        if commit.trailers.rolls_back and is_start(commit.trailers.rolls_back, one.id):
            commit = one
    return commit


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
    except (*FAILED, OSError) as error:
        log.warning("evolve=own problem=%s", script.show(str(error)))
