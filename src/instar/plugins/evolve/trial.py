"""Trials: where code that nobody has read runs, in a copy of the workspace and in a sandbox.

What a trial changes is thrown away with it.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import Client, document, process, sandbox
from instar.plugins.evolve.history import tree
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.workspace import VARIABLES, visible

_PATIENCE: Final = 30.0
_LEFT_OUT: Final = frozenset((".git",))
_CODE: Final = ("hooks", "tests", "evals")


class NoTrial(Exception):
    """No trial can be made here; the text says why and what to do."""


class TrialFile(msgspec.Struct, frozen=True):
    """A file's bytes and its permission bits."""

    content: bytes
    mode: int = 0o644


Changes = Mapping[str, TrialFile | None]
"""What is different in a copy: by path in the workspace the new file, or None for one that is gone."""


class Trial:
    """One copy. `root` is the workspace's path as a child in the copy sees it."""

    def __init__(self, trials: "Trials", copy: sandbox.Copy) -> None:
        self._trials = trials
        self.copy = copy
        self.root = copy.folder

    def changed(self, path: str) -> Path | None:
        """Return where a file that differs from the workspace's stands, seen from outside; None where none does."""
        found = self.copy.changes / path
        return found if os.path.lexists(found) else None

    def outside(self, path: str) -> Path:
        """Return where a file of the copy stands, seen from outside, also one that is the workspace's."""
        return self.changed(path) or self.copy.source / path

    def watch(self) -> Callable[[], list[str]]:
        """Watch the code in the copy: what is returned tells which files of it were changed from now on, by path.

        Code are the files of hooks/, tests/ and evals/ without Python's caches. New ones count in evals/:
        a program there would import them. One that was put back counts: a test that was read while it stood otherwise
        proves nothing.
        """
        before = self._code()

        def changed() -> list[str]:
            after = self._code()
            there = [
                path
                for path in after
                if path in before or path.startswith("evals/") or os.path.lexists(self.copy.source / path)
            ]
            touched = [path for path in there if before.get(path) != after[path]]
            return sorted({*touched, *(before.keys() - after.keys())})

        return changed

    def _code(self) -> dict[str, tuple[int, ...]]:
        """What differs after any change of a file, by path; of an overlay only what stands in the copy itself."""
        found: dict[str, tuple[int, ...]] = {}
        for name in _CODE:
            todo = [self.copy.changes / name]
            while todo:
                path = todo.pop()
                with suppress(FileNotFoundError):
                    info = path.lstat()
                    if stat.S_ISDIR(info.st_mode) and path.name != "__pycache__":
                        todo += path.iterdir()
                    elif not stat.S_ISDIR(info.st_mode):
                        # The time of the inode's change is not for a program to set. What hides a file in an overlay is
                        # one inode for many, whose time changes with each mount.
                        mark = (0, 0) if stat.S_ISCHR(info.st_mode) else (info.st_ino, info.st_ctime_ns)
                        found[str(path.relative_to(self.copy.changes))] = (*mark, info.st_mode)
        return found

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float,
        limit: int = process.MIB,
        merge: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> process.Output:
        """Run `argv` in the copy to its end: with no network, no home, no key, and limits on what it uses.

        `argv[0]` is an absolute path below `root`, or a program's name. `env` is set over the few variables that a
        sandbox leaves. Raises `process.ProcessError` when it cannot be started.
        """
        confine, given = self._trials.confined(self.copy, dict(env or {}))
        return await self._trials.processes.run(
            argv,
            cwd=self.root,
            env=given,
            stdin=stdin,
            timeout=timeout,
            limit=limit,
            merge=merge,
            confine=confine,
        )


