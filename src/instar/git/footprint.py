"""The footprint of a worktree: all that git looks at to say what changed since its index, as a value to compare.

Git goes by the sizes and times of files and by the names in folders that no rule ignores. While all of that is what it
was when git was asked last, git would say the same, and need not be asked again.
"""
# It is taken around each call that may write.
# ruff: noqa: PTH116

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from instar.git import git_folder

MOST: Final = 600
"""Entries up to which looking at each costs less than starting git."""
SETTLED: Final = 20_000_000
"""Nanoseconds after which a change has another time than the one before it."""
COARSE: Final = 2_500_000_000
"""The same where a time is a whole number of `STEP`: some file systems keep hundredths, or even seconds."""
STEP: Final = 10_000_000
READ: Final = 16
"""Files whose content is looked at, of at most `LARGEST` bytes: what changed just now may change again unseen."""
LARGEST: Final = 64 << 10

_RULES: Final = ".gitignore"
_Entry = tuple[str, int, int, int, int, int]


class TooMany(Exception):
    """There are more than `MOST` entries."""


class Ruled(NamedTuple):
    """The names that git ignores, and what decides that: the folders there are, and the files with rules."""

    ignored: Collection[str]
    folders: list[str]
    rules: list[_Entry]


class Footprint(NamedTuple):
    """What stands in a worktree.

    `contents` are of files that changed just now. `ruled` is None where a file with rules changed just now. `settled`:
    what changes from here on makes another footprint.
    """

    entries: list[_Entry]
    contents: dict[str, bytes]
    nested: list[tuple[str, str]]
    ruled: Ruled | None
    settled: bool


def footprint(
    worktree: Path, rules: Iterable[Path], ignored: Collection[str], now: int, read: Collection[str] = ()
) -> Footprint | None:
    """Return the footprint of a worktree; None where something cannot be seen. Raises `TooMany`.

    `rules` are files outside of it that say what to ignore. `ignored` are names relative to the worktree, a folder's
    with a slash at its end: what stands there is left out. `now`, in nanoseconds since the epoch, is when the answer
    `ignored` was asked for, or later. The files `read` are read whenever they changed.
    """
    try:
        folders, entries, nested = _walked(str(worktree), ignored)
        young = [
            one for one in entries if one[0] in read or (_is_young(one, now) and not stat.S_ISDIR(one[1]))
        ]
        contents = {
            one[0]: _content(one[0]) for one in young[:READ] if stat.S_ISREG(one[1]) and one[3] <= LARGEST
        }
    except OSError:
        return None
    known = [one for one in entries if one[0].endswith(_RULES)]
    known += [_outside(path) for path in rules]
    ruled = None if any(_is_young(one, now) for one in known) else Ruled(ignored, folders, known)
    return Footprint(entries, contents, nested, ruled, ruled is not None and len(contents) == len(young))


def _walked(root: str, ignored: Collection[str]) -> tuple[list[str], list[_Entry], list[tuple[str, str]]]:
    """Return the folders, what stands in them, and the repositories among that. Raises `OSError` and `TooMany`."""
    # A file with rules counts also where a rule ignores it.
    left_out = {f"{root}/{name}" for name in (".git/", *ignored) if not name.endswith(_RULES)}
    folders, nested = [root], list[tuple[str, str]]()
    entries = [_entry(root, os.lstat(root))]
    for folder in folders:
        with os.scandir(folder) as found:
            for one in found:
                path, is_folder = one.path, one.is_dir(follow_symlinks=False)
                if (path + "/" if is_folder else path) in left_out:
                    continue
                if len(entries) > MOST:
                    raise TooMany(f"there are more than {MOST} files")
                entries.append(_entry(path, one.stat(follow_symlinks=False)))
                if one.name == ".git":
                    nested.append((path, str(git_folder(Path(folder)))))
                elif is_folder:
                    folders.append(path)
    return folders, entries, nested


def _content(path: str) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(LARGEST + 1)


def _outside(path: Path) -> _Entry:
    try:
        return _entry(str(path), os.stat(path))
    except OSError:
        return str(path), 0, 0, 0, 0, 0


def _is_young(entry: _Entry, now: int) -> bool:
    return entry[-1] >= now - (SETTLED if entry[-1] % STEP else COARSE)


def _entry(path: str, status: os.stat_result) -> _Entry:
    return path, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
