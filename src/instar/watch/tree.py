"""The files below a folder as they were last seen, and what is different now.

The kernel says that something happened to a path; what happened is decided by looking: a file that is there
and was not is an ``add``, one that is gone and was there an ``unlink``, one that was there before a ``change``.
A file written beside another and renamed over it is thus a ``change``, and a temporary file is nothing.

Left out are ``.git``, what machines make (`MACHINE_MADE`), the globs of ``watcher.ignore``, and whole folders
that a ``.gitignore`` names. Links are never followed: a repository is untrusted, and one may lead anywhere.
"""

# A walk of ten thousand folders on pathlib takes three times as long.
# ruff: noqa: PTH118, PTH119, PTH120, PTH206

import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from instar.tool.walk import MAX_RULES, Rules, ignored, parse

Kind = Literal["add", "change", "unlink"]
Changes = dict[str, Kind]
"""What happened, by absolute path."""

MOST_FOLDERS: Final = 5_000
"""Folders that are watched, the nearest to the root first: the kernel's watches are shared by all programs."""
MOST_FILES: Final = 100_000
"""Files whose names are kept."""
MOST_SECONDS: Final = 3.0
"""How long looking at everything may take; a repository is untrusted, and so are its ignore files."""
LONGEST_LINE: Final = 1_000
"""Characters of a line of an ignore file; longer ones are left out."""
MOST_LINES: Final = 500
"""Lines of one ignore file that are read."""
MACHINE_MADE: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".cache", ".DS_Store"),
    )
)
"""Names that are never watched."""
_TEMPORARY: Final = (".pyc", ".swp", ".swo", "~")


class Tree:
    """The files below `root`, an absolute path without links. `globs` are the person's own, as in an ignore file."""

    def __init__(
        self, root: str, globs: Sequence[str] = (), *, repository: str | None = None, most: int = MOST_FOLDERS
    ) -> None:
        """`repository` is the worktree that `root` lies in, whose ignore files hold from there down."""
        self.root = root
        self.complete = True
        self._most = most
        self._repository = repository
        self._own: Rules = ((root, parse(_short(globs))),) if globs else ()
        self._names: dict[str, set[str]] = {}
        self._rules: dict[str, Rules] = {}
        self._inodes: dict[str, int] = {}

    @property
    def folders(self) -> list[str]:
        """The folders that were found, the root first."""
        return list(self._names)

    def read(self) -> Changes:
        """Look at everything again and return what was added and what is gone since the last time."""
        before, self._names, self._rules, self._inodes = self._names, {}, {}, {}
        was_complete = self.complete
        self.complete = self._walk()
        return self._difference(before, was_complete and self.complete)

    def settle(self, paths: Iterable[str]) -> tuple[Changes, bool]:
        """Return what happened to `paths`, and whether a folder is there that `read` has not seen yet."""
        found: Changes = {}
        grown = False
        for path in paths:
            status = _status(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                grown = grown or self._is_new(path, status.st_ino)
            elif status is None and path in self._names:
                found.update(self._drop(path))
            elif (kind := self._file(path, status is not None)) is not None:
                found[path] = kind
        return found, grown

    def _file(self, path: str, there: bool) -> Kind | None:
        folder, name = os.path.split(path)
        names = self._names.get(folder)
        if names is None or self._unwanted(path, False):
            return None
        if there:
            kind: Kind = "change" if name in names else "add"
            names.add(name)
            return kind
        if name not in names:
            return None
        names.remove(name)
        return "unlink"

    def _is_new(self, path: str, inode: int) -> bool:
        if path in self._names:
            # Removed and made again: what is watched is the one that is gone.
            return self._inodes.get(path, inode) != inode
        if not self.complete:
            return False
        rules = self._rules.get(os.path.dirname(path))
        return rules is not None and not self._skipped(path, rules)

    def _drop(self, folder: str) -> Changes:
        gone = [one for one in self._names if one == folder or one.startswith(folder + os.sep)]
        return {os.path.join(one, name): "unlink" for one in gone for name in self._names.pop(one)}

    def _walk(self) -> bool:
        """Look at every folder, those near the root first; False when there are too many."""
        waiting = deque([(self.root, self._above())])
        files, end = 0, time.monotonic() + MOST_SECONDS
        while waiting:
            if len(self._names) >= self._most or files >= MOST_FILES or time.monotonic() > end:
                return False
            folder, rules = waiting.popleft()
            rules = self._rules[folder] = self._entered(folder, rules)
            names = self._names[folder] = set()
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    if not self._skipped(entry.path, rules):
                        self._inodes[entry.path] = entry.inode()
                        waiting.append((entry.path, rules))
                elif not self._unwanted(entry.path, False):
                    names.add(entry.name)
            files += len(names)
        return True

    def _skipped(self, folder: str, rules: Rules) -> bool:
        return self._unwanted(folder, True) or ignored(folder, True, rules)

    def _unwanted(self, path: str, folder: bool) -> bool:
        name = os.path.basename(path)
        return name in MACHINE_MADE or name.endswith(_TEMPORARY) or ignored(path, folder, self._own)

    def _above(self) -> Rules:
        """What the ignore files say that stand above the root, from the worktree's folder down."""
        if self._repository is None or self.root == self._repository:
            return ()
        rules: Rules = ()
        for folder in _between(self._repository, self.root):
            rules = self._entered(folder, rules)
        return rules

    def _entered(self, folder: str, rules: Rules) -> Rules:
        if self._repository is None:
            return ()
        lines = parse(_text(os.path.join(folder, ".gitignore")))
        return (*rules, (folder, lines)) if lines else rules

    def _difference(self, before: Mapping[str, set[str]], whole: bool) -> Changes:
        """What came and went; unless the looks were `whole`, a folder seen in one alone says nothing."""
        found: Changes = {}
        for folder, names in self._names.items():
            if whole or folder in before:
                new = names - before.get(folder, set())
                found.update({os.path.join(folder, name): "add" for name in new})
        for folder, names in before.items():
            if whole or folder in self._names:
                gone = names - self._names.get(folder, set())
                found.update({os.path.join(folder, name): "unlink" for name in gone})
        return found


def collapse(changes: Changes, root: str, most: int) -> Changes:
    """Return `changes` when they are at most `most`; else a ``change`` of each folder that they stand in.

    Folders become the folders above them until there are few enough; `root` stands for what lies in it.
    """
    while len(changes) > most:
        changes = {root if path == root else os.path.dirname(path): "change" for path in changes}
    return changes


def _between(top: str, folder: str) -> Iterator[str]:
    """The folders from `top` down to the one that holds `folder`."""
    yield top
    for name in os.path.relpath(folder, top).split(os.sep)[:-1]:
        top = os.path.join(top, name)
        yield top


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _text(path: str) -> str:
    """The lines of an ignore file that are read; none of a pipe or device, which could be waited for for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        lines = os.read(descriptor, MAX_RULES).decode(errors="replace").splitlines() if regular else []
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return _short(lines)


def _short(lines: Iterable[str]) -> str:
    """Lines as one text, without what would take long to match: whoever wrote them is not trusted."""
    return "\n".join([line for line in lines if len(line) <= LONGEST_LINE][:MOST_LINES])
