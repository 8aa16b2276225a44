"""The sandbox: a child has a workspace, or a copy of it, and nothing else of its person's.

`docs/reference/confinement.md` says what is held at which level and what is not.
"""

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError, launcher
from instar.process.child import MIB
from instar.process.confine import Policy, Shared, Wrapped
from instar.sandbox import bubblewrap, landlock, seccomp
from instar.sandbox.environment import bare
from instar.sandbox.level import Level
from instar.sandbox.place import Copy, Live, PlaceView
from instar.sandbox.shield import kernel_switches

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
_NETWORK: Final = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem"),
    *("/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/crypto-policies"),
)
"""What a program needs to find a host and to believe it: not all of /etc/ssl, where private keys lie too."""
_MANAGERS: Final = (
    *(".pyenv", ".nvm", ".volta", ".asdf", ".rbenv", ".rustup/toolchains", ".sdkman/candidates", ".ghcup"),
    *(".local/share/uv", ".local/share/fnm", ".local/share/mise", ".local/share/pnpm", ".local/share/pipx"),
    ".local/pipx/venvs",
)
"""Where version managers keep programs at home."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_READ: Final = landlock.EXECUTE | landlock.READ_FILE | landlock.READ_DIR
_ALL: Final = _READ | landlock.WRITE | landlock.IOCTL_DEV


_TMP: Final = "/tmp"  # noqa: S108 - a mount of the sandbox's own
_PROCESS: Final = Path(launcher.__file__).parent
"""The programs that fork for calls."""


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
    """A `Confinement` to a place: a `Copy` of a workspace, for code that nobody has read, or the workspace, `Live`.

    The child sees system programs, this Python and `readable`, read-only, and the place; of the environment it has only
    what `bare` leaves and `keep` names, and no network unless the place gives it. With bubblewrap the place stands at
    the workspace's own path, there is a /tmp of its own, and every process ends with the first one. With Landlock
    alone a copy stands where it lies (`copy.folder`), and what leaves the process group is for the caller to end. At
    the level "none" `wrap` refuses.
    """

    level: Level
    place: Copy | Live
    limits: Limits = Limits()
    readable: tuple[Path, ...] = ()
    keep: frozenset[str] = frozenset()

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` in the sandbox; `cwd` is a folder of the workspace or of the copy.

        Raises `ProcessError` when there is no sandbox on this machine, `cwd` lies outside, or a folder cannot be given
        to write.
        """
        if self.level.name == "none":
            raise ProcessError(
                f"there is no sandbox on this machine: {self.level.missing}; {self.level.todo}"
            )
        view = self.place.view(self.level, cwd)
        try:
            made = (
                self._mounted(argv, env, view)
                if self.level.name == "bubblewrap"
                else self._alone(argv, env, view)
            )
        except BaseException:
            view.after()
            raise

        return _with(made, view)

    def shared(self, env: Mapping[str, str], cwd: Path) -> Shared | None:
        """Return what confines a process in whose forks the scripts of a live workspace run; None: each runs alone.

        A copy is for what nobody has read: that is forked from nothing.
        """
        if not isinstance(self.place, Live) or self.level.name != "bubblewrap" or self.level.landlock < 2:
            return None
        return SharedSandbox(self, self.place.identities()) if self.place.holds(cwd) else None

    def resident(self, argv: Sequence[str], policy: bytes | None) -> Wrapped:
        """Return the command of a process that stays: its forks are limited, it is not."""
        view = self.place.view(self.level, self.place.source)
        try:
            made = self._started(argv, view, policy, lasting=True)
        except BaseException:
            view.after()
            raise
        return _with(made, view)

    def resources(self) -> dict[str, int]:
        """Return the limits by the kernel's names."""
        limits = self.limits
        sizes = {"CPU": limits.cpu, "AS": limits.memory, "FSIZE": limits.file, "NOFILE": limits.files}
        return {**sizes, "NPROC": limits.processes, "CORE": 0}

    def _mounted(self, argv: Sequence[str], env: Mapping[str, str], view: PlaceView) -> Wrapped:
        return self._started(argv, view, self._held(bare(env, _TMP, self.keep)))

    def _started(
        self, argv: Sequence[str], view: PlaceView, policy: bytes | None, *, lasting: bool = False
    ) -> Wrapped:
        return bubblewrap.command(
            self.level.program,
            [*self._mounts(view), *self.level.final],
            argv,
            cwd=str(view.cwd),
            seccomp=_filter(seccomp.INET if view.inet else seccomp.LOCAL, needed=view.network),
            policy=policy,
            lasting=lasting,
        )

    def _mounts(self, view: PlaceView) -> list[str]:
        words = ["--unshare-all", *(["--share-net"] if view.network else []), "--new-session"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for place in ("/dev/shm", _TMP):  # noqa: S108
            words += ["--size", str(self.limits.temporary), "--tmpfs", place]
        programs = [Path(path) for path in _PROGRAMS]
        links = [path for path in programs if path.is_symlink()]
        words += [word for path in links for word in ("--symlink", str(path.readlink()), str(path))]
        shown = [*programs, *self._settings(view), *_python(), *self.readable, bubblewrap.LANDLOCK, _PROCESS]
        words += _shown([path for path in shown if path not in links])
        words += view.mounts
        # Root in a namespace of its own is still the kernel's root where these files are concerned.
        kernel = [path for path in kernel_switches() if path.is_relative_to("/proc")]
        words += _shown(kernel)
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]

    def _held(self, env: Mapping[str, str]) -> bytes:
        if self.level.landlock >= 2:
            return bubblewrap.lock(env, self.resources(), stay=True)
        return landlock.encode(limits=self.resources(), env=env, stay=True)

    def _alone(self, argv: Sequence[str], env: Mapping[str, str], view: PlaceView) -> Wrapped:
        programs = (*map(Path, _PROGRAMS), *self._settings(view), *_python(), *self.readable)
        policy = landlock.encode(
            fs=_ALL,
            rules=[
                (_READ, [*(str(path.resolve()) for path in programs), *view.read]),
                (landlock.READ_DIR, view.listed),
                (landlock.READ_FILE | landlock.WRITE_FILE, list(_DEVICES)),
                (_ALL & ~landlock.MAKE_BLOCK & ~landlock.MAKE_CHAR, [*view.write, str(view.home)]),
            ],
            net=0 if view.network else landlock.TCP,
            scope=landlock.ABSTRACT_SOCKETS | landlock.SIGNALS,
            limits=self.resources(),
            seccomp=_filter(seccomp.INET if view.network else (), needed=True),
            drop=range(64),
            env=bare(env, str(view.home), self.keep),
            cwd=str(view.cwd),
            ends=True,
        )
        return bubblewrap.launched(policy, argv)

    def _settings(self, view: PlaceView) -> list[Path]:
        return [Path(path) for path in (*_SETTINGS, *(_NETWORK if view.network else ()))]


