"""Guarded places: files that run programs later and outside every shield, looked at around what the model starts.

They are git's own steering of a project (hooks, configuration, what stands for a git folder) and the start-up files of
`startup_files.py`. What stands there is read before something of the model's starts, and its signature is looked at
when that ends; a content is read only where the signature is another. What changed waits until somebody decides.
"""
# A look at them must take less than a millisecond.
# ruff: noqa: PTH112, PTH113, PTH115, PTH116, PTH118, PTH119, PTH120, PTH207

import glob
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.git import common_folder, git_folder
from instar.sandbox.startup_files import GIT, HOME, STARTUP_PLACES
from instar.wire.pattern import late_pattern

ROOT_VARIABLE: Final = "INSTAR_SYSTEM_ROOT"
"""Names the folder in which the machine's own places are looked for, for a system that stands below another one's."""
LARGEST: Final = 1 << 20
"""Bytes of a file that are kept so that they can be put back."""

Kind = Literal["hook", "config", "pointer", "startup"]
"""A git hook, a configuration of git, what leads to a git folder, a start-up file."""
Signature = tuple[int, int, int, int, int]

_HOOKS: Final = late_pattern(r"^(?!.*\.sample$)")
_HOOK_REASON: Final = "git runs it"
_CONFIG_REASON: Final = "git reads it in this repository"
_POINTER_REASON: Final = "git looks there for hooks and settings"
_HOOKS_PATH: Final = late_pattern(rb"hookspath\s*=\s*([^\n#;]+)", re.IGNORECASE)
_WORKTREE: Final = late_pattern(rb"worktree\s*=\s*([^\n#;]+)", re.IGNORECASE)
_RUNS: Final = 0o6111
"""The bits of a mode that say who may run a file, and as whom."""
_SETTLED: Final = 20_000_000
"""Nanoseconds after which a change has another time than the one before it, on every file system."""
_NESTED: Final = 4
"""Levels of folders in which the git folders of submodules are looked for."""


class GuardedPlace(msgspec.Struct, frozen=True):
    """A file, or with `names` the matching files of the folder `base`. `guards`: that a file goes counts too."""

    base: str
    kind: Kind
    reason: str
    names: re.Pattern[str] | None = None
    depth: int = 1
    guards: bool = False


class FileState(msgspec.Struct, frozen=True):
    """What stands at a path: its mode, and its content, of a link its target. None: too large, or none of both."""

    mode: int
    data: bytes | None


class GuardedChange(msgspec.Struct, frozen=True):
    """A file that changed: what stood there and what stands there now, None for nothing."""

    path: str
    place: GuardedPlace
    former: FileState | None
    now: FileState | None


class _Known(msgspec.Struct, frozen=True):
    place: GuardedPlace
    signature: Signature
    state: FileState | None


