"""The shadow repository: a git folder of instar's own whose worktree is the project.

The person's repository, its index, its settings and its hooks are neither read nor written by it. What
``.gitattributes`` files ask for (filters, line endings, encodings) is switched off, so that a file's bytes
are what is kept, and nothing that a repository names is run. Differences are in opencode's shape
(`SnapshotFileDiff` of its HTTP interface).
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from instar.git import GitError, changed_files, common_folder, git, git_bytes, split_patches
from instar.message import FileDiff
from instar.process import Processes
from instar.wire.document import atomic_write, locked_within

LIMIT: Final = 60.0
"""Seconds that one git command may take; a project's first snapshot reads every file."""
WAIT: Final = 10.0
"""Seconds that another process's snapshot of the same files is waited for."""

_CONFIG: Final = """[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tsymlinks = true
\tautocrlf = false
\tsafecrlf = false
"""
_ATTRIBUTES: Final = "* -text !eol !crlf -ident -filter !working-tree-encoding !diff !merge\n"
"""Above every ``.gitattributes`` of the project: a file's bytes are kept as they are."""
LONGEST: Final = 256 * 1024
"""Characters of one file's patch; a longer one is left out, its counts stay."""
_COMPARE: Final = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
_SPECIAL: Final = frozenset("\\*?[]#! \t")


class ShadowBusy(Exception):
    """Another process works in the shadow repository; the text names the folder."""


class Shadow:
    """The shadow repository of one worktree. Use it from one event loop, its commands while it is `held`."""

    def __init__(self, processes: Processes, worktree: Path, data: Path) -> None:
        key = hashlib.sha256(os.fsencode(worktree)).hexdigest()[:32]
        self.folder = data / "snapshot" / key
        self.worktree = worktree
        self._data = data
        self._processes = processes
        self._lock = asyncio.Lock()
        self._ready = False
        self.rules: tuple[Path, ...] = ()
        """The files outside of the worktree that say what to ignore; they need not exist."""

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the repository: one command at a time, also across processes. Raises `ShadowBusy` and `OSError`."""
        late = ShadowBusy(f"another process still works in {self.folder} after {WAIT:g} s")
        async with self._lock, locked_within(self.folder, WAIT, late):
            if not self._ready:
                await self._prepare()
                self._ready = True
            # Whoever left it is gone: the lock is ours.
            (self.folder / "index.lock").unlink(missing_ok=True)
            yield

    async def run(
        self, *args: str, stdin: bytes = b"", index: Path | None = None, check: bool = True
    ) -> bytes:
        """Run a git command on the shadow; `index` is another index file. Raises `GitError`, `ProcessError`."""
        env = {
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.worktree),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
        }
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        return await git_bytes(
            self._processes, self.worktree, *args, check=check, timeout=LIMIT, stdin=stdin, env=env
        )

    async def names(self, *args: str, stdin: bytes = b"") -> list[bytes]:
        """Run a git command whose output is records that end with a null byte, and return them."""
        return [record for record in (await self.run(*args, stdin=stdin)).split(b"\0") if record]

    async def ignored(self) -> list[str]:
        """Return what rules ignore, a folder's name with a slash at its end and without what lies in it.

        Raises `GitError`, `ProcessError`.
        """
        flags = ("--porcelain", "--no-renames", "--ignored=matching", "--untracked-files=all", "-z")
        found = await self.names("status", *flags)
        return [os.fsdecode(one[3:]) for one in found if one.startswith(b"!! ")]

    @property
    def index(self) -> Path:
        """The index file: it remembers each file's size and times, so that what did not change is not read."""
        return self.folder / "index"

    def size(self) -> int:
        """Return how many files the index has."""
        try:
            with self.index.open("rb") as file:
                # A signature and a version stand before it.
                return int.from_bytes(file.read(12)[8:], "big")
        except FileNotFoundError:
            return 0

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what tells one state of the index from another; None where there is none yet."""
        try:
            found = self.index.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def _prepare(self) -> None:
        """Lay the repository out and write its settings; without ``git init``, which would be one more process."""
        for name in ("objects", "refs", "info"):
            (self.folder / name).mkdir(exist_ok=True)
        config = _CONFIG
        excludes = await git(
            self._processes, self.worktree, "config", "--type=path", "--get", "core.excludesFile", check=False
        )
        if excludes.strip():
            config += f"\texcludesFile = {_quoted(excludes.strip())}\n"
        own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        self.rules = (
            self.worktree / (excludes.strip() or own / "git" / "ignore"),
            self.folder / "info" / "exclude",
        )
        self._write("HEAD", "ref: refs/heads/main\n")
        self._write("config", config)
        self._write("info/attributes", _ATTRIBUTES)
        self._write("info/exclude", self._excluded())

    def _excluded(self) -> str:
        """What the person's repository excludes without a ``.gitignore``, and instar's own data if it lies inside."""
        own: Sequence[str] = ()
        if self._data.is_relative_to(self.worktree):
            place = "/" + str(self._data.relative_to(self.worktree)) + "/"
            own = ["".join("\\" + letter if letter in _SPECIAL else letter for letter in place)]
        common = common_folder(self.worktree)
        theirs = common / "info" / "exclude" if common is not None else None
        text = theirs.read_text("utf-8", "surrogateescape") if theirs is not None and theirs.is_file() else ""
        return "\n".join([text, *own]) + "\n"

    def _write(self, name: str, text: str) -> None:
        path, data = self.folder / name, text.encode("utf-8", "surrogateescape")
        if not path.is_file() or path.read_bytes() != data:
            atomic_write(path, data)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def changed_names(shadow: Shadow, before: str, after: str) -> list[str]:
    """Return the names of the files that differ, relative to the worktree, in git's order."""
    if before == after:
        return []
    found = await shadow.names(*_COMPARE, "--name-only", "-z", before, after)
    return [name.decode() for name in found]


async def unified_diff(shadow: Shadow, before: str, after: str) -> str:
    """Return the whole difference as a unified diff."""
    return (await shadow.run(*_COMPARE, "-p", before, after)).decode(errors="replace")


async def file_diffs(
    shadow: Shadow, before: str, after: str, only: Collection[str] | None = None
) -> list[FileDiff]:
    """Return each file that differs, with its counts and its patch; `only` names the files wanted."""
    if before == after:
        return []
    changed = changed_files(await shadow.names(*_COMPARE, "--raw", "--numstat", "-z", before, after))
    if not any(only is None or one.name in only for one in changed):
        return []
    try:
        whole = await shadow.run(*_COMPARE, "-p", before, after)
    except GitError:  # longer than git's output may be
        whole = b""
    patches = [patch.decode(errors="replace") for patch in split_patches(whole, changed)]
    return [
        FileDiff(patch=patch if patch and len(patch) <= LONGEST else None, **one.fields())
        for one, patch in zip(changed, patches, strict=True)
        if only is None or one.name in only
    ]
