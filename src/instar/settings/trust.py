"""Trust: which folders may bring code that runs, and which of their code the person accepted.

A folder is trusted when it, by its real path, is on the person's list; or when a folder above
it is on the list and both lie in one and the same git worktree. A repository inside a trusted one (a
clone, a submodule) is therefore not trusted with it, nor is anything below a trusted folder that lies in
no repository. A worktree that instar made for sessions (`Paths.worktrees`) is trusted as the same folder of the
worktree that holds its repository is, for as long as git knows both. The home configuration folders are always
trusted. ``INSTAR_TRUST=all`` trusts everything: for CI and containers. A list that cannot be read trusts nothing.

With a folder the list keeps those parts of its settings that guard, as the person saw them (`Trust.guards`): what
runs for the model may write the folder's files, and never the list. They are kept for the files of that very folder,
not for those of the folders below.

The same holds of its code (`Trust.code`). A plugin runs in instar, unconfined. So the list keeps a digest of each
file of code and of each entry of a ``plugin`` list, and what is new or changed since is not loaded. A Python file is
known by itself. A file of JavaScript is known by all code beside it, or below its plugin or tool folder, since what
it imports stands there; a folder by all code below it. Packages in ``node_modules`` are not looked at.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from instar.git import common_folder, find_worktree, git_folder
from instar.settings.builtin_plugins import is_bridge
from instar.settings.config import ConfigError, check_section
from instar.settings.guarding import PRICES
from instar.settings.layer import Layer, Vouched
from instar.settings.paths import Paths
from instar.wire import Plain
from instar.wire.document import DocumentError, atomic_write, locked, read_jsonc

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
        """Return the digests that a person approved in `folder` for the flagship `name`, by file.

        None: whatever its files say holds. Empty for a folder that is not itself on the list, and where nothing was
        kept with it. Never raises.
        """
        entry = self._entry(folder)
        return None if entry is None else _blocks(entry.get("seen")).get(name, {})

    def code(self, folder: Path) -> Mapping[str, str] | None:
        """Return the digests of the code that a person accepted in `folder`, by path from it.

        None: all of it may run. Empty for a folder that is not itself on the list, and where nothing was kept with it.
        Never raises.
        """
        entry = self._entry(folder)
        kept = {} if entry is None else entry.get("code")
        return None if entry is None else dict(kept) if isinstance(kept, dict) else {}

    def add(
        self,
        folder: Path,
        guards: Mapping[str, Plain] | None = None,
        seen: Mapping[str, Mapping[str, str]] | None = None,
        code: Mapping[str, str] | None = None,
    ) -> Path:
        """Put `folder` on the list and return its real path. Raises `TrustError`.

        `guards` are what its settings say that guards, as the person saw it (see `guards`), `seen` the digests of what
        flagships find in it (see `seen`), and `code` those of its code (see `code`); None leaves what is kept.
        """
        real = folder.resolve()
        if not real.is_dir():
            raise TrustError(f"{folder} is no folder: there is nothing to trust")
        with self._changing() as folders:
            old = folders.get(str(real))
            entry = (
                old if isinstance(old, dict) and not _is_refusal(old) else {"added": int(time.time() * 1000)}
            )
            for key, kept in (("guards", guards), ("seen", seen), ("code", code)):
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
        """The folder and, if it lies in a worktree that instar made, the same folder of the main worktree."""
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
    """The maps in `kept`; anything else is ignored, since a person may have edited the list."""
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


FOLDERS: Final = (".opencode", ".instar")
"""The configuration folders of a project's folder."""
_PLUGINS: Final = ("plugin", "plugins")
_CODE_FOLDERS: Final = (*_PLUGINS, "tool", "tools")
_PLUGIN_FILES: Final = ("*.py", "*.ts", "*.js")
"""What of a plugin folder is a plugin."""
_SCRIPTS: Final = (".js", ".ts", ".mjs", ".cjs", ".mts", ".cts", ".tsx", ".jsx", ".node", ".wasm")
_PYTHON: Final = (".py", ".pyc", ".so")
_MANIFESTS: Final = (
    *("package.json", "tsconfig.json", "jsconfig.json", "bunfig.toml"),
    *("package-lock.json", "bun.lock", "bun.lockb", "yarn.lock", "pnpm-lock.yaml"),
)
"""What decides which file an import means."""
_UNREAD: Final = ("node_modules", ".git", "__pycache__")
_MOST: Final = 2_000
"""Files of a folder that are looked at."""

