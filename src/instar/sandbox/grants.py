"""What Landlock is told: the rights that stay, path by path, when everything but the guarded is to stay as it is."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from instar.sandbox import landlock
from instar.sandbox.guard import Guard, kernel_switches

_MEMORY: Final = ("/dev/mem", "/dev/port", "/dev/kmem")


class Grants(NamedTuple):
    """`rules` are Landlock's: rights and the paths below which they stay; `files` the inodes that the paths led to.

    Two of equal value give the same rights: a rule holds a file, not its name.
    """

    rules: tuple[tuple[int, tuple[str, ...]], ...]
    files: tuple[int, ...]


def grants(found: Guard) -> Grants:
    """Return what stays, as of now, so that what `found` names can be changed by nobody, or read by nobody."""
    closed = (*found.hidden, *found.readonly, *_machine())
    seen: dict[str, list[tuple[str, int]]] = {}
    read = _granted(found.hidden, (*found.readonly, *found.writable), seen)
    write = _granted(closed, found.writable, seen)
    # One rule for both where both stay: each path is opened once.
    both, readable, writable = (
        tuple(sorted(paths))
        for paths in (read.keys() & write.keys(), read.keys() - write.keys(), write.keys() - read.keys())
    )
    rules = (
        (landlock.READ_FILE | landlock.WRITE, both),
        (landlock.READ_FILE, readable),
        (landlock.WRITE, writable),
    )
    known = {**write, **read}
    return Grants(rules, tuple(known[path] for _, paths in rules for path in paths))


def _granted(
    closed: Sequence[Path], opened: Sequence[Path], seen: dict[str, list[tuple[str, int]]]
) -> dict[str, int]:
    """Every path that leads to nothing closed, as high up as that is so; what is opened again inside; their inodes."""
    if not closed:
        return {"/": _inode("/")}
    shut = frozenset(map(str, closed))
    above = {str(parent) for path in closed for parent in path.parents}
    found: dict[str, int] = {}
    todo = ["/"]
    while todo:
        folder = todo.pop()
        if folder not in seen:
            seen[folder] = _entries(folder)
        todo += [path for path, _ in seen[folder] if path in above and path not in shut]
        found |= {path: inode for path, inode in seen[folder] if path not in above and path not in shut}
    return found | {str(path): _inode(str(path)) for path in opened}


def _entries(folder: str) -> list[tuple[str, int]]:
    """What stands in a folder, but for links."""
    try:
        with os.scandir(folder) as entries:
            return [(entry.path, entry.inode()) for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _machine() -> list[Path]:
    """What root could change the machine by; empty for everybody else.

    Of /proc nothing is given: what stays there is by process, and there is one more with each child. A device that
    holds file systems could be written past every rule on paths.
    """
    if os.geteuid() != 0:
        return []
    with os.scandir("/dev") as entries:
        disks = [
            Path(entry.path)
            for entry in entries
            if entry.path in _MEMORY or stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)
        ]
    proc = Path("/proc")
    return [proc, *disks, *(path for path in kernel_switches() if not path.is_relative_to(proc))]
