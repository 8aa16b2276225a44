"""The workspace's git history: its own repository, the `initial` snapshot, a commit per tool run.

Only what a tool run changed is committed; what the person has staged or left uncommitted stays as it is.
Git missing or failing costs the commit, never the tool run: it becomes a debt, and is made when git works again.

The law of debts: a change is one commit of its own, also a late one. A file that a newer change claims belongs to that
one; a debt that has lost all its files this way is named in the newer one's message (``Makes-up``). Debts outlive the
process where a database was named for them.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from sqlite3 import Connection
from typing import Final

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve.database import Database, decoded
from instar.plugins.evolve.history import trailers, tree
from instar.plugins.evolve.history.plumbing import CommitResult, Locked, Plumbing, WorkspaceCommit
from instar.plugins.evolve.history.repository import INITIAL

log = logging.getLogger("instar.evolve")


class Debt(msgspec.Struct, frozen=True):
    """A change that is owed its commit: paths relative to the workspace, and the commit's message."""

    files: list[str]
    message: str


class Debts:
    """What is owed, the oldest first."""

    def __init__(self) -> None:
        # Neither list is changed: another takes its place.
        self.all: list[Debt] = []
        self._kept: list[Debt] = []
        self._database: Database | None = None

    def keep_in(self, database: Database) -> None:
        """Keep debts in `database` from now on, and take up those that an earlier process left there."""
        self._database = database
        newer, self.all = self.all, _read(database)
        self._kept = self.all
        for debt in newer:
            self.add(debt.files, debt.message)

    def add(self, files: Collection[str], message: str) -> None:
        """Owe the commit of these files."""
        claimed = set(files)
        if not claimed:
            return
        older, overtaken = list[Debt](), list[str]()
        for debt in self.all:
            left = [path for path in debt.files if path not in claimed]
            if left:
                older.append(msgspec.structs.replace(debt, files=left))
            else:
                overtaken += _named(debt.message)
        self.all = [*older, Debt(sorted(claimed), _naming(message, overtaken))]

    def left(self, debt: Debt, files: Collection[str]) -> None:
        """Only these files of a debt are owed still; none: it is paid."""
        kept = [msgspec.structs.replace(debt, files=sorted(files))] if files else []
        # While git was at work a newer change may have claimed its files: then it is not there any more.
        self.all = [now for one in self.all for now in (kept if one == debt else [one])]

    def save(self) -> None:
        """Write down what is owed, where that has changed; a disk that refuses is logged."""
        if self._database is None or self._kept == self.all:
            return
        try:
            rows = [(msgspec.json.encode(debt),) for debt in self.all]
            self._database.change(lambda connection: _replace(connection, rows))
        except (OSError, UnicodeEncodeError) as error:
            log.warning("git=owed problem=%r", str(error))
        else:
            self._kept = self.all


def _replace(connection: Connection, rows: list[tuple[bytes]]) -> None:
    connection.execute("DELETE FROM debt")
    connection.executemany("INSERT INTO debt VALUES (NULL, ?)", rows)


def _read(database: Database) -> list[Debt]:
    try:
        return decoded(database.rows("SELECT value FROM debt ORDER BY number"), Debt)
    except OSError as error:
        log.warning("git=owed problem=%r", str(error))
        return []


def _named(message: str) -> list[str]:
    """The changes that a message is about, a line each."""
    subject, said = trailers.read(message)
    whence = [f"session {said.session}" if said.session else "", f"call {said.call}" if said.call else ""]
    known = ", ".join(text for text in whence if text)
    return [*said.makes_up, f"{subject} ({known})" if known else subject]


def _naming(message: str, overtaken: list[str]) -> str:
    if not overtaken:
        return message
    subject, said = trailers.read(message)
    return trailers.write(subject, msgspec.structs.replace(said, makes_up=[*said.makes_up, *overtaken]))


__all__ = ["History", "WorkspaceCommit", "is_repository"]

_MARK: Final = "# written by instar when it made this repository\n"
_EXCLUDED: Final = _MARK + "__pycache__/\n*.pyc\n"
_BUSY: Final = (".lock': File exists", "but expected", "reference already exists")
"""What git says where another one is at work, or has moved the branch."""
_PAUSE: Final = 0.05


