"""Trust: which folders may bring code that runs, and what loosens rules.

A folder is trusted when it, by its real path, is on the person's list; or when a folder above
it is on the list and both lie in one and the same git worktree. A repository inside a trusted one (a
clone, a submodule) is therefore not trusted with it, nor is anything below a trusted folder that lies in
no repository. A worktree that instar made for sessions (`Paths.worktrees`) is trusted as the same folder of the
worktree that holds its repository is, for as long as git knows both. The home configuration folders are always
trusted. ``INSTAR_TRUST=all`` trusts everything: for CI and containers. A list that cannot be read trusts nothing.

What steers in a trusted folder is heard as the person accepted it (`instar.settings.steering`), of that very folder,
not of those above or below. A folder that was trusted before such versions were kept is trusted, and nothing that
steers in it is heard until it is accepted.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from instar.git import common_folder, find_worktree, git_folder
from instar.settings.accepted import Damaged
from instar.settings.paths import Paths
from instar.settings.steered import Found, SteeringError, collect, file_at, folders_below
from instar.settings.steering import Steering, SteeringView
from instar.wire.document import DocumentError, atomic_write, locked, read_jsonc

VARIABLE: Final = "INSTAR_TRUST"


class TrustError(Exception):
    """The list of trusted folders cannot be used; the text says what is wrong with which file."""


class TrustOrder(msgspec.Struct, frozen=True):
    """What a person decided on a folder, by its real path: as the method of this name of `Trust` does it.

    `found` is what was accepted with it, by folder.
    """

    kind: Literal["add", "accept", "refuse", "remove"]
    folder: Path
    found: Mapping[Path, Found] = {}


class Trust:
    """The person's list of trusted folders, kept in `paths.trust_file` (JSON, mode 0600).

    `environment` is read for ``INSTAR_TRUST``. `tell` hears of each decision once it holds here, and raises
    `TrustError` where other machines did not hear of it.
    """

    def __init__(
        self,
        paths: Paths,
        environment: Mapping[str, str],
        tell: Callable[[TrustOrder], None] = lambda order: None,
    ) -> None:
        self._tell = tell
        self._file = paths.trust_file
        self._all = environment.get(VARIABLE, "") == "all"
        self._worktrees = paths.worktrees.resolve()
        self._homes = [home.resolve() for home in paths.config_homes]
        self._paths = paths
        self.steering = Steering(paths)

    @property
    def problem(self) -> str | None:
        """Return why the list cannot be used, in one line; None when it can. Nothing is trusted then."""
        try:
            self._read()
        except TrustError as error:
            return str(error)
        return None

    def is_trusted(self, folder: Path) -> bool:
        """Whether code of `folder` may run, by the rule above. Never raises: in doubt it is not trusted."""
        real = _real(folder)
        if real is None:
            return False
        if self._is_own(real):
            return True
        try:
            listed = set(self.list())
        except TrustError:
            return False
        return bool(listed) and any(
            path in listed for place in self._same(real) for path in (place, *_above_in_worktree(place))
        )

    def is_own(self, folder: Path) -> bool:
        """Whether what stands in `folder` counts as the person's own, and is heard as it stands."""
        real = _real(folder)
        return real is not None and self._is_own(real)

    def view(self, folder: Path) -> SteeringView:
        """Return where what steers in `folder` is read; as it stands where it is the person's own, or not trusted.

        Never raises.
        """
        real = _real(folder)
        if real is None or self._is_own(real) or not self.is_trusted(real):
            return SteeringView(folder, folder)
        return self.compared(real)

    def compared(self, real: Path) -> SteeringView:
        """Return what is not as accepted in a folder, whether it is trusted or not."""
        base = next((one for one in self._same(real) if self.steering.is_accepted(one)), real)
        return self.steering.view(real, base)

    def found(self, folder: Path) -> dict[Path, Found]:
        """Return what steers in `folder` as it stands, and in those of its worktree below that bring something.

        Raises `DocumentError` for settings with a mistake, and `TrustError`.
        """
        real = folder.resolve()
        below = folders_below(real) if find_worktree(real) is not None else ()
        try:
            return {one: collect(one, self._paths, strict=True) for one in (real, *below)}
        except SteeringError as error:
            raise TrustError(str(error)) from None

    def add(self, folder: Path, found: Mapping[Path, Found] | None = None) -> Path:
        """Put `folder` on the list, accept what steers in it, and return its real path. Raises `TrustError`.

        `found` is what the person looked at; without it what stands there now is accepted. Raises as `found` does.
        """
        real = folder.resolve()
        if not real.is_dir():
            raise TrustError(f"{folder} is no folder: there is nothing to trust")
        self._decide(TrustOrder("add", real, self.found(real) if found is None else found))
        return real

    def accept(self, folder: Path, found: Found) -> None:
        """Accept what was found in a trusted folder. Raises `TrustError`."""
        self._decide(TrustOrder("accept", folder, {folder: found}))

    def take(self, order: TrustOrder) -> None:
        """Do what was decided, here or on another machine. Raises `TrustError`."""
        name, now = str(order.folder), int(time.time() * 1000)
        if order.kind == "accept":
            for one, files in order.found.items():
                self._accept(one, files)
            return
        with self._changing() as folders:
            old = folders.pop(name, None)
            if order.kind == "refuse":
                folders[name] = {"refused": now}
            elif order.kind == "add":
                added = old.get("added") if isinstance(old, dict) else None
                folders[name] = {"added": added or now}
                for one, files in order.found.items():
                    self._accept(one, files)

    def _decide(self, order: TrustOrder) -> None:
        self.take(order)
        self._tell(order)

    def _accept(self, folder: Path, found: Found) -> None:
        try:
            self.steering.accept(folder, found)
        except (OSError, Damaged) as error:
            raise TrustError(f"what steers in {folder} cannot be kept: {error}") from None
        with contextlib.suppress(OSError):
            # Running instances look at the list alone.
            self._file.touch()

    def accept_file(self, view: SteeringView, path: Path) -> None:
        """Accept one file of a trusted folder as it stands, and all else as before. Raises `TrustError`, `OSError`."""
        if view.tree is not None:
            self.accept(view.folder, {**self.steering.kept(view), path.resolve(): file_at(path)})

    def refuse(self, folder: Path) -> None:
        """Remember that the person was asked about `folder` and said no; `add` overrides it. Raises `TrustError`."""
        real = folder.resolve()
        if str(real) not in self._read():
            self._decide(TrustOrder("refuse", real))

    def is_refused(self, folder: Path) -> bool:
        """Whether the person was asked about exactly this folder and said no."""
        try:
            return _is_refusal(self._read().get(str(folder.resolve())))
        except (TrustError, OSError, ValueError, RuntimeError):
            return False

    def remove(self, folder: Path) -> bool:
        """Take `folder` off the list; False when it was not on it. Raises `TrustError`."""
        real = folder.resolve()
        listed = real in self.list()
        # Also where it was not on the list: other machines may not have been told when it was taken off.
        self._decide(TrustOrder("remove", real))
        return listed

    def list(self) -> list[Path]:
        """Return the folders on the list, sorted. Raises `TrustError`."""
        return sorted(Path(path) for path, entry in self._read().items() if not _is_refusal(entry))

    def _is_own(self, real: Path) -> bool:
        return self._all or any(real.is_relative_to(home) for home in self._homes)

    def _same(self, real: Path) -> Iterable[Path]:
        """The folder and, if it lies in a worktree that instar made, the same folder of the main worktree."""
        ours = _origin(real) if real.is_relative_to(self._worktrees) else None
        return [real] if ours is None else [real, ours]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Hold a lock on the list's folder while it is read, changed and written."""
        with locked(self._file.parent):
            before = self._read()
            folders = dict(before)
            yield folders
            if folders != before:
                text = json.dumps({"version": 1, "folders": folders}, indent=2, ensure_ascii=False)
                atomic_write(self._file, text.encode("utf-8", "surrogateescape") + b"\n", mode=0o600)

    def _read(self) -> dict[str, Any]:
        try:
            status = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise TrustError(f"{self._file}: cannot be read: {error.strerror}") from None
        if status.st_mode & 0o022 or status.st_uid not in (os.geteuid(), 0):
            raise TrustError(
                f"{self._file}: others may write to it, so it trusts nothing (chmod 600 it, or delete it)"
            )
        try:
            data = read_jsonc(self._file)
        except DocumentError as error:
            raise TrustError(f"{error}; nothing is trusted until it is mended or deleted") from None
        except OSError as error:
            raise TrustError(f"{self._file}: cannot be read: {error.strerror}") from None
        folders = data.get("folders") if isinstance(data, dict) else None
        if not isinstance(folders, dict):
            wanted = 'expected {"folders": {…}}; nothing is trusted until it is mended or deleted'
            raise TrustError(f"{self._file}:1:1: {wanted}")
        return folders


