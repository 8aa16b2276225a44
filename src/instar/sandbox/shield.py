"""The shield: everything as the person has it, but what is guarded cannot be changed, and what is hidden not read.

`docs/reference/confinement.md` says what is held at which level and what is not.
"""
# It is done before each child.
# ruff: noqa: PTH110, PTH112, PTH114, PTH118, PTH120

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec

from instar.process import ProcessError
from instar.process.confine import Policy, Wrapped
from instar.sandbox import bubblewrap, landlock, seccomp
from instar.sandbox.level import Level
from instar.sandbox.startup_files import REFUSED
from instar.settings.paths import PASSWORDS, Paths

_SETTINGS: Final = (".json", ".jsonc")
_SOCKETS: Final = (
    *(
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/crio/crio.sock",
    ),
    *("/run/snapd.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"),
    *("/run/libvirt/libvirt-sock", "/run/atd.sock"),
)
_OF_ROOT: Final = ("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/io.systemd.Manager")
_OF_PERSON: Final = (".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock")
_KERNEL: Final = ("/sys", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
_MEMORY: Final = ("/dev/mem", "/dev/port", "/dev/kmem")


class GuardedPaths(msgspec.Struct, frozen=True):
    """Real paths, each list sorted from the shallow to the deep.

    `anchors` are folders above a guarded path that could be renamed away by whoever may write beside them. `gaps`
    says, one line each, which path is reached through a link that can be replaced: that is not held.
    """

    hidden: tuple[Path, ...]
    readonly: tuple[Path, ...]
    writable: tuple[Path, ...]
    anchors: tuple[Path, ...]
    gaps: tuple[str, ...]


class Places(msgspec.Struct, frozen=True):
    """What `Shield` is given to guard of instar's own."""

    hidden: tuple[Path, ...]
    readonly: tuple[Path, ...]
    writable: tuple[Path, ...]


def own_places(paths: Paths) -> Places:
    """Return the places of instar itself for a shield.

    The data folder (store, trust, keys, password, snapshots) and the log are hidden; in it the worktrees of sessions
    and what plugin folders keep stay writable, and long tool outputs and accepted files that steer readable. The home
    configuration folders are read-only, because skills that stand there bring files for the model, and the settings
    files in them are hidden, because they may hold keys. So is the way to a server that has the store.
    """
    settings = [file for home in paths.config_homes for file in _settings(home)]
    return Places(
        hidden=(paths.data, paths.state, *settings, *paths.server_ways),
        readonly=(*paths.config_homes, paths.tool_output, paths.accepted),
        writable=(paths.worktrees, paths.plugin_data),
    )


def _settings(home: Path) -> list[Path]:
    try:
        with os.scandir(home) as entries:
            return sorted(
                home / one.name for one in entries if one.name.endswith(_SETTINGS) and one.is_file()
            )
    except OSError:
        return []


def guarded_paths(hidden: Iterable[Path], readonly: Iterable[Path], writable: Iterable[Path]) -> GuardedPaths:
    """Resolve the paths and find what must be held with them. Creates nothing.

    A path below a hidden one is left out, unless it is readable or writable again by being named itself.
    """
    way = _Way()
    lists = [[way.real(str(path.absolute())) for path in paths] for paths in (hidden, readonly, writable)]
    gaps = tuple(dict.fromkeys(gap for paths in lists for _, found in paths for gap in found))
    real = [{path for path, _ in paths} for paths in lists]
    held = real[0] | real[1]
    above = {folder for path in held for folder in _above(path)}
    anchors = [
        folder
        for folder in above - held
        if held.isdisjoint(_above(folder)) and os.path.isdir(folder) and _movable(folder)
    ]
    sorted_ = [_sorted(map(Path, paths)) for paths in (*real, anchors)]
    return GuardedPaths(sorted_[0], sorted_[1], sorted_[2], sorted_[3], gaps)


def doors(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return what is there of the sockets of services that would run something for the person, outside every shield."""
    uid = os.getuid()
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}")
    terminals = [f"{environment.get('TMUX_TMPDIR') or '/tmp'}/tmux-{uid}", f"/run/tmux/{uid}"]  # noqa: S108
    screens = ["/run/screen", "/tmp/.X11-unix"]  # noqa: S108
    docker = environment.get("DOCKER_HOST", "")
    named = [docker.removeprefix("unix://")] if docker.startswith("unix:///") else []
    listed = [*_SOCKETS, *(_OF_ROOT if uid == 0 else ()), *(f"{home}/{path}" for path in _OF_PERSON)]
    private = [str(runtime)] if _is_private(runtime, home) else []
    found = (path for path in (*private, *terminals, *screens, *named, *listed) if os.path.exists(path))
    return _sorted(Path(os.path.realpath(path)) for path in found)


def kernel_switches() -> tuple[Path, ...]:
    """Return what root may write to change the machine around a shield; empty for everybody else."""
    if os.geteuid() != 0:
        return ()
    return tuple(Path(path) for path in (*_KERNEL, *REFUSED) if os.path.exists(path))


def below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def _is_private(runtime: Path, home: Path) -> bool:
    """Whether this is a runtime folder as XDG has it; a mistaken variable must not hide /tmp or the home folder."""
    try:
        status = runtime.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o077 and not home.is_relative_to(runtime)


def _above(path: str) -> Iterator[str]:
    """The folders above a real path but for the root."""
    while len(path := path.rpartition("/")[0]) > 1:
        yield path


def _movable(folder: str) -> bool:
    return os.access(os.path.dirname(folder), os.W_OK)


class _Way:
    """Resolves paths, looking at each folder on their ways once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def real(self, path: str) -> tuple[str, list[str]]:
        """Return the real path, and the links on the way that somebody could replace."""
        made, gaps = "/", []
        for part in path.split("/"):
            if part in ("", ".."):
                made = os.path.dirname(made) if part else made
                continue
            link = os.path.join(made, part)
            if link not in self._known:
                is_link = os.path.islink(link)
                self._known[link] = os.path.realpath(link) if is_link else link, is_link
            if self._known[link][1] and os.access(made, os.W_OK):
                gaps.append(f"{path}: {link} is a link that can be replaced; name the folder itself")
            made = self._known[link][0]
        return made, gaps


def _sorted(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(set(paths), key=lambda path: (len(path.parts), path)))


class Grants(msgspec.Struct, frozen=True):
    """`rules` are Landlock's: rights and the paths below which they stay; `files` the inodes that the paths led to.

    Two of equal value give the same rights: a rule holds a file, not its name.
    """

    rules: tuple[tuple[int, tuple[str, ...]], ...]
    files: tuple[int, ...]


def grants(found: GuardedPaths) -> Grants:
    """Return what stays, as of now, so that what `found` names can be changed by nobody, or read by nobody."""
    closed = (*found.hidden, *found.readonly, *_machine())
    seen: dict[str, dict[str, int]] = {}
    read = _granted(found.hidden, (*found.readonly, *found.writable), seen)
    write = _granted(closed, found.writable, seen)
    known = write | read
    # One rule for both where both stay: each path is opened once.
    rules = (
        (landlock.READ_FILE | landlock.WRITE, tuple(path for path in read if path in write)),
        (landlock.READ_FILE, tuple(path for path in read if path not in write)),
        (landlock.WRITE, tuple(path for path in write if path not in read)),
    )
    return Grants(rules, tuple(known[path] for _, paths in rules for path in paths))


def _granted(
    closed: Sequence[Path], opened: Sequence[Path], seen: dict[str, dict[str, int]]
) -> dict[str, int]:
    """Return the highest paths below which nothing is closed, and those that are opened again, with their inodes."""
    if not closed:
        return {"/": _inode("/")}
    shut = set(map(str, closed))
    above = {str(parent) for path in closed for parent in path.parents}
    found: dict[str, int] = {}
    todo = ["/"]
    while todo:
        folder = todo.pop()
        if folder not in seen:
            seen[folder] = _entries(folder)
        found |= seen[folder]
        todo += (seen[folder].keys() & above) - shut
    for path in found.keys() & (above | shut):
        del found[path]
    return found | {str(path): _inode(str(path)) for path in opened}


def _entries(folder: str) -> dict[str, int]:
    """What stands in a folder, but for links, with its inode."""
    try:
        with os.scandir(folder) as entries:
            return {entry.path: entry.inode() for entry in entries if not entry.is_symlink()}
    except OSError:
        return {}


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


class Shield(msgspec.Struct, frozen=True):
    """A `Confinement` that keeps a child off some paths. Paths are absolute; they need not exist.

    `hidden` folders look empty and `hidden` files cannot be opened; neither can be changed or made. `readonly` ones
    can be read. `writable` ones stay writable inside those, where they exist. A guarded path that does not exist
    is made as an empty folder at the level "bubblewrap" (there is nothing else to mount on); name folders.
    `inside` adds Landlock behind bubblewrap. At the level "none" the command is returned as it is: the caller decides
    whether that will do.
    """

    level: Level
    hidden: tuple[Path, ...]
    readonly: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    inside: bool = True

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` shielded. Raises `ProcessError` when a guarded path cannot be guarded."""
        return self.raised(env).wrap(argv, cwd, env)

    def shared(self, env: Mapping[str, str], cwd: Path) -> "Raised | None":
        """Return the shield as of now, behind which forks of one process are confined as fresh children are.

        None where a fork could not be kept from tracing the process that it was forked from: bubblewrap without the
        Landlock inside.
        """
        if self.level.name == "bubblewrap" and not self._locks():
            return None
        return self.raised(env)

    def raised(self, env: Mapping[str, str]) -> "Raised":
        """Return the shield as of now. Raises `ProcessError` when a guarded path cannot be guarded."""
        if self.level.name == "none":
            return Raised(self.level)
        found = self.guarded()
        if self.level.name == "landlock":
            return Raised(self.level, grants=grants(found))
        _make_missing((*found.hidden, *found.readonly))
        words, points = _mounts(found, env)
        tree, words = bubblewrap.everything(), [*words, *self.level.final]
        return Raised(self.level, tuple(tree), tuple(words), tuple(points), locks=self._locks())

    def guarded(self) -> GuardedPaths:
        """Return what is guarded, by real paths, as of now; its `gaps` are what this shield cannot hold."""
        return guarded_paths(self.hidden, self.readonly, self.writable)

    def _locks(self) -> bool:
        return self.inside and self.level.landlock >= 6


class Raised(msgspec.Struct, frozen=True):
    """A shield as of one moment.

    `tree` and `mounts` are bubblewrap's arguments for everything and for what is guarded, `points` where the latter
    mount; `grants` is what Landlock alone is told.

    `locks`: Landlock stands behind the mounts too. Two of equal value confine alike, as long as the `state` of a
    process behind one of them stays as it was.
    """

    level: Level
    tree: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    grants: Grants = Grants((), ())
    locks: bool = False

    def wrap(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, lasting: bool = False
    ) -> Wrapped:
        """Return the command that runs `argv` behind this; `lasting`: it ends by itself when instar is gone."""
        if self.level.name == "none":
            return Wrapped(list(argv), env)
        if self.level.name == "landlock":
            return bubblewrap.launched(self._policy(env, ends=not lasting), argv)
        # What lasts is a warm interpreter, whose scripts' numbers instar must know.
        pids = bubblewrap.PIDS if self.level.pids and not lasting else ()
        # What confines starts without the variables of the child: some change how a program starts.
        return bubblewrap.command(
            self.level.program,
            [*self.tree, *pids, *self.mounts],
            argv,
            cwd=str(cwd),
            seccomp=seccomp.program(seccomp.SHIELD),
            policy=self._inside(env, stay=not lasting),
            lasting=lasting,
        )

    def mounted(self, argv: Sequence[str]) -> Wrapped:
        """Return the command that runs `argv`, which is instar's own, behind the mounts and the filter alone."""
        return bubblewrap.command(
            self.level.program,
            [*self.tree, *self.mounts],
            argv,
            cwd="/",
            seccomp=seccomp.program(seccomp.SHIELD),
            policy=None,
            lasting=True,
        )

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return `env`: a shield takes nothing from it."""
        return env

    def policy(self) -> Policy:
        """Return the policy that a fork of a process behind this adds, so that it cannot trace processes there."""
        return Policy(b"" if self.level.name == "none" else bubblewrap.lock(), str(bubblewrap.LANDLOCK))

    def alone(self) -> Policy | None:
        """Return all that confines a fork of a process that is not behind this; None: it must be behind it."""
        return Policy(self._policy(None), str(bubblewrap.LANDLOCK)) if self.level.name == "landlock" else None

    def state(self, pid: int) -> bytes:
        """Return what must stay as it is of the process `pid` behind this: its mounts.

        Raises `OSError` when they cannot be seen or one of this shield's is not among them. A mount goes when what it
        lies on is deleted outside, and moves when that is renamed. A rule of Landlock holds its file for good, and
        which file a name leads to is part of `grants`.
        """
        if not self.mounts:
            return b""
        mounted = Path(f"/proc/{pid}/mountinfo").read_bytes()
        missing = _unmounted(mounted, self.points)
        if missing and (missing := _unmounted(mounted, tuple(map(os.path.realpath, missing)))):
            raise OSError(f"{missing[0]} is no longer guarded")
        return mounted

    def _inside(self, env: Mapping[str, str], *, stay: bool) -> bytes:
        return bubblewrap.lock(env, stay=stay) if self.locks else landlock.encode(env=env, stay=stay)

    def _policy(self, env: Mapping[str, str] | None, *, ends: bool = False) -> bytes:
        return landlock.encode(
            fs=landlock.READ_FILE | landlock.WRITE,
            rules=self.grants.rules,
            files=self.grants.files,
            scope=landlock.ABSTRACT_SOCKETS | landlock.SIGNALS,
            seccomp=seccomp.program(seccomp.SHIELD),
            drop=list(bubblewrap.CAPABILITIES.values()),
            env=env,
            ends=ends,
        )


def _mounts(found: GuardedPaths, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What is guarded as mounts, from the shallow to the deep (an inner one covers an outer one), and their places."""
    home = Path(env.get("HOME") or "/")
    masked = [path for path in doors(env, home) if not below(path, found.hidden)]
    shown = _kept_of_doors(env, masked)
    kinds: list[tuple[int, int, Path, list[str]]] = []
    hidden = [path for path in found.hidden if not below(path, [p for p in found.hidden if p != path])]
    entries = (
        (0, found.anchors, "--bind"),
        (1, (*kernel_switches(), *found.readonly), "--ro-bind"),
        (3, [path for path in found.writable if path.exists()], "--bind"),
        (4, shown, "--bind"),
    )
    for rank, paths, option in entries:
        kinds += [(len(path.parts), rank, path, [option, str(path), str(path)]) for path in paths]
    kinds += [(len(path.parts), 2, path, _hide(str(path))) for path in (*hidden, *masked)]
    ordered = [word for *_, words in sorted(kinds, key=itemgetter(0, 1, 2)) for word in words]
    closed = [word for path in (*hidden, *masked) if path.is_dir() for word in ("--remount-ro", str(path))]
    return ordered + closed, [str(path) for _, _, path, _ in kinds]


@lru_cache(maxsize=16)
def _unmounted(mounted: bytes, points: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the places on which nothing is mounted by the kernel's list of mounts."""
    there = {line.split(b" ", 5)[4] for line in mounted.splitlines()}
    return tuple(point for point in points if _escaped(point) not in there)


def _escaped(path: str) -> bytes:
    """A path as the kernel's list of mounts has it."""
    return re.sub(rb"[ \t\n\\]", lambda one: b"\\%03o" % ord(one[0]), os.fsencode(path))


def _hide(path: str) -> list[str]:
    if Path(path).is_dir():
        return ["--perms", "0700", "--tmpfs", path]
    # A device that a mount without devices shows cannot be opened: the file is there and says no.
    return ["--ro-bind", "/dev/null", path]


def _kept_of_doors(env: Mapping[str, str], masked: Iterable[Path]) -> list[Path]:
    """What stays of the masked folders: the agents that sign for git and ssh, which start nothing."""
    agents = [Path(env["SSH_AUTH_SOCK"])] if env.get("SSH_AUTH_SOCK", "").startswith("/") else []
    folders = [path for path in masked if path.is_dir()]
    agents += [folder / name for folder in folders for name in ("gnupg", "keyring/ssh", "gcr/ssh")]
    return [path.resolve() for path in agents if path.exists() and below(path.resolve(), folders)]


def _make_missing(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            if path.exists():
                continue
            if path.name == PASSWORDS:
                path.touch(0o600)
            else:
                path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ProcessError(
                f"cannot guard {path}: it does not exist and cannot be made ({error.strerror}); make the folder"
            ) from error