def _with(made: Wrapped, view: PlaceView) -> Wrapped:
    """The command with the descriptors of what it shows, which are closed once it is over."""

    def after() -> None:
        made.after()
        view.after()

    return made._replace(pass_fds=(*made.pass_fds, *view.descriptors), after=after)


class SharedSandbox(msgspec.Struct, frozen=True):
    """A sandbox on a live workspace as of one moment: `found` are the folders that its mounts lead to."""

    sandbox: Sandbox
    found: tuple[tuple[int, int], ...]

    def wrap(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, lasting: bool = False
    ) -> Wrapped:
        """Return the command of a warm interpreter, which starts in the workspace."""
        return self.sandbox.resident(argv, bubblewrap.lock(env))

    def mounted(self, argv: Sequence[str]) -> Wrapped:
        """Return the command of a launcher."""
        return self.sandbox.resident(argv, None)

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return what a sandboxed child gets of `env`."""
        return bare(env, _TMP, self.sandbox.keep)

    def policy(self) -> Policy:
        """Return what a fork adds: its limits, and that it cannot trace what it was forked from."""
        return Policy(bubblewrap.lock(limits=self.sandbox.resources()), str(bubblewrap.LANDLOCK))

    def alone(self) -> Policy | None:
        """Return None: only mounts show a fork the workspace and nothing else."""
        return None

    def state(self, pid: int) -> bytes:
        """Return the mounts of the process `pid`: one goes when what it leads to is deleted. Raises `OSError`."""
        return Path(f"/proc/{pid}/mountinfo").read_bytes()


def toolchains(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the person's programs: those on the ``PATH``, and those of version managers at home.

    Of a folder at home only what holds programs is named: beside ``~/.cargo/bin`` lie keys.
    """
    home = Path(variables.get("HOME") or Path.home())
    named = [Path(text) for text in variables.get("PATH", "").split(os.pathsep) if text.startswith("/")]
    found = [home / name for name in _MANAGERS]
    for folder in named:
        above = folder.parent
        whole = (above / "pyvenv.cfg").is_file() or not (
            above.is_relative_to(home) or home.is_relative_to(above)
        )
        found.append(above if whole and folder.name in ("bin", "sbin") else folder)
    system = [Path(path) for path in _PROGRAMS]
    return tuple(
        path
        for path in dict.fromkeys(found)
        if path.is_dir() and not home.is_relative_to(path) and not any(map(path.is_relative_to, system))
    )


def _filter(families: tuple[int, ...], *, needed: bool) -> bytes:
    """The filter of system calls. `needed`: nothing else keeps a child from the sockets that are not of `families`."""
    made = seccomp.program(seccomp.SANDBOX, families=families)
    if needed and not made:
        raise ProcessError(
            f"there is no such sandbox on this machine: which sockets a program opens cannot be limited on"
            f" {platform.machine()}; use x86_64 or aarch64, or bubblewrap without the network"
        )
    return made


def _python() -> list[Path]:
    """This Python: its prefix, the one that it was made from, and the interpreter's own folder."""
    places = (Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent.parent)
    return [path for path in dict.fromkeys(places) if not path.is_relative_to("/usr") and path != Path("/")]


def _shown(paths: Iterable[Path]) -> list[str]:
    shown = [str(path) for path in paths if path.exists()]
    return [word for path in shown for word in ("--ro-bind-try", path, path)]
