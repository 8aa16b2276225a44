"""A process group: whether it lives, and signalling all of it."""

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def send(group: int, signal: int) -> bool:
    """Signal the group; False when there is nothing in it that we may signal."""
    try:
        os.killpg(group, signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def lives(group: int) -> bool:
    """Whether a process of the group still runs.

    A signal also reaches the dead that nobody has waited for, and in a container whose first process never
    waits orphans stay so for good: where there is a /proc, ask it for their state.
    """
    if not send(group, 0):
        return False
    return not _PROC.is_dir() or any(_runs_in(group, file) for file in _PROC.glob("[0-9]*/stat"))


def _runs_in(group: int, file: Path) -> bool:
    try:
        state, _, its_group = file.read_bytes().rpartition(b")")[2].split()[:3]
    except OSError:
        return False
    return int(its_group) == group and state not in (b"Z", b"X")