class History:
    """The repository at `root`. `problem` holds what git said when it last failed, until it works again.

    `guarded` gives the files that no tool run commits. `patience`: seconds to wait for another git's lock.
    """

    def __init__(self, processes: process.Processes, root: Path, *, patience: float = 1.0) -> None:
        self._root = root
        self._git = Plumbing(processes, root)
        self._patience = patience
        self._debts = Debts()
        self.problem: str | None = None
        self.guarded: Callable[[], set[str]] = set
        self.head: str | None = None
        """The newest commit, as far as it was made here; None before the first one."""

    async def prepare(self) -> None:
        """Make the workspace a repository of its own, with what stands in it as the `initial` commit.

        A workspace that is one already is left as it is; one inside another repository gets its own.
        """
        if is_repository(self._root) and not await self._is_half_made():
            await self._look()
            return
        try:
            await self._git.text("init", "--quiet")
            exclude = self._root / ".git" / "info" / "exclude"
            exclude.parent.mkdir(exist_ok=True)
            exclude.write_text(_EXCLUDED)
            made = await self._patiently(sorted(self.scan()), INITIAL)
            if made.commit is None:
                await self._git.text("commit", "--quiet", "--allow-empty", "--message", INITIAL)
            await self._look()
        except (git.GitError, process.ProcessError, OSError) as error:
            self._failed("make the workspace a git repository", error)

    async def keep_in(self, database: Database) -> None:
        """Keep what is owed in `database`, and pay what an earlier process owed there."""
        self._debts.keep_in(database)
        await self.settle()

    def scan(self) -> tree.Scan:
        """Return what stands in the workspace."""
        return tree.scan(self._root)

    def changed(self, before: tree.Scan) -> list[str]:
        """Return the files that differ from `before`, without those that somebody changed behind the gate."""
        after = self.scan()
        found = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        departed = self.guarded() if found else set()
        return [path for path in found if path not in departed]

    def owe(self, files: Collection[str], message: str) -> None:
        """Owe the commit of these files: there is no time for it now."""
        self._debts.add(files, message)
        self._debts.save()

    async def commit(self, files: Collection[str], message: str) -> WorkspaceCommit | None:
        """Commit these files as they stand, after what is owed; None when nothing differs or git failed.

        Of what is owed a file that somebody changed behind the gate since waits until a person accepts it.
        """
        self._debts.add(files, message)
        return await self._pay(set(files))

    async def settle(self) -> None:
        """Make the commits that are owed, as far as git works."""
        if self._debts.all:
            await self._pay(set())

    async def entries(self, limit: int) -> list[str]:
        """Return the newest `limit` commits, one line each, newest first. Raises `git.GitError`."""
        try:
            text = await self._git.text("log", f"--max-count={limit}", "--date=iso", "--format=%h %ad %s")
        except git.GitError as error:
            if "does not have any commits yet" in str(error):
                return []
            raise
        return text.splitlines()

    async def _pay(self, fresh: set[str]) -> WorkspaceCommit | None:
        """Make a commit of each debt, the oldest first; return that of the newest. `fresh`: files judged just now."""
        made, waits = None, dict[str, str]()
        try:
            made, waits = await self._pay_each(fresh)
            if made is not None and waits:
                # What was in their way may be gone with the newest.
                _, waits = await self._pay_each(fresh)
        except (git.GitError, process.ProcessError, OSError) as error:
            owed = sorted({path for debt in self._debts.all for path in debt.files})
            self._failed(f"commit {', '.join(owed)}", error)
            made = None
        else:
            self.problem = None
            if waits:
                reasons = "; ".join(f"{path}: {why}" for path, why in sorted(waits.items()))
                self._failed(f"commit {', '.join(sorted(waits))}", git.GitError(reasons))
        self._debts.save()
        return made

    async def _pay_each(self, fresh: set[str]) -> tuple[WorkspaceCommit | None, dict[str, str]]:
        made, waits = None, dict[str, str]()
        for debt in self._debts.all:
            departed = self.guarded() - fresh
            wanted = [path for path in debt.files if path not in departed]
            if not wanted:
                made = None
                continue
            result = await self._patiently(wanted, debt.message)
            made, waits = result.commit, waits | result.waiting
            self.head = result.head or self.head
            left = [path for path in debt.files if path in departed or path in result.waiting]
            self._debts.left(debt, left)
        return made, waits

    async def _patiently(self, wanted: list[str], message: str) -> CommitResult:
        """Commit, anew where the person uses git at the same time; once git has failed it is asked only once."""
        patience = 0.0 if self.problem else self._patience
        deadline = time.monotonic() + patience
        while True:
            try:
                with tempfile.TemporaryDirectory(prefix="instar-index-") as folder:
                    return await self._git.commit(wanted, message, Path(folder), patience)
            except Locked:
                raise
            except git.GitError as error:
                busy = any(said in str(error) for said in _BUSY) and time.monotonic() < deadline
                if not busy and not self._git.folder.freed(error):
                    raise
                await asyncio.sleep(_PAUSE)

    async def _look(self) -> None:
        try:
            self.head = (await self._git.text("rev-parse", "--verify", "HEAD")).strip()
        except (git.GitError, process.ProcessError):
            self.head = None

    async def _is_half_made(self) -> bool:
        """Whether instar made this repository and was ended before its first commit."""
        try:
            marked = (self._root / ".git" / "info" / "exclude").read_text(errors="replace").startswith(_MARK)
        except OSError:
            return False
        if marked:
            await self._look()
        return marked and self.head is None

    def _failed(self, what: str, error: Exception) -> None:
        problem = f"git could not {what}: {error}"
        if problem != self.problem:
            log.warning("git=failed problem=%r", problem)
        self.problem = problem


def is_repository(root: Path) -> bool:
    """Whether `root` is one of its own. An empty ``.git`` is none: a shield makes one to have something to guard."""
    mark = root / ".git"
    return mark.is_file() or (mark / "HEAD").exists()