class GuardedPlaces:
    """The places of one project and of its machine. Use it from one thread."""

    def __init__(self, worktree: Path, home: Path, environment: Mapping[str, str]) -> None:
        self.worktree = os.path.realpath(worktree)
        self._machine = machine_places(environment.get(ROOT_VARIABLE, "/"), str(home))
        self._writers = 0
        self._known: dict[str, _Known] = {}
        self._pending: dict[str, tuple[GuardedPlace, FileState | None]] = {}
        self._folders: list[str] = []
        self._more: list[GuardedPlace] = []
        self._real = {self.worktree: self.worktree}
        self._absent: dict[str, tuple[str, Signature]] = {}
        self._listed: dict[tuple[str, re.Pattern[str]], tuple[Signature, list[str], list[str]]] = {}

    @property
    def due(self) -> bool:
        """Whether something changed, or may have: what the model started still runs."""
        return bool(self._pending or self._writers)

    @property
    def repository(self) -> str:
        """The git folder that all worktrees of the project share; outside a repository the project's folder."""
        return self._folders[-1] if self._folders else self.worktree

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what changes while the block runs as the model's; what changes outside of all blocks is a person's."""
        if not self._writers:
            self._remember()
        self._writers += 1
        try:
            yield
        finally:
            self._writers -= 1
            # While another block runs, `take` looks.
            if not self._writers:
                self._look()

    def take(self) -> list[GuardedChange]:
        """Return what changed and still differs, the shallow first, and take all as it is now."""
        if self._writers:
            self._look()
        pending, self._pending = self._pending, {}
        found = []
        for path in sorted(pending, key=lambda one: (one.count("/"), one)):
            place, former = pending[path]
            now = state_of(path)
            if not _same(former, now) and (now is not None or _counts_as_gone(place)):
                found.append(GuardedChange(path, place, former, now))
        return found

    def know(self, change: GuardedChange) -> None:
        """Take one file as it is now: it was decided about, or put back."""
        self._pending.pop(change.path, None)
        self._known.pop(change.path, None)
        if (state := state_of(change.path)) is not None:
            # With no signature of its own it is read once more.
            self._known[change.path] = _Known(change.place, (0, 0, 0, 0, 0), state)

    def forgive(self) -> None:
        """Take everything as it is now: a person did it."""
        self._pending = {}
        self._remember()

    def real(self, path: str) -> str:
        """Return where a changed file stands if its folders are those that they were before.

        No link may stand on that way: one that the model made could lead to any file of the person's.
        """
        folder = os.path.dirname(path)
        while folder not in self._real and folder != "/":
            folder = os.path.dirname(folder)
        return os.path.join(self._real.get(folder, "/"), os.path.relpath(path, folder))

    def _remember(self) -> None:
        """Take everything as it is now."""
        now = self._scan(self._places(self._folders))
        if self._folders and {path: one.signature for path, one in self._known.items()} == {
            path: signature for path, (_, signature) in now.items()
        }:
            return
        git, common = git_folder(Path(self.worktree)), common_folder(Path(self.worktree))
        self._folders = [str(one) for one in (git, common) if one] or [f"{self.worktree}/.git"]
        self._more = []
        known = self._read(self._scan(self._places(self._folders)))
        self._more = [*_leads(known), *_hooks_path(known, self.worktree)]
        known |= self._read(self._scan(self._more))
        followed = [
            msgspec.structs.replace(one.place, base=target, names=None)
            for path, one in known.items()
            if one.state and stat.S_ISLNK(one.state.mode) and _is_followed(path, one.place)
            if os.path.isfile(target := os.path.realpath(path))
        ]
        self._more += followed
        self._known = known | self._read(self._scan(followed))
        for place in self._places(self._folders):
            for folder in (place.base, os.path.dirname(place.base)):
                if folder not in self._real:
                    self._real[folder] = os.path.realpath(folder)

    def _look(self) -> None:
        """Note what is another than what is known."""
        folders = [one for one in self._folders if self._real.get(one) == os.path.realpath(one)]
        now = self._scan(self._places(folders))
        for path in [one for one in self._known if one not in now]:
            known = self._known.pop(path)
            self._pending.setdefault(path, (known.place, known.state))
        for path, (place, signature) in now.items():
            before = self._known.get(path)
            if before is not None and before.signature == signature:
                continue
            state = state_of(path)
            if before is None or not _same(before.state, state):
                self._pending.setdefault(path, (place, before.state if before else None))
            self._known[path] = _Known(place, signature, state)

    def _read(self, found: Mapping[str, tuple[GuardedPlace, Signature]]) -> dict[str, _Known]:
        known = {}
        for path, (place, signature) in found.items():
            before = self._known.get(path)
            same = before is not None and before.signature == signature
            known[path] = before if before and same else _Known(place, signature, state_of(path))
        return known

    def _places(self, folders: Iterable[str]) -> list[GuardedPlace]:
        return [*self._machine, *git_places(self.worktree, folders), *self._more]

    def _scan(self, places: Iterable[GuardedPlace]) -> dict[str, tuple[GuardedPlace, Signature]]:
        """Return the signatures of all files of these places. What cannot be read is not there."""
        found: dict[str, tuple[GuardedPlace, Signature]] = {}
        seen: dict[str, Signature | None] = {}
        young = time.time_ns() - _SETTLED
        for place in places:
            base, names = place.base, place.names
            if absent := self._absent.get(base):
                above, before = absent
                if (seen[above] if above in seen else _seen(above, seen)) == before:
                    continue
            try:
                status = os.lstat(base)
            except OSError:
                above = os.path.dirname(base)
                while (there := seen[above] if above in seen else _seen(above, seen)) is None:
                    above = os.path.dirname(above)
                if there[-1] < young:
                    # As long as the folder stays as it is, nothing was made in it.
                    self._absent[base] = above, there
                continue
            is_link = stat.S_ISLNK(status.st_mode)
            if not stat.S_ISDIR(status.st_mode):
                found[base] = place, _signature(status, young)
            if names is None or (is_link and self._real.get(base, "") not in ("", os.path.realpath(base))):
                continue
            for path, inner in self._files(base, names, place.depth, young):
                found[path] = place, _signature(inner, young)
        return found

    def _files(
        self, folder: str, names: re.Pattern[str], depth: int, young: int
    ) -> list[tuple[str, os.stat_result]]:
        """The files that match, down to `depth`. A folder is listed anew when something was made or removed in it."""
        found: list[tuple[str, os.stat_result]] = []
        try:
            now = _signature(os.stat(folder), young)
        except OSError:
            return found
        before, files, folders = self._listed.get((folder, names), (None, [], []))
        if before != now:
            files, folders = _list(folder, names)
            self._listed[folder, names] = now, files, folders
        for path in files:
            try:
                found.append((path, os.lstat(path)))
            except OSError:
                continue
        for inner in folders if depth > 1 else ():
            found += self._files(inner, names, depth - 1, young)
        return found


def machine_places(root: str, home: str) -> list[GuardedPlace]:
    """Return the start-up files of the person and, for root, of the machine."""
    found = []
    for path, reason, names, depth in STARTUP_PLACES:
        if not path.startswith(HOME) and root == "/" and os.geteuid() != 0:
            continue
        whole = f"{home}/{path[len(HOME) :]}" if path.startswith(HOME) else f"{root.rstrip('/')}{path}"
        kind: Kind = "config" if reason == GIT else "startup"
        for base in glob.glob(whole) if "*" in whole else [whole]:
            found.append(GuardedPlace(base, kind, reason, names, depth))
    return found


def git_places(worktree: str, folders: Iterable[str]) -> list[GuardedPlace]:
    """Return git's places of a worktree whose git folders are `folders`, the shared one last."""
    found = [GuardedPlace(f"{worktree}/.git", "pointer", _POINTER_REASON)]
    for folder in dict.fromkeys(folders):
        found += _of_folder(folder)
        if os.path.isdir(f"{folder}/modules"):
            found += _submodules(f"{folder}/modules", _NESTED)
        for name in _names(f"{folder}/worktrees") if os.path.isdir(f"{folder}/worktrees") else ():
            inner = f"{folder}/worktrees/{name}"
            found.append(GuardedPlace(f"{inner}/commondir", "pointer", _POINTER_REASON))
            found.append(GuardedPlace(f"{inner}/config.worktree", "config", _CONFIG_REASON, guards=True))
    return found


