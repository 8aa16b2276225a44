"""Finds the level of confinement by doing it: what a version or a setting promises, a container may refuse.

A trial takes longer than a child, so `known_level` keeps what it found for the next start of instar. That counts only
while everything that decides is as it was: the boot, the kernel's switches, this process's own confinement, the
programs. A machine without any confinement is tried anew each time.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from instar import __version__
from instar.process import Output, ProcessError, Processes
from instar.process.confine import Confinement, Wrapped
from instar.sandbox import landlock, seccomp
from instar.sandbox.box import Sandbox
from instar.sandbox.bubblewrap import find_program
from instar.sandbox.level import Level, Name
from instar.sandbox.place import copy_of
from instar.sandbox.shield import Shield
from instar.settings.install import installing
from instar.wire.document import atomic_write

_PATIENCE: Final = 10.0
_HELD: Final = 42
_TRY: Final = "echo x 2>/dev/null > guarded/file && exit 1; echo x > free && exit 42"
_OVERLAY: Final = "echo changed > kept && exit 42"
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

_found: dict[tuple[str, Name], Level] = {}


async def find_level(
    processes: Processes, environment: Mapping[str, str], at_most: Name = "bubblewrap"
) -> Level:
    """Return what this machine can do, by trying it in a temporary folder; remembered for this process.

    `at_most` asks for a lower level than the best. It takes some 50 ms the first time: call it when a child is
    about to be confined, not when instar starts.
    """
    key = (environment.get("PATH", ""), at_most)
    if key not in _found:
        _found[key] = await _find(processes, environment, at_most)
    return _found[key]


async def _find(processes: Processes, environment: Mapping[str, str], at_most: Name) -> Level:
    if sys.platform != "linux":
        return Level(
            "none", missing="only Linux can shield a child", todo="run instar in a Linux machine or container"
        )
    version, program, why = landlock.abi(), find_program(environment), ""
    with _folder() as folder:
        if program is not None and at_most == "bubblewrap":
            final = () if seccomp.program(seccomp.SHIELD) or os.geteuid() == 0 else ("--disable-userns",)
            level = Level("bubblewrap", program, version, final=final, pids=True)
            why, overlaid = await asyncio.gather(
                _shield_fails(processes, environment, level, folder),
                _with_overlay(processes, environment, level, folder),
            )
            if why:
                # A container that hides parts of /proc allows no other one.
                overlaid = msgspec.structs.replace(overlaid, pids=False)
                why = await _shield_fails(processes, environment, overlaid, folder)
            if not why:
                return overlaid
        missing, todo = _advice(program, why, at_most)
        level = Level("landlock", landlock=version, missing=missing, todo=todo)
        if version and at_most != "none":
            why = await _shield_fails(processes, environment, level, folder)
            if not why:
                return level
        without = "Landlock is not in this kernel, or is switched off" if not version else f"Landlock: {why}"
        return Level("none", missing=f"{missing}; {without}", todo=todo)


class _Once(msgspec.Struct, frozen=True):
    """A confinement that is tried: nothing stays behind it for a next child, which never comes."""

    confine: Confinement

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return what the confinement itself returns."""
        return self.confine.wrap(argv, cwd, env)

    def shared(self, env: Mapping[str, str], cwd: Path) -> None:
        """Return nothing: no interpreter and no launcher is kept."""
        return


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder with something to guard and something to copy."""
    with tempfile.TemporaryDirectory(prefix="instar-probe-") as name:
        folder = Path(name).resolve()
        for part in ("guarded", "copied"):
            (folder / part).mkdir()
        (folder / "copied/kept").write_text("kept")
        (folder / "free").touch()
        yield folder


async def _shield_fails(
    processes: Processes, environment: Mapping[str, str], level: Level, folder: Path
) -> str:
    """Why a shielded child at `level` did not do what it must; "" when it did."""
    shield = Shield(level, hidden=(), readonly=(folder / "guarded",))
    return await _fails(processes, environment, shield, _TRY, folder)


async def _with_overlay(
    processes: Processes, environment: Mapping[str, str], level: Level, folder: Path
) -> Level:
    overlaid = msgspec.structs.replace(level, overlay=True)
    source = folder / "copied"
    with copy_of(source, overlaid) as copy:
        why = await _fails(processes, environment, Sandbox(overlaid, copy), _OVERLAY, source)
        worked = not why and (copy.changes / "kept").exists() and (source / "kept").read_text() == "kept"
    return overlaid if worked else level


async def _fails(
    processes: Processes, environment: Mapping[str, str], confine: Confinement, script: str, cwd: Path
) -> str:
    try:
        done: Output = await processes.run(
            ["/bin/sh", "-c", script], cwd=cwd, env=environment, timeout=_PATIENCE, confine=_Once(confine)
        )
    except (ProcessError, OSError) as error:
        return str(error)
    if done.code == _HELD:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"a trial ended with code {done.code}"


def _advice(program: str | None, why: str, at_most: Name) -> tuple[str, str]:
    """What is missing and what to do, for the level below bubblewrap."""
    if at_most != "bubblewrap":
        return f"no more than {at_most} was asked for", "ask for bubblewrap"
    if program is None:
        return "bubblewrap is not installed", f"apt install bubblewrap, or {installing('sandbox')}"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        todo = "start the container with --security-opt seccomp=unconfined, or with --privileged"
    elif _text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1":
        todo = "apt install bubblewrap apparmor-profiles, or: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    elif _text("/proc/sys/user/max_user_namespaces").strip() == "0":
        todo = "sysctl user.max_user_namespaces=10000"
    else:
        todo = f"see why {program} --bind / / true does not run"
    return f"bubblewrap does not run here ({why})", todo


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
