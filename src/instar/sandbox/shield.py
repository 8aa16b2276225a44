"""The shield: everything as the person has it, but what is guarded cannot be changed, and what is hidden not read.

`docs/sandbox.md` says what is held at which level and what is not.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from instar.process import ProcessError
from instar.process.confine import Policy, Wrapped
from instar.sandbox import bubblewrap, landlock, seccomp
from instar.sandbox.grants import Grants, grants
from instar.sandbox.guard import Guard, below, doors, guard, kernel_switches
from instar.sandbox.level import Level


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

    def shared(self, env: Mapping[str, str]) -> "Raised | None":
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
        found = self.guard()
        if self.level.name == "landlock":
            return Raised(self.level, grants=grants(found))
        _make_missing((*found.hidden, *found.readonly))
        words, points = _mounts(found, env)
        words = [*bubblewrap.everything(), *words, *self.level.final]
        return Raised(self.level, tuple(words), tuple(points), locks=self._locks())

    def guard(self) -> Guard:
        """Return what is guarded, by real paths, as of now; its `gaps` are what this shield cannot hold."""
        return guard(self.hidden, self.readonly, self.writable)

    def _locks(self) -> bool:
        return self.inside and self.level.landlock >= 6


class Raised(msgspec.Struct, frozen=True):
    """A shield as of one moment.

    `mounts` are bubblewrap's arguments and `points` where these mount; `grants` is what Landlock alone is told.

    `locks`: Landlock stands behind the mounts too. Two of equal value confine alike, as long as the `state` of a
    process behind one of them stays as it was.
    """

    level: Level
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
            return bubblewrap.launched(self._policy(env), argv)
        # What confines starts without the variables of the child: some change how a program starts.
        return bubblewrap.command(
            self.level.program,
            self.mounts,
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
            self.mounts,
            argv,
            cwd="/",
            seccomp=seccomp.program(seccomp.SHIELD),
            policy=None,
            lasting=True,
        )

    def policy(self) -> Policy:
        """Return what a fork of a process behind this adds: it can then not trace that process, nor others there."""
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
        there = {line.split(b" ", 5)[4] for line in mounted.splitlines()}
        missing = [
            point
            for point in self.points
            if _escaped(point) not in there and _escaped(os.path.realpath(point)) not in there
        ]
        if missing:
            raise OSError(f"{missing[0]} is no longer guarded")
        return mounted

    def _inside(self, env: Mapping[str, str], *, stay: bool) -> bytes:
        return bubblewrap.lock(env, stay=stay) if self.locks else landlock.encode(env=env, stay=stay)

    def _policy(self, env: Mapping[str, str] | None) -> bytes:
        return landlock.encode(
            fs=landlock.READ_FILE | landlock.WRITE,
            rules=self.grants.rules,
            files=self.grants.files,
            scope=landlock.ABSTRACT_SOCKETS,
            seccomp=seccomp.program(seccomp.SHIELD),
            drop=list(bubblewrap.CAPABILITIES.values()),
            env=env,
        )


def _mounts(found: Guard, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The mounts of a guard from the shallow to the deep, so that one inside another lies over it; and their places."""
    home = Path(env.get("HOME") or "/")
    masked = [path for path in doors(env, home) if not below(path, found.hidden)]
    shown = _kept_of_doors(env, masked)
    kinds: list[tuple[int, int, Path, list[str]]] = []
    hidden = [path for path in found.hidden if not below(path, [p for p in found.hidden if p != path])]
    entries = (
        (0, found.anchors, lambda path: ["--bind", path, path]),
        (1, (*kernel_switches(), *found.readonly), lambda path: ["--ro-bind", path, path]),
        (2, (*hidden, *masked), _hide),
        (3, [path for path in found.writable if path.exists()], lambda path: ["--bind", path, path]),
        (4, shown, lambda path: ["--bind", path, path]),
    )
    for rank, paths, words in entries:
        kinds += [(len(path.parts), rank, path, words(str(path))) for path in paths]
    ordered = [word for *_, words in sorted(kinds, key=lambda kind: kind[:3]) for word in words]
    closed = [word for path in (*hidden, *masked) if path.is_dir() for word in ("--remount-ro", str(path))]
    return ordered + closed, [str(path) for _, _, path, _ in kinds]


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
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ProcessError(
                f"cannot guard {path}: it does not exist and cannot be made ({error.strerror}); make the folder"
            ) from error