def state_of(path: str) -> FileState | None:
    """Return what stands at a path, no link followed; None for nothing and for a folder."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return FileState(status.st_mode, os.fsencode(os.readlink(path)))
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None if stat.S_ISDIR(status.st_mode) else FileState(status.st_mode, None)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return FileState(status.st_mode, file.read(LARGEST))
    except OSError:
        return None


def _of_folder(folder: str) -> list[GuardedPlace]:
    return [
        GuardedPlace(f"{folder}/config", "config", _CONFIG_REASON, guards=True),
        GuardedPlace(f"{folder}/config.worktree", "config", _CONFIG_REASON, guards=True),
        GuardedPlace(f"{folder}/commondir", "pointer", _POINTER_REASON),
        GuardedPlace(f"{folder}/hooks", "hook", _HOOK_REASON, _HOOKS, guards=True),
    ]


def _submodules(folder: str, depth: int) -> list[GuardedPlace]:
    found: list[GuardedPlace] = []
    for name in _names(folder):
        inner = f"{folder}/{name}"
        if os.path.isfile(f"{inner}/HEAD"):
            found += [*_of_folder(inner), *_submodules(f"{inner}/modules", depth - 1)]
        elif depth:
            # A submodule's name may hold slashes.
            found += _submodules(inner, depth - 1)
    return found


def _leads(known: Mapping[str, _Known]) -> Iterator[GuardedPlace]:
    """What in other folders leads to a git folder of these: in submodules, and in other worktrees."""
    for path, one in known.items():
        folder = os.path.dirname(path)
        data = one.state.data if one.state and one.place.kind == "config" and "/modules/" in path else None
        if found := _WORKTREE.search(data or b""):
            tree = os.path.join(folder, os.fsdecode(found[1].strip(b' \t"')))
            yield GuardedPlace(f"{os.path.normpath(tree)}/.git", "pointer", _POINTER_REASON)
        if path.endswith("/commondir") and (state := state_of(f"{folder}/gitdir")) and state.data:
            yield GuardedPlace(os.fsdecode(state.data.strip()), "pointer", _POINTER_REASON)


def _hooks_path(known: Mapping[str, _Known], worktree: str) -> Iterator[GuardedPlace]:
    """Where ``core.hooksPath`` leads inside the project. It comes and goes with branches: only what is new counts."""
    for one in known.values():
        if one.place.kind != "config" or not one.state or not one.state.data:
            continue
        for found in _HOOKS_PATH.findall(one.state.data):
            folder = os.path.realpath(os.path.join(worktree, os.fsdecode(found.strip(b' \t\r"'))))
            if folder.startswith(f"{worktree}/"):
                yield GuardedPlace(folder, "hook", _HOOK_REASON, _HOOKS)
                if os.path.basename(folder) == "_":
                    # husky's own folder, whose scripts run those beside it.
                    yield GuardedPlace(os.path.dirname(folder), "hook", _HOOK_REASON, _HOOKS)


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _list(folder: str, names: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The paths in a folder that match, and those of its folders."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif names.search(entry.name):
                    files.append(entry.path)
    except OSError:
        return files, folders
    return files, folders


def _seen(path: str, seen: dict[str, Signature | None]) -> Signature | None:
    if path not in seen:
        try:
            seen[path] = _signature(os.lstat(path))
        except OSError:
            seen[path] = None
    return seen[path]


def _signature(status: os.stat_result, young: int = 0) -> Signature:
    """Return what is another after a change. What changed after `young` may change again unseen: it never matches."""
    changed = status.st_ctime_ns if not young or status.st_ctime_ns < young else time.time_ns()
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, changed


def _same(one: FileState | None, other: FileState | None) -> bool:
    """Whether two states do the same: kind, content, who may run it and as whom."""
    if one is None or other is None:
        return one is other
    return (
        one.data is not None
        and one.data == other.data
        and stat.S_IFMT(one.mode) == stat.S_IFMT(other.mode)
        and one.mode & _RUNS == other.mode & _RUNS
    )


def _is_followed(path: str, place: GuardedPlace) -> bool:
    return place.kind == "hook" or path == place.base


def _counts_as_gone(place: GuardedPlace) -> bool:
    """Whether it counts that a file of this place goes, unless it went with its git folder."""
    return place.guards and os.path.isfile(f"{os.path.dirname(place.base)}/HEAD")
