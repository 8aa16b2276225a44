"""How children are started for the model: behind the shield, without secrets in their environment.

What instar starts for itself (git, a browser, an editor) goes through `Processes` instead.
"""

import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, Final

from instar.process import Output, Processes
from instar.process.confine import Confinement
from instar.sandbox import GuardedPaths, Level, Places, Shield, environment, own_places
from instar.sandbox.guarded_places import GuardedPlaces
from instar.sandbox.level import Name
from instar.sandbox.probe import known_level
from instar.sandbox.shield import guarded_paths
from instar.settings.paths import Paths
from instar.wire.secret import Secret

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
        self._last: tuple[GuardedPaths | None, float] = (None, 0.0)
        self.steering = None if worktree is None else GuardedPlaces(worktree, paths.home, variables)
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

    def watched(self, wanted: bool = True) -> AbstractContextManager[None]:
        """Notice what changes of guarded places while the block runs."""
        return self.steering.watched() if wanted and self.steering is not None else nullcontext()

    async def level(self) -> Level:
        """Return how far children are confined here: tried out, which takes some 50 ms, and remembered."""
        if self._level is None:
            file = self._paths.data / "confinement.json"
            self._level = await known_level(self._processes, self._variables, self.at_most, file)
            path, home = self._variables.get("PATH"), self._paths.home
            needed = [names for program, names in _IN_HOME.items() if shutil.which(program, path=path)]
            await self.make_room(*(home / name for name in chain.from_iterable(needed)))
        return self._level

    async def make_room(self, *folders: Path, files: Collection[Path] = ()) -> None:
        """Make what is needed beside a guarded folder at the level "landlock": children can make nothing there."""
        for path in (*folders, *files) if (await self.level()).name == "landlock" else ():
            # What cannot be made is reported by the program that needs it.
            with contextlib.suppress(OSError):
                path.touch() if path in files else path.mkdir(parents=True, exist_ok=True)

    async def shield(self) -> Shield:
        """Return the shield as of now; at the level "none" it changes nothing."""
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
        self._added[len(self._added) if owner is None else owner] = Places(
            tuple(hidden), tuple(readonly), tuple(writable)
        )
        self._last = (None, 0.0)

    def refusal(self, path: Path, *, writing: bool) -> str | None:
        """Return why a tool may not read, or write, the file at `path`; None when it may.

        For tools that do so in instar itself, where no shield is. The deepest place that holds the path decides.
        """
        kind = _deepest(self._guarded(), path.resolve())
        if kind == "hidden":
            return f"{path} is instar's own: it is neither read nor written for the model"
        if kind == "readonly" and writing:
            return f"{path} is guarded: it is not written by tools"
        return None

    def environment(self, variables: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
        """Return `variables` without what holds a secret, but for what was named to be kept."""
        return environment(variables, secrets=self.secrets(), keep=self._keep | set(keep))

    def _guarded(self) -> GuardedPaths:
        """What is guarded, by real paths; not found anew for each of the files that a search has found."""
        found, until = self._last
        if found is None or time.monotonic() > until:
            places = self._places()
            found = guarded_paths(places.hidden, places.readonly, places.writable)
            self._last = (found, time.monotonic() + _KEPT)
        return found

    def _places(self) -> Places:
        all_ = [own_places(self._paths), *self._added.values()]
        return Places(
            tuple(path for one in all_ for path in one.hidden),
            tuple(path for one in all_ for path in one.readonly),
            tuple(path for one in all_ for path in one.writable),
        )


def _deepest(found: GuardedPaths, path: Path) -> str:
    """The kind of the deepest place that holds `path`, "" for none; at one place what a shield puts on top."""
    kinds = (("readonly", found.readonly), ("hidden", found.hidden), ("writable", found.writable))
    holding = [
        (len(folder.parts), rank, kind)
        for rank, (kind, folders) in enumerate(kinds)
        for folder in folders
        if path.is_relative_to(folder)
    ]
    return max(holding)[2] if holding else ""