def _real(folder: Path) -> Path | None:
    """The real path of a folder; None for a path that is none, and for a loop of links."""
    try:
        return folder.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _is_refusal(entry: Any) -> bool:
    return isinstance(entry, dict) and "refused" in entry


def _origin(real: Path) -> Path | None:
    """The folder that `real`, in a linked worktree, is in the worktree that holds the repository; None for others.

    The repository must know the worktree: its ``.git`` file alone, which whoever works there may write, could
    name any repository.
    """
    worktree = find_worktree(real)
    folder, common = (git_folder(worktree), common_folder(worktree)) if worktree else (None, None)
    if worktree is None or folder is None or common is None or common.name != ".git":
        return None
    try:
        known = Path((folder / "gitdir").read_text("utf-8").strip())
    except (OSError, ValueError):
        return None
    is_linked = folder.parent == common / "worktrees" and known == worktree / ".git"
    return common.parent / real.relative_to(worktree) if is_linked else None


def _above_in_worktree(real: Path) -> list[Path]:
    """The folders above `real` in its worktree; none where a ``.git`` on the way cannot be read as one.

    A submodule whose git folder is gone is still no part of the repository around it.
    """
    worktree = find_worktree(real)
    if worktree is None:
        return []
    way = [path for path in (real, *real.parents) if path.is_relative_to(worktree)]
    broken = any(os.path.lexists(path / ".git") for path in way[:-1])
    return [] if broken else way[1:]