Content = Mapping[str, str]
"""Digests of files by their absolute paths."""


class PluginFile(msgspec.Struct, frozen=True):
    """A plugin found as a file: `folder` is whose trust it needs, `trusted` whether it has it."""

    path: Path
    folder: Path
    trusted: bool


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin to load: a package's or flagship's name, or a file's absolute path, and its options.

    `content` is the only code that it may be made of; None: whatever stands there.
    """

    target: str
    options: Plain = {}
    content: Content | None = None


class CodeVerdict(NamedTuple):
    """Whether code may be loaded as it is now, and the digests of the files that it may consist of (None: any)."""

    accepted: bool
    content: Content | None


def content_at(path: Path) -> dict[str, str]:
    """Return what a plugin or a file of tools is made of; nothing for a path at which nothing is."""
    return {str(file): _digest(file) for file in _files(path)}


def code_of(folder: Path, listed: Mapping[str, str], plugins: Iterable[str]) -> dict[str, str]:
    """Return the digests of the code of a project's `folder`, by their names from it, for `Trust.code`.

    `listed` are the digests of the entries of its ``plugin`` lists, and `plugins` what they name.
    """
    found: dict[str, str] = {}
    for place in (folder / name for name in FOLDERS):
        for file in (*_manifests(place), *(file for name in _CODE_FOLDERS for file in _walk(place / name))):
            found[_named(folder, file)] = _digest(file)
    for target in plugins:
        if (path := path_of(target)) is not None:
            found |= {_named(folder, Path(file)): digest for file, digest in content_at(path).items()}
    return {**{name: digest for name, digest in found.items() if digest}, **listed}


def digest_of_entry(entry: Any) -> str:
    """Return what an entry of a ``plugin`` list is known by."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def targets_in(data: Plain) -> list[str]:
    """Return what the entries of a ``plugin`` list name."""
    return [entry if isinstance(entry, str) else entry[0] for entry in data.get("plugin") or ()]


def path_of(target: str) -> Path | None:
    """Return the file or folder that an entry of a ``plugin`` list names; None: it is a package or a flagship."""
    path = Path(unquote(target.removeprefix("file://")) if target.startswith("file://") else target)
    return path if path.is_absolute() else None


