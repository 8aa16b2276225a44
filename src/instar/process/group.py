"""Finding a child's descendants: by its process group, and by a mark in their environment.

A descendant that makes a session of its own (``setsid``, a daemon) leaves the group, but it inherits the environment,
and with it the mark of the run. Where there is no /proc, only the group is known. A process that also cleans its
environment is not found: a sandbox holds those.
"""

import os
import signal as signals
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "INSTAR_RUN"
"""The variable of the mark. Runs inside runs are joined by a colon, the outer one first."""
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


def marked(env: Mapping[str, str] | None, mark: str) -> dict[str, str]:
    """Return `env` (None: this process's own) with the mark; a mark that stands there already stays."""
    given = dict(os.environ if env is None else env)
    outer = given.get(VARIABLE)
    return {**given, VARIABLE: f"{outer}:{mark}" if outer else mark}


def kill(mark: str, first: int) -> bool:
    """Kill (SIGKILL) every process with `mark` that was started after the process `first`; whether any was."""
    needle = mark.encode()
    found = [pid for pid in _since(first) if needle in _environment(pid)]
    for pid in found:
        try:
            os.kill(pid, signals.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return bool(found)


def _since(first: int) -> Iterator[int]:
    """Processes with a number that was given out after `first`; numbers begin anew when they are used up."""
    try:
        last = int((_PROC / "loadavg").read_text().split()[-1])
        names = os.listdir(_PROC)
    except (OSError, ValueError):
        return
    wrapped = last < first
    for pid in (int(name) for name in names if name.isdigit()):
        if pid != os.getpid() and (pid > first or (wrapped and pid <= last)):
            yield pid


def _environment(pid: int) -> bytes:
    # Of another user's process, or of one that is just ending, nothing can be read: it is none of ours.
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read(1 << 20)
    except OSError:
        return b""
