"""How children are started for the model: behind the shield, without secrets in their environment.

What instar starts for itself (git, a browser, an editor) goes through `Processes` instead.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from instar.process import Output, Processes
from instar.process.confine import Confinement
from instar.sandbox.environment import environment
from instar.sandbox.level import Level, Name
from instar.settings import own_edits
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.wire.secret import Secret

if TYPE_CHECKING:
    from instar.sandbox.guarded_places import GuardedPlaces
    from instar.sandbox.shield import GuardedPaths, Places, Shield

_KEPT: Final = 0.1
"""Seconds for which it is not looked again which real paths are guarded."""
_IN_HOME: Final[Mapping[str, tuple[str, ...]]] = {
    "npm": (".npm",),
    "yarn": (".yarn", ".cache/yarn"),
    "pnpm": (".cache/pnpm", ".local/share/pnpm", ".local/state/pnpm"),
    "bun": (".bun",),
    "deno": (".cache/deno",),
    "pip": (".cache/pip", ".local/lib"),
    "uv": (".cache/uv", ".local/share/uv"),
    "cargo": (".cargo",),
    "go": ("go", ".cache/go-build", ".config/go"),
    "java": (".gradle", ".m2"),
    "dotnet": (".dotnet", ".nuget"),
}
"""The folders that programs make in a home for what they load and build."""


class Children(Processes):
    """The children of one runtime that are started for the model. Use it from one event loop.

    `processes` are instar's own children. `variables` is the person's environment, in which bubblewrap is looked
    for. `secrets` gives the values that instar knows, asked when a child is about to be started. `keep` names
    variables that children get although they look like secrets. `at_most` asks for a lower level than the best
    that the machine reaches. Guarded places (`guarded_places.py`) are looked at where a `worktree` is given.
    """

    def __init__(
        self,
        processes: Processes,
        paths: Paths,
        variables: Mapping[str, str],
        *,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        keep: Collection[str] = (),
        at_most: Name = "bubblewrap",
        worktree: Path | None = None,
    ) -> None:
        super().__init__()
        self._processes = processes
        self._paths = paths
        self._variables = variables
        self.secrets = secrets
        self._keep = frozenset(keep)
        self.at_most = at_most
        self._added: dict[object, Places] = {}
        self._level: Level | None = None
        self._finding = asyncio.Lock()
        self._last: tuple[GuardedPaths | None, float] = (None, 0.0)
        self._worktree = worktree
        self.steering: GuardedPlaces | None = None
        """What is looked at around children, once there is one."""
        self._lives = self._lock = 0
        self._own_edits = paths.own_edits
        self.settle: Callable[[], Awaitable[Any]] | None = None
        """Decides about what a child changed of guarded places when no turn does."""

    async def run(self, argv: Sequence[str], *, confine: Confinement | None = None, **how: Any) -> Output:
        """Run `argv` as `Processes.run` does; without `confine` behind the shield.

        What it changes of guarded places is noticed when it ends. A server of a plugin's, which is spoken to by a
        descriptor, lasts: what it changes is noticed when the call ends that it does it for.
        """
        with self.watched(not isinstance(how.get("stdin"), int)):
            output = await super().run(argv, confine=confine or await self.shield(), **how)
        if self.steering is not None and self.steering.due and self.settle is not None:
            await self.settle()
        return output

    @contextmanager
    def watched(self, wanted: bool = True) -> Iterator[None]:
        """Notice what changes while the block runs, of guarded places and of what steers."""
        if not wanted:
            yield
            return
        if self.steering is None and self._worktree is not None:
            # Start-up time, here and below: many turns start no child.
            from instar.sandbox.guarded_places import GuardedPlaces

            self.steering = GuardedPlaces(self._worktree, self._paths.home, self._variables)
        with self.lived(), self.steering.watched() if self.steering is not None else nullcontext():
            yield

    @contextmanager
    def lived(self) -> Iterator[None]:
        """Count what changes of what steers while the block runs as the model's (`instar.settings.own_edits`)."""
        if not self._lives:
            self._own_edits.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._own_edits, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Shared in the end. In between another may have ended: what it noted is looked at again.
            for how in (fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH):
                with suppress(BlockingIOError):
                    fcntl.flock(self._lock, how)
                    self._note(own_edits.begin, alone=how != fcntl.LOCK_SH)
        self._lives += 1
        try:
            yield
        finally:
            self._lives -= 1
            if not self._lives:
                with suppress(BlockingIOError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._note(own_edits.end)
                os.close(self._lock)

    def _note(self, note: Callable[..., None], **how: bool) -> None:
        # An empty file: the person said it of no folder.
        if os.fstat(self._lock).st_size:
            note(Trust(self._paths, self._variables), self._lock, **how)

    async def level(self) -> Level:
        """Return how far children are confined here: tried out, which takes some 50 ms, and remembered."""
        async with self._finding:
            if self._level is None:
                from shutil import which

                from instar.sandbox.probe import known_level

                file = self._paths.data / "confinement.json"
                self._level = await known_level(self._processes, self._variables, self.at_most, file)
                path, home = self._variables.get("PATH"), self._paths.home
                needed = [names for program, names in _IN_HOME.items() if which(program, path=path)]
                _make(self._level, [home / name for name in chain.from_iterable(needed)])
            return self._level

    async def make_room(self, *folders: Path, files: Collection[Path] = ()) -> None:
        """Make what is needed beside a guarded folder at the level "landlock": children can make nothing there."""
        _make(await self.level(), folders, files)

    async def shield(self) -> "Shield":
        """Return the shield as of now; at the level "none" it changes nothing."""
        from instar.sandbox.shield import Shield

        places = self._places()
        return Shield(await self.level(), places.hidden, places.readonly, places.writable)

    def guard(
        self,
        *,
        hidden: Iterable[Path] = (),
        readonly: Iterable[Path] = (),
        writable: Iterable[Path] = (),
        owner: str | None = None,
    ) -> None:
        """Guard more places from now on; `writable` ones stay so inside of them.

        With an `owner` they take the place of those that it had guarded before.
        """
        from instar.sandbox.shield import Places

        self._added[len(self._added) if owner is None else owner] = Places(
            tuple(hidden), tuple(readonly), tuple(writable)
        )
        self._last = (None, 0.0)

    def refusal(self, path: Path, *, writing: bool) -> str | None:
        """Return why a tool may not read, or write, the file at `path`; None when it may.

        For tools that do so in instar itself, where no shield is. The deepest place that holds the path decides.
        """
        kind = _deepest(self._guarded(), os.path.realpath(path))
        if kind == "hidden":
            return f"{path} is instar's own: it is neither read nor written for the model"
        if kind == "readonly" and writing:
            return f"{path} is guarded: it is not written by tools"
        return None

    def environment(self, variables: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
        """Return `variables` without what holds a secret, but for what was named to be kept."""
        return environment(variables, secrets=self.secrets(), keep=self._keep | set(keep))

    def _guarded(self) -> "GuardedPaths":
        """What is guarded, by real paths; not found anew for each of the files that a search has found."""
        from instar.sandbox.shield import guarded_paths

        found, until = self._last
        if found is None or time.monotonic() > until:
            places = self._places()
            found = guarded_paths(places.hidden, places.readonly, places.writable)
            self._last = (found, time.monotonic() + _KEPT)
        return found

    def _places(self) -> "Places":
        from instar.sandbox.shield import Places, own_places

        all_ = [own_places(self._paths), *self._added.values()]
        return Places(
            tuple(path for one in all_ for path in one.hidden),
            tuple(path for one in all_ for path in one.readonly),
            tuple(path for one in all_ for path in one.writable),
        )


def _make(level: Level, folders: Collection[Path], files: Collection[Path] = ()) -> None:
    for path in (*folders, *files) if level.name == "landlock" else ():
        # What cannot be made is reported by the program that needs it.
        with suppress(OSError):
            path.touch() if path in files else path.mkdir(parents=True, exist_ok=True)


def _deepest(found: "GuardedPaths", path: str) -> str:
    """The kind of the deepest place that holds `path`, "" for none; at one place what a shield puts on top."""
    kinds = (("readonly", found.readonly), ("hidden", found.hidden), ("writable", found.writable))
    holding = [
        (len(str(folder)), rank, kind)
        for rank, (kind, folders) in enumerate(kinds)
        for folder in folders
        if f"{path}/".startswith(f"{str(folder).rstrip('/')}/")
    ]
    return max(holding)[2] if holding else ""