class Acceptance:
    """Judges code of projects' folders by the digests that `trust` keeps, and collects what is not accepted.

    `held` are the targets of plugins that must not be loaded as they are now.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self.held: list[str] = []
        self._listed: dict[str, Content | None] = {}
        self._kept: dict[Path, Content | None] = {}
        self._new: dict[Path, dict[str, str]] = {}

    def layer(self, layer: Layer, owner: Path | None, entries: Callable[[], list[tuple[str, str]]]) -> Layer:
        """Return a layer of settings of `owner` without the entries of its ``plugin`` list that are not accepted.

        `entries` returns the name of each by which it is kept, and its digest.
        """
        targets = targets_in(layer.data)
        if owner is None or not layer.trusted or not targets or self._of(owner) is None:
            return layer
        kept = []
        for entry, target, (name, digest) in zip(layer.data["plugin"], targets, entries(), strict=True):
            path, is_known = path_of(target), self._is_accepted(name, digest, owner)
            code = CodeVerdict(True, None) if path is None else self.of_file(path, owner)
            if is_known and code.accepted:
                kept.append(entry)
                self._listed[target] = code.content
            else:
                self.held.append(target)
        return msgspec.structs.replace(layer, data={**layer.data, "plugin": kept})

    def entry(self, target: str, options: Plain | None = None) -> PluginEntry:
        """Return an entry of the merged ``plugin`` list: what was not accepted is out of it by then."""
        return PluginEntry(target, options or {}, self._listed.get(target))

    def file(self, file: PluginFile) -> PluginEntry | None:
        """Return a plugin of a trusted folder; None where it is not accepted."""
        judged = self.of_file(file.path, file.folder)
        if not judged.accepted:
            self.held.append(str(file.path))
            return None
        return PluginEntry(str(file.path), {}, judged.content)

    def of_file(self, path: Path, owner: Path) -> CodeVerdict:
        """Judge a plugin or a file of tools whose trust `owner` decides on."""
        if self._of(owner) is None:
            return CodeVerdict(True, None)
        found = content_at(path)
        judged = [
            self._is_accepted(_named(owner, Path(file)), digest, owner) for file, digest in found.items()
        ]
        return CodeVerdict(all(judged), found)

    def problems(self) -> list[str]:
        """Return a sentence for each folder of which code was not accepted."""
        return [
            f"{', '.join(f'{name} ({how})' for name, how in found.items())}: not what you trusted in {folder}, so left "
            f"out; read it, then: instar trust {folder}"
            for folder, found in self._new.items()
        ]

    def _of(self, owner: Path) -> Content | None:
        if owner not in self._kept:
            self._kept[owner] = self._trust.code(owner)
        return self._kept[owner]

    def _is_accepted(self, name: str, digest: str, owner: Path) -> bool:
        kept = (self._of(owner) or {}).get(name)
        if digest and kept == digest:
            return True
        self._new.setdefault(owner, {})[name] = "new" if kept is None else "changed"
        return False


def plugin_files(folders: Iterable[tuple[Path, Path | None]], trust: Trust) -> Iterator[PluginFile]:
    """Yield the plugins in the plugin folders of configuration folders, each given with whose trust it needs."""
    seen: set[Path] = set()
    for folder, owner in folders:
        # A worktree that is the home folder has its .opencode in both lists; the person's own comes first.
        if folder in seen:
            continue
        seen.add(folder)
        trusted = owner is None or trust.is_trusted(owner)
        for path in sorted(
            path for name in _PLUGINS for kind in _PLUGIN_FILES for path in (folder / name).glob(kind)
        ):
            if path.is_file() and not path.name.startswith(("_", ".")) and not is_bridge(path):
                yield PluginFile(path, owner or folder, trusted)


def _named(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else str(file)


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return _walk(path)
    if path.name == "__init__.py":
        return _walk(path.parent)
    if path.suffix == ".py":
        return [path] if path.exists() else []
    folder = path.parent
    if folder.name in _CODE_FOLDERS and folder.parent.name in FOLDERS:
        return [*_manifests(folder.parent), *_walk(folder)]
    beside = sorted(folder.glob("*")) if path.exists() else []
    return [file for file in beside if file.suffix in _SCRIPTS or file.name in _MANIFESTS]


def _manifests(folder: Path) -> list[Path]:
    return [folder / name for name in _MANIFESTS if (folder / name).exists()]


def _walk(top: Path) -> Iterator[Path]:
    """Yield the code below a folder; links are followed, each folder is entered once.

    Where there is too much of it, last what cannot be read, and so is never accepted.
    """
    entered, count = set[str](), 0
    for at, folders, names in os.walk(top, followlinks=True):
        real = os.path.realpath(at)
        folders[:] = [] if real in entered else sorted(name for name in folders if name not in _UNREAD)
        entered.add(real)
        for name in sorted(names):
            if Path(name).suffix in (*_SCRIPTS, *_PYTHON) or name in _MANIFESTS:
                yield Path(at, name)
                count += 1
            if count > _MOST:
                yield top / f"more than {_MOST} files of code"
                return


def _digest(file: Path) -> str:
    """What a file is known by; empty for what cannot be read, and for a pipe, which would never end."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    except OSError:
        return ""
