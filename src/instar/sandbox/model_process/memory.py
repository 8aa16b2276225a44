"""What the last trial found, kept for the next start of instar: a trial takes longer than a child.

It counts only while everything that decides is as it was: the boot, the kernel's switches, this process's own
confinement, the programs. A machine without any confinement is tried anew each time.
"""

import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from instar import __version__
from instar.process import Processes
from instar.sandbox import Level, find_level
from instar.sandbox.bubblewrap import find_program
from instar.sandbox.level import Name
from instar.wire.document import atomic_write

_DECIDING: Final = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/user/max_user_namespaces",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
)
_STATUS: Final = ("Uid:", "Gid:", "Cap", "NoNewPrivs:", "Seccomp:")


async def known_level(
    processes: Processes, environment: Mapping[str, str], at_most: Name, file: Path
) -> Level:
    """Return what `find_level` found when things were as they are now, else find it and keep it in `file`.

    `file` must stand where no child can write: who writes it decides how far children are confined.
    """
    key = _key(environment, at_most)
    kept = _kept(file).get(key)
    if kept is not None:
        return kept
    found = await find_level(processes, environment, at_most)
    if found.name != "none":
        _keep(file, key, found)
    return found


def _key(environment: Mapping[str, str], at_most: Name) -> str:
    facts = [__version__, sys.version, at_most, *(_text(path) for path in _DECIDING)]
    facts += [line for line in _text("/proc/self/status").splitlines() if line.startswith(_STATUS)]
    if sys.platform == "linux":
        facts += [str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("mnt", "user")]
    program = find_program(environment)
    if program is not None:
        status = Path(program).stat()
        facts += [program, f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_mode}"]
    return sha256("\0".join(facts).encode()).hexdigest()


def _kept(file: Path) -> dict[str, Level]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Level])
    except (OSError, msgspec.MsgspecError):
        return {}


def _keep(file: Path, key: str, level: Level) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The newest alone: another boot's or another user's are of no use.
        atomic_write(file, msgspec.json.encode({key: level}), mode=0o600)
    except OSError:
        return  # found anew at the next start


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
