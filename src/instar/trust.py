"""Trust: which folders may bring code that runs.

The rule. A folder is trusted when it, by its real path, is on the person's list; or when a folder above
it is on the list and both lie in one and the same git worktree. A repository inside a trusted one (a
clone, a submodule) is therefore not trusted with it, nor is anything below a trusted folder that lies in
no repository. A worktree that instar made for sessions (`paths.worktrees`) is trusted as the same folder of the
worktree that holds its repository is, for as long as git knows both. The home configuration folders are always
trusted. ``INSTAR_TRUST=all`` trusts everything: for CI and containers. A list that cannot be read trusts nothing.

With a folder the list keeps those parts of its settings that guard, as the person saw them (`Trust.guards`): what
runs for the model may write the folder's files, and never the list. They are kept for the files of that very folder,
not for those of the folders below.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from instar.config import PRICES, ConfigError, Vouched, check_section
from instar.document import DocumentError, atomic_write, locked, read_jsonc
from instar.git import common_folder, find_worktree, git_folder
from instar.paths import Paths
from instar.wire import Plain

VARIABLE: Final = "INSTAR_TRUST"


class TrustError(Exception):
    """The list of trusted folders cannot be used; the text says what is wrong with which file."""


class Trust:
    """The person's list of trusted folders, kept in `paths.trust_file` (JSON, mode 0600).

    `environment` is read for ``INSTAR_TRUST``.
    """

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._file = paths.trust_file
        self._all = environment.get(VARIABLE, "") == "all"
        self._worktrees = paths.worktrees
        self._homes = [home.resolve() for home in paths.config_homes]

    @property
    def problem(self) -> str | None:
        """Why the list cannot be used and nothing on it is trusted, in one line; None when all is well."""
        try:
            self._read()
        except TrustError as error:
            return str(error)
        return None

    def is_trusted(self, folder: Path) -> bool:
        """Whether code of `folder` may run, by the rule above. Never raises: what is unclear is not trusted."""
        real = _real(folder)
        if real is None:
            return False
        if self._is_own(real):
            return True
        try:
            listed = set(self.list())
        except TrustError:
            return False
        return any(
            path in listed for place in self._same(real) for path in (place, *_above_in_worktree(place))
        )

    def guards(self, folder: Path) -> Mapping[str, Plain] | None:
        """Return what the person saw of the settings in `folder` that guard: file, from the folder, to its blocks.

        None: whatever they say holds. Empty for a folder that is not itself on the list, and where nothing was kept
        with it. Never raises.
        """
        entry = self._entry(folder)
        return None if entry is None else _blocks(entry.get("guards"))

    def vouched(self, file: Path, folder: Path) -> Vouched | None:
        """Return what the person saw of a settings `file` in `folder` that guards; None: whatever it says holds."""
        guards = self.guards(folder)
        if guards is None:
            return None
        found = {}
        kept = guards.get(named_in(folder, file), {})
        for name, block in kept.items():
            # What an older instar kept, and this one cannot read, is not vouched for.
            with contextlib.suppress(ConfigError):
                check_section(name, block, str(file))
                found[name] = block
        prices = kept.get(PRICES)
        return Vouched(str(folder), found, prices if isinstance(prices, dict) else {})

    def seen(self, folder: Path, name: str) -> Mapping[str, str] | None:
        """Return the digests of what a person vouched for in `folder` to the flagship `name`: file to digest.

        None: whatever its files say holds. Empty for a folder that is not itself on the list, and where nothing was
        kept with it. Never raises.
        """
        entry = self._entry(folder)
        return None if entry is None else _blocks(entry.get("seen")).get(name, {})

    def add(
        self,
        folder: Path,
        guards: Mapping[str, Plain] | None = None,
        seen: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Path:
        """Put `folder` on the list and return its real path. Raises `TrustError`.

        `guards` are what its settings say that guards, as the person saw it (see `guards`), and `seen` the digests of
        what flagships find in it (see `seen`); None leaves what is kept.
        """
        real = folder.resolve()
        if not real.is_dir():
            raise TrustError(f"{folder} is no folder: there is nothing to trust")
        with self._changing() as folders:
            old = folders.get(str(real))
            entry = (
                old if isinstance(old, dict) and not _is_refusal(old) else {"added": int(time.time() * 1000)}
            )
            for key, kept in (("guards", guards), ("seen", seen)):
                if kept is not None:
                    entry = {name: value for name, value in entry.items() if name != key}
                    entry |= {key: dict(kept)} if kept else {}
            folders[str(real)] = entry
        return real

    def refuse(self, folder: Path) -> None:
        """Remember that the person was asked about `folder` and said no; `add` overrides it. Raises `TrustError`."""
        with self._changing() as folders:
            folders.setdefault(str(folder.resolve()), {"refused": int(time.time() * 1000)})

    def is_refused(self, folder: Path) -> bool:
        """Whether the person was asked about exactly this folder and said no."""
        try:
            return _is_refusal(self._read().get(str(folder.resolve())))
        except (TrustError, OSError, ValueError, RuntimeError):
            return False

    def remove(self, folder: Path) -> bool:
        """Take `folder` off the list; False when it was not on it. Raises `TrustError`."""
        with self._changing() as folders:
            gone = folders.pop(str(folder.resolve()), None)
        return gone is not None and not _is_refusal(gone)

    def list(self) -> list[Path]:
        """Return the folders on the list, sorted. Raises `TrustError`."""
        return sorted(Path(path) for path, entry in self._read().items() if not _is_refusal(entry))

    def _entry(self, folder: Path) -> Mapping[str, Any] | None:
        """What the list keeps with exactly this folder; None for one that is trusted without the list."""
        real = _real(folder)
        if real is None:
            return {}
        if self._is_own(real):
            return None
        try:
            entries = self._read()
        except TrustError:
            return {}
        found = next((entries[str(place)] for place in self._same(real) if str(place) in entries), None)
        return found if isinstance(found, dict) and not _is_refusal(found) else {}

    def _is_own(self, real: Path) -> bool:
        return self._all or any(real.is_relative_to(home) for home in self._homes)

    def _same(self, real: Path) -> Iterable[Path]:
        """The folder, and the one that it stands for where instar made its worktree."""
        ours = _origin(real) if real.is_relative_to(self._worktrees.resolve()) else None
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


def named_in(folder: Path, file: Path) -> str:
    """Return the name by which the list keeps a file of a folder."""
    return file.relative_to(folder).as_posix()


def _real(folder: Path) -> Path | None:
    """The real path of a folder; None for a path that is none, and for a loop of links."""
    try:
        return folder.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _blocks(kept: Any) -> dict[str, Any]:
    """What an entry keeps under a name of its own, without what is no map: a person may have edited the list."""
    items = kept.items() if isinstance(kept, dict) else ()
    return {name: block for name, block in items if isinstance(block, dict)}


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
