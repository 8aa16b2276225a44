"""The references of a workspace: with which version of its guarded files a candidate's scores are compared.

They begin with what stands when a person accepts something, and move, for one eval, to a version that has shown itself
better in it. When a version is taken back, they are again what they were when the one that takes its place went live.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from instar.plugins.evolve.gate.paired import risk_of
from instar.plugins.evolve.gate.score import SEEDS
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.trial import TrialFile

_NOTE: Final = "references"

Versions = dict[str, tuple[str, int]]
"""The id of its content and the permission bits of each guarded file, by path."""


class Notes(Protocol):
    """What keeps the references: see `storage.Storage`."""

    def note(self, name: str) -> Any: ...
    def keep(self, name: str, value: Any) -> None: ...


class _Mark(msgspec.Struct):
    """How things stood when a version went live."""

    heights: dict[str, int] = {}
    leads: dict[str, float] = {}


class _Kept(msgspec.Struct):
    """`tried` counts all contests, `since` those that no longer count: from before the person accepted `start`.

    `better` has the references of each eval since then, the newest last. `leads` is by how much what is live was ahead
    of the reference of an eval when it was judged, in the score's unit; 0 where it is not there. `marks` has how many
    references there were, and the leads, when a version went live, by its path and id.
    """

    start: Versions
    better: dict[str, list[Versions]] = {}
    leads: dict[str, float] = {}
    marks: dict[str, _Mark] = {}
    tried: int = 0
    since: int = 0


class Draw(msgspec.Struct, frozen=True):
    """What a contest is held with: see `score.Contest`."""

    risk: float
    first_seed: int


class References:
    """The references of one workspace. What writes raises `OSError`."""

    def __init__(
        self,
        notes: Notes,
        live: Callable[[], Mapping[str, Version]],
        content: Callable[[str], Awaitable[bytes | None]],
    ) -> None:
        self._notes = notes
        self._live = live
        self._content = content

    def open(self) -> None:
        """Begin with what is live, where nothing is known: at the first sight of a workspace."""
        if self._notes.note(_NOTE) is None:
            # A disk that refuses costs no start: what is live when it is asked for serves then.
            with contextlib.suppress(OSError):
                self._keep(_Kept(_versions(self._live())))

    def begin(self) -> None:
        """A person has accepted what is live."""
        kept = self._read()
        self._keep(_Kept(_versions(self._live()), tried=kept.tried, since=kept.tried))

    def moved(self, path: str, better: Iterable[str], leads: Mapping[str, float]) -> None:
        """The version of `path` that is live has been judged: it is `better` in these evals, which compare with it now.

        In others it is ahead of the reference, which stays, by so much (`leads`, below 0: behind).
        """
        kept, live = self._read(), _versions(self._live())
        found = kept.better | {name: [*kept.better.get(name, ()), live] for name in better}
        ahead = {**kept.leads, **leads, **dict.fromkeys(better, 0.0)}
        mark = _Mark({name: len(versions) for name, versions in found.items()}, ahead)
        marks = kept.marks | {_key(path, live): mark}
        self._keep(msgspec.structs.replace(kept, better=found, leads=ahead, marks=marks))

    def taken_back(self, path: str) -> None:
        """A version of `path` was taken back, and the one before it is live again."""
        kept = self._read()
        mark = kept.marks.get(_key(path, _versions(self._live())), _Mark())
        better = {name: found[: mark.heights.get(name, 0)] for name, found in kept.better.items()}
        self._keep(msgspec.structs.replace(kept, better=better, leads=mark.leads))

    def leads(self) -> dict[str, float]:
        """Return by how much what is live was ahead of the reference of each eval when it was judged."""
        return self._read().leads

    def standing(self) -> Any:
        """Return with what scores are compared now, as JSON values."""
        kept = self._read()
        return msgspec.to_builtins([kept.start, kept.better])

    def draw(self, *, counted: bool = True) -> Draw:
        """Count one more contest, and return what it is held with; not `counted`: it lets nothing in."""
        kept = self._read()
        since = kept.since if counted else kept.since + 1
        self._keep(msgspec.structs.replace(kept, tried=kept.tried + 1, since=since))
        return Draw(risk_of(kept.tried + 1 - since if counted else 1), (kept.tried + 1) * SEEDS)

    async def changes(self, name: str) -> dict[str, TrialFile | None]:
        """Return what makes the workspace as accepted that of an eval's reference.

        A content of which no copy is left stays as it is live.
        """
        kept, live = self._read(), _versions(self._live())
        wanted = [kept.start, *kept.better.get(name, ())][-1]
        found: dict[str, TrialFile | None] = dict.fromkeys(live.keys() - wanted.keys())
        for path, (blob, mode) in wanted.items():
            if live.get(path) != (blob, mode) and (data := await self._content(blob)) is not None:
                found[path] = TrialFile(data, mode)
        return found

    def _read(self) -> _Kept:
        try:
            return msgspec.convert(self._notes.note(_NOTE), _Kept)
        except msgspec.ValidationError:
            return _Kept(_versions(self._live()))

    def _keep(self, kept: _Kept) -> None:
        self._notes.keep(_NOTE, msgspec.to_builtins(kept))


def _key(path: str, live: Versions) -> str:
    return f"{path} {live.get(path, ('',))[0]}"


def _versions(files: Mapping[str, Version]) -> Versions:
    return {path: (version.blob, version.mode) for path, version in files.items()}