class Trials:
    """Makes trials at one level of confinement.

    `environment` is the person's, of which a sandbox leaves `PATH`, locale and time zone. `unsafe`: where the machine
    has no sandbox, run in a plain copy as the person; else `copy` refuses there.
    """

    def __init__(
        self,
        processes: process.Processes,
        level: sandbox.Level,
        environment: Mapping[str, str],
        limits: sandbox.Limits | None = None,
        unsafe: bool = False,
    ) -> None:
        self.processes = processes
        self._level = level
        self._environment = environment
        self._limits = limits or sandbox.Limits()
        self._unsafe = unsafe

    @property
    def enforced(self) -> bool:
        """Whether a sandbox holds what is tried."""
        return self._level.name != "none"

    @asynccontextmanager
    async def copy(self, source: Path, changes: Changes) -> AsyncIterator[Trial]:
        """Copy `source` without ``.git``, with `changes` made, for as long as the context is open.

        Raises `NoTrial` where there is no sandbox, and when the copy cannot be made.
        """
        if not self.enforced and not self._unsafe:
            raise NoTrial(
                f"there is no sandbox on this machine ({self._level.missing}): {self._level.todo}; or let "
                'untested code run as you by "evolve": {"unsafe": true} in your own instar.json'
            )
        held = ExitStack()
        try:
            try:
                trial = Trial(self, await self._made(held, source))
                await asyncio.to_thread(_write, trial.copy.changes, changes)
                await self._delete(trial, [path for path, file in changes.items() if file is None])
            except OSError as error:
                raise NoTrial(f"the workspace could not be copied: {error}") from None
            yield trial
        finally:
            # In a thread, and waited for also when this is cancelled: what is left would fill the disk.
            await process.whole(asyncio.ensure_future(asyncio.to_thread(held.close)))

    def confined(
        self, copy: sandbox.Copy, env: dict[str, str]
    ) -> tuple[sandbox.Sandbox | None, dict[str, str]]:
        """Return what holds a run in a copy, and its environment with `env` over it."""
        given = {**self._environment, **dict.fromkeys(VARIABLES, str(copy.folder)), **env}
        keep = frozenset((*VARIABLES, *env))
        if self.enforced:
            readable = sandbox.toolchains(self._environment)
            return sandbox.Sandbox(self._level, copy, self._limits, readable, keep), given
        home = copy.scratch / "tmp"
        home.mkdir(exist_ok=True)
        return None, sandbox.bare(given, str(home), keep)

    async def _made(self, held: ExitStack, source: Path) -> sandbox.Copy:
        beside = None if self._level.overlay else tree.place_for_copy(source)
        making = asyncio.ensure_future(
            asyncio.to_thread(
                lambda: held.enter_context(
                    sandbox.copy_of(source, self._level, Path(beside) if beside else None, _LEFT_OUT)
                )
            )
        )
        copy = await process.whole(making)
        if self._level.overlay:
            # A character device 0:0 hides what lies below it.
            for name in _LEFT_OUT:
                with suppress(OSError):
                    os.mknod(copy.changes / name, stat.S_IFCHR, os.makedev(0, 0))
        return copy

    async def _delete(self, trial: Trial, paths: Sequence[str]) -> None:
        if paths and self._level.overlay:
            await trial.run(["rm", "-rf", "--", *paths], timeout=_PATIENCE, merge=True)
        elif paths:
            for path in paths:
                gone = trial.copy.changes / path
                if gone.is_dir() and not gone.is_symlink():
                    sandbox.remove(gone)
                else:
                    gone.unlink(missing_ok=True)


@asynccontextmanager
async def nobody() -> AsyncIterator[Client]:
    """Raise `NoTrial`: here no model can be asked."""
    raise NoTrial("evals that ask a model cannot be run here")
    yield


class Bench(msgspec.Struct, frozen=True):
    """Where and how candidates are tried: `timeout` in seconds a start, `replay_seconds` for a whole replay.

    `client` opens what asks models for evals, `model` is the workspace's own ("": none is named).
    """

    trials: Trials
    checkouts: ReplayCheckouts
    timeout: float
    replay_seconds: float = 10.0
    strict: bool = False
    client: Callable[[], AbstractAsyncContextManager[Client]] = nobody
    model: str = ""


def listed(root: Path, folder: str, changes: Changes) -> dict[str, bool]:
    """Return the files of a folder of the workspace with `changes`, by name: whether each is executable.

    Links and hidden names are left out.
    """
    found: dict[str, bool] = {}
    with suppress(OSError), os.scandir(root / folder) as entries:
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                found[entry.name] = bool(info.st_mode & stat.S_IXUSR)
    for path, file in changes.items():
        above, _, name = path.rpartition("/")
        if above == folder:
            found.pop(name, None)
            if file is not None:
                found[name] = bool(file.mode & stat.S_IXUSR)
    return {name: found[name] for name in sorted(found) if visible(name)}


def content(root: Path, path: str, changes: Changes) -> bytes:
    """Return a file of the workspace with `changes`. Raises `OSError`."""
    if path in changes:
        file = changes[path]
        if file is None:
            raise FileNotFoundError(path)
        return file.content
    return document.read_bytes(root / path)


def _write(folder: Path, changes: Changes) -> None:
    for path, file in changes.items():
        if file is not None:
            target = folder / path
            for above in reversed(target.relative_to(folder).parents[:-1]):
                if (folder / above).is_symlink():
                    # It would lead out of the copy.
                    (folder / above).unlink()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode)
