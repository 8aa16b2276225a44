"""The sandbox: a place for code that nobody has read, with its own copy of a workspace and nothing else.

Source: issue 5, item 2. `docs/sandbox.md` says what is held at which level and what is not.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError
from instar.process.confine import Wrapped
from instar.process.kept import MIB
from instar.sandbox import bubblewrap, landlock, seccomp
from instar.sandbox.copies import Copy
from instar.sandbox.environment import bare
from instar.sandbox.guard import kernel_switches
from instar.sandbox.level import Level

_PROGRAMS: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
_SETTINGS: Final = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"),
    *("/etc/timezone", "/etc/mime.types", "/etc/ssl/certs", "/etc/python3"),
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_READ: Final = landlock.EXECUTE | landlock.READ_FILE | landlock.READ_DIR
_ALL: Final = _READ | landlock.WRITE | landlock.IOCTL_DEV


_TMP: Final = "/tmp"  # noqa: S108 - a mount of the sandbox's own


class Limits(msgspec.Struct, frozen=True):
    """What a sandboxed child may use. Output and wall-clock time are limits of `Processes.run`.

    `cpu` is in seconds and `memory` in bytes of address space, each for one process; `file` in bytes, for one file;
    `processes` counts those of the sandbox (as root it has no effect: the kernel does not count root's); `files` are
    open ones of a process; `temporary` is in bytes, for each of /tmp and /dev/shm (level "bubblewrap").
    """

    cpu: int = 60
    memory: int = 2048 * MIB
    processes: int = 128
    file: int = 256 * MIB
    files: int = 1024
    temporary: int = 256 * MIB


class Sandbox(msgspec.Struct, frozen=True):
    """A `Confinement` for code that nobody has read, on a `Copy` of a workspace.

    The child sees system programs, this Python and `readable`, read-only, and the copy; it has no network, and of the
    environment only what `bare` leaves and `keep` names. With bubblewrap the copy stands at the workspace's own path,
    there is a /tmp of its own, and every process ends with the first one. With Landlock alone the copy stands where
    it lies (`copy.folder`), and what leaves the process group is for the caller to end. At the level "none" `wrap`
    refuses.
    """

    level: Level
    copy: Copy
    limits: Limits = Limits()
    readable: tuple[Path, ...] = ()
    keep: frozenset[str] = frozenset()

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` in the sandbox; `cwd` is a folder of the workspace or of the copy.

        Raises `ProcessError` when there is no sandbox on this machine, or `cwd` lies outside the copy.
        """
        if self.level.name == "none":
            raise ProcessError(
                f"there is no sandbox on this machine: {self.level.missing}; {self.level.todo}"
            )
        inside = self._inside(cwd)
        if self.level.name == "bubblewrap":
            kept = bare(env, _TMP, self.keep)
            return bubblewrap.command(
                self.level.program,
                [*self._mounts(), *self.level.final],
                argv,
                cwd=str(inside),
                env=kept,
                seccomp=seccomp.program(seccomp.SANDBOX),
                policy=self._held(kept),
            )
        home = self.copy.scratch / "tmp"
        home.mkdir(exist_ok=True)
        kept = bare(env, str(home), self.keep)
        opened = [bubblewrap.memory(self._alone(kept, home))]
        enter = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(inside), *argv]
        started = bubblewrap.launch(opened[0], enter)
        return Wrapped(started, kept, tuple(opened), bubblewrap.closing(opened))

    def policy(self) -> bytes | None:
        """Return None: what nobody has read does not run in a process that was forked from another."""
        return None

    def _inside(self, cwd: Path) -> Path:
        real = cwd.resolve()
        for folder in (self.copy.source, self.copy.folder):
            if real.is_relative_to(folder):
                return self.copy.folder / real.relative_to(folder)
        raise ProcessError(f"cannot start a sandboxed child in {cwd}: it lies outside {self.copy.source}")

    def _mounts(self) -> list[str]:
        words = ["--unshare-all", "--new-session", "--proc", "/proc", "--dev", "/dev"]
        for place in ("/dev/shm", _TMP):  # noqa: S108
            words += ["--size", str(self.limits.temporary), "--tmpfs", place]
        for path in map(Path, _PROGRAMS):
            words += ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else _shown(path)
        for path in (*map(Path, _SETTINGS), *_python(), *self.readable):
            words += _shown(path)
        words += _shown(bubblewrap.LAUNCHER)
        source, changes = str(self.copy.source), str(self.copy.changes)
        if self.copy.work is not None:
            words += ["--overlay-src", source, "--overlay", changes, str(self.copy.work), source]
        else:
            words += ["--bind", changes, source]
        # Root in a namespace of its own is still the kernel's root where these files are concerned.
        kernel = [path for path in kernel_switches() if path.is_relative_to("/proc")]
        words += [word for path in kernel for word in _shown(path)]
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]

    def _held(self, env: Mapping[str, str]) -> bytes:
        if self.level.landlock >= 2:
            return bubblewrap.lock(env, self._resources())
        return landlock.encode(limits=self._resources(), restore=_locale(env))

    def _alone(self, env: Mapping[str, str], home: Path) -> bytes:
        programs = (*map(Path, (*_PROGRAMS, *_SETTINGS)), *_python(), *self.readable)
        own = [str(self.copy.changes), str(home)]
        return landlock.encode(
            fs=_ALL,
            rules=[
                (_READ, [str(path.resolve()) for path in programs]),
                (landlock.READ_FILE | landlock.WRITE_FILE, list(_DEVICES)),
                (_ALL & ~landlock.MAKE_BLOCK & ~landlock.MAKE_CHAR, own),
            ],
            net=landlock.TCP,
            scope=landlock.ABSTRACT_SOCKETS | landlock.SIGNALS,
            limits=self._resources(),
            seccomp=seccomp.program((*seccomp.SANDBOX, *seccomp.NO_SOCKETS)),
            drop=range(64),
            restore=_locale(env),
        )

    def _resources(self) -> dict[str, int]:
        limits = self.limits
        sizes = {"CPU": limits.cpu, "AS": limits.memory, "FSIZE": limits.file, "NOFILE": limits.files}
        return {**sizes, "NPROC": limits.processes, "CORE": 0}


def _python() -> list[Path]:
    """This Python: its prefix, the one that it was made from, and the interpreter's own folder."""
    places = (Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent.parent)
    return [path for path in dict.fromkeys(places) if not path.is_relative_to("/usr") and path != Path("/")]


def _shown(path: Path) -> list[str]:
    return ["--ro-bind-try", str(path), str(path)] if path.exists() else []


def _locale(env: Mapping[str, str]) -> dict[str, str | None]:
    return {"LC_CTYPE": env.get("LC_CTYPE")}
