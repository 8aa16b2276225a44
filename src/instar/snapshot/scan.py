"""What became different in a worktree since the shadow's index was written, sorted into what to do about it."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

LARGEST = 2 << 20
"""Bytes of a file that is taken in; a larger one is left alone, unless it was small when first seen."""
GROWN = 16 * LARGEST
"""Bytes up to which a file that was small goes on being taken in: each snapshot keeps a copy."""


class Found(msgspec.Struct):
    """Names, relative to the worktree, to read again and to forget."""

    read: list[str] = msgspec.field(default_factory=list)
    forget: list[str] = msgspec.field(default_factory=list)

    @property
    def rules_changed(self) -> bool:
        """Whether a file is among them that says what to ignore."""
        return any(name.rpartition("/")[2] == ".gitignore" for name in (*self.read, *self.forget))


def sort(worktree: Path, records: Iterable[bytes]) -> Found:
    """Sort the records of ``ls-files -t -m -o``: a letter, a blank, a name.

    Left out: nested repositories, files larger than `LARGEST` that are new, or than `GROWN`, files that may not be
    read, and names that are not UTF-8, since a part's list of files is JSON.
    """
    found = Found()
    linked: dict[Path, bool] = {worktree: False}
    for record in dict.fromkeys(records):
        name = _text(record[2:])
        if name is None or name.endswith("/"):
            continue
        path = worktree / name
        state = _state(path)
        if state is None or stat.S_ISDIR(state.st_mode) or _is_linked(path.parent, linked):
            if not record.startswith(b"?"):
                found.forget.append(name)
        elif not record.startswith(b"?") and state.st_size > GROWN:
            # Not held from here on: what a snapshot does not hold is never overwritten.
            found.forget.append(name)
        elif _can_be_read(path, state) and (not record.startswith(b"?") or state.st_size <= LARGEST):
            found.read.append(name)
    return found


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _can_be_read(path: Path, state: os.stat_result) -> bool:
    return stat.S_ISLNK(state.st_mode) or (stat.S_ISREG(state.st_mode) and os.access(path, os.R_OK))


def _text(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _is_linked(folder: Path, seen: dict[Path, bool]) -> bool:
    """Whether a folder is reached through a symbolic link, so that a file in it is another one."""
    if folder not in seen:
        seen[folder] = folder.is_symlink() or _is_linked(folder.parent, seen)
    return seen[folder]
