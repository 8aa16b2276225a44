"""The shield: everything as the person has it, but what is guarded cannot be changed, and what is hidden not read.

Source: issue 5, item 1. `docs/sandbox.md` says what is held at which level and what is not.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from instar.process import ProcessError
from instar.process.confine import Wrapped
from instar.sandbox import bubblewrap, landlock, seccomp
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
        if self.level.name == "bubblewrap":
            return self._mounted(argv, cwd, env)
        policy = self.policy(env)
        if policy is None:
            return Wrapped(list(argv), env)
        opened = [bubblewrap.memory(policy)]
        return Wrapped(bubblewrap.launch(opened[0], argv), env, tuple(opened), bubblewrap.closing(opened))

    def policy(self, env: Mapping[str, str] | None = None) -> bytes | None:
        """Return the Landlock policy at the level "landlock", else None.

        At the level "bubblewrap" a process that forks shielded children is itself to be started by `wrap`: what it
        forks is behind the same mounts, at no cost. `env` is the environment that the launcher leaves as it was.
        """
        if self.level.name != "landlock":
            return None
        found = self.guard()
        closed = (*found.hidden, *found.readonly, *kernel_switches(), *_block_devices())
        rules = [
            (landlock.READ_FILE, _granted(found.hidden, (*found.readonly, *found.writable))),
            (landlock.WRITE, _granted(closed, found.writable)),
        ]
        return landlock.encode(
            fs=landlock.READ_FILE | landlock.WRITE,
            rules=rules,
            scope=landlock.ABSTRACT_SOCKETS,
            seccomp=seccomp.program(seccomp.SHIELD),
            drop=list(bubblewrap.CAPABILITIES.values()),
            restore=_locale(env),
        )

    def guard(self) -> Guard:
        """Return what is guarded, by real paths, as of now; its `gaps` are what this shield cannot hold."""
        return guard(self.hidden, self.readonly, self.writable)

    def _mounted(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        found = self.guard()
        _make_missing((*found.hidden, *found.readonly))
        arguments = [*bubblewrap.everything(), *_mounts(found, env), *self.level.final]
        lock = self.inside and self.level.landlock >= 6
        return bubblewrap.command(
            self.level.program,
            arguments,
            argv,
            cwd=str(cwd),
            env=env,
            seccomp=seccomp.program(seccomp.SHIELD),
            policy=bubblewrap.lock(env) if lock else b"",
            quick=bubblewrap.locked(argv, env) if lock else None,
        )


def _mounts(found: Guard, env: Mapping[str, str]) -> list[str]:
    """The mounts of a guard from the shallow to the deep, so that one inside another lies over it."""
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
    return ordered + closed


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


def _granted(closed: Sequence[Path], opened: Sequence[Path]) -> list[str]:
    """Every path that leads to nothing closed, as high up as that is so; and what is opened again inside."""
    if not closed:
        return ["/"]
    return [*_beside(Path("/"), frozenset(closed)), *(str(path) for path in opened)]


def _beside(folder: Path, closed: frozenset[Path]) -> list[str]:
    above = {parent for path in closed for parent in path.parents}
    found, todo = [], [folder]
    while todo:
        here = todo.pop()
        if here in closed:
            continue
        if here not in above:
            found.append(str(here))
            continue
        try:
            with os.scandir(here) as entries:
                todo += [here / entry.name for entry in entries if not entry.is_symlink()]
        except OSError:
            continue
    return found


def _block_devices() -> list[Path]:
    """The devices that hold file systems, for root, who could write past every rule on paths."""
    if os.geteuid() != 0:
        return []
    return [
        path
        for path in Path("/dev").iterdir()
        if path.is_block_device() or path.name in ("mem", "port", "kmem")
    ]


def _locale(env: Mapping[str, str] | None) -> dict[str, str | None]:
    """The launcher's Python may set this variable for itself (PEP 538); the program must find it as it was."""
    return {} if env is None else {"LC_CTYPE": env.get("LC_CTYPE")}
