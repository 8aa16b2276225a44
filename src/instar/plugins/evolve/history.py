"""The workspace's git history: its own repository, the `initial` snapshot, a commit per tool run.

Only what a tool run changed is committed; what the person has staged or left uncommitted stays as it is.
Git missing or failing costs the commit, never the tool run. Source: seed 000 "git integration".
"""

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from instar.plugin import git, process
from instar.plugins.evolve import tree

log = logging.getLogger("instar.evolve")

_EXCLUDED = "# written by instar when it made this repository\n__pycache__/\n*.pyc\n"


class Commit(msgspec.Struct, frozen=True):
    """A commit that was made: its short id and the files in it, relative to the workspace."""

    id: str
    files: list[str]


class History:
    """The repository at `root`. `problem` holds what git said when it last failed, until it works again."""

    def __init__(self, processes: process.Processes, root: Path) -> None:
        self._processes = processes
        self._root = root
        self._owed: set[str] = set()
        self.problem: str | None = None

    async def prepare(self) -> None:
        """Make the workspace a repository of its own, with what stands in it as the `initial` commit.

        A workspace that is one already is left as it is; one inside another repository gets its own.
        """
        if (self._root / ".git").exists():
            return
        try:
            await self._git("init", "--quiet")
            exclude = self._root / ".git" / "info" / "exclude"
            exclude.parent.mkdir(exist_ok=True)
            exclude.write_text(_EXCLUDED)
            await self._git("add", "--all", "--", ".")
            await self._git("commit", "--quiet", "--allow-empty", "--message", "initial")
        except (git.GitError, process.ProcessError, OSError) as error:
            self._failed("make the workspace a git repository", error)

    def scan(self) -> tree.Scan:
        """Return what stands in the workspace."""
        return tree.scan(self._root)

    def changed(self, before: tree.Scan) -> list[str]:
        """Return the files that differ from `before`, and owe them: what is not committed now is later."""
        after = self.scan()
        found = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        self._owed.update(found)
        return found

    async def commit(self, files: Collection[str], message: str) -> Commit | None:
        """Commit these files as they stand, and those still owed; None when nothing differs or git failed."""
        self._owed.update(files)
        wanted = sorted(self._owed)
        if not wanted:
            return None
        try:
            made = await self._commit(wanted, message)
        except (git.GitError, process.ProcessError, OSError) as error:
            self._failed(f"commit {', '.join(wanted)}", error)
            return None
        self._owed.difference_update(wanted)
        self.problem = None
        return made

    async def entries(self, limit: int) -> list[str]:
        """Return the newest `limit` commits, one line each, newest first. Raises `git.GitError`."""
        try:
            text = await self._git("log", f"--max-count={limit}", "--date=iso", "--format=%h %ad %s")
        except git.GitError as error:
            if "does not have any commits yet" in str(error):
                return []
            raise
        return text.splitlines()

    async def _commit(self, wanted: list[str], message: str) -> Commit | None:
        status = await self._git("status", "--porcelain", "-z", "--untracked-files=all", "--", *wanted)
        states = _states(status)
        if not states:
            return None
        fresh = [path for path, state in states.items() if state == "??"]
        if fresh:
            await self._git("add", "--intent-to-add", "--", *fresh)
        # --only: what the person has staged stays staged, and out of this commit.
        await self._git("commit", "--quiet", "--only", "--message", message, "--", *states)
        commit = (await self._git("rev-parse", "--short", "HEAD")).strip()
        log.info("git=committed id=%s files=%s", commit, ",".join(states))
        return Commit(commit, list(states))

    async def _git(self, *args: str) -> str:
        # Names are names: a file called ``:(top)x`` or ``*`` is not a pattern.
        literal = {"GIT_LITERAL_PATHSPECS": "1"}
        return str(await git.git(self._processes, self._root, *args, env=literal))

    def _failed(self, what: str, error: Exception) -> None:
        self.problem = f"git could not {what}: {error}"
        log.warning("git=failed problem=%r", self.problem)


def _states(status: str) -> dict[str, str]:
    """Read ``git status --porcelain -z``: path to its two letters; of a rename both ends."""
    states: dict[str, str] = {}
    fields = iter(status.split("\0"))
    for field in fields:
        if len(field) > 3:
            states[field[3:]] = field[:2]
            if field[0] in "RC" or field[1] in "RC":
                states[next(fields)] = "D "
    return states
