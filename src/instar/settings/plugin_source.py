"""Where a plugin folder comes from: a folder of this machine or a commit of a git repository, perhaps a marketplace.

Everything here was written by a stranger. Files are read and never run; a link counts as the file that it leads to, and
one that leads out of the plugin refuses it.
"""

import asyncio
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from instar.git import GitError
from instar.git.remote import LINK, RemoteFile, fetch, files, scheme
from instar.process import ProcessError, Processes
from instar.settings.layer import as_map
from instar.settings.plugin_folders import (
    AGENT_MANIFEST,
    CLAUDE_MANIFEST,
    SCHEMA,
    Files,
    InstalledPlugin,
    PluginFolderError,
    check_places,
    is_name,
)
from instar.settings.steered import SteeringFile
from instar.wire import Plain
from instar.wire.document import DocumentError, parse_jsonc, read_bytes

MARKETPLACE: Final = ".claude-plugin/marketplace.json"
MOST: Final = 5_000
LARGEST: Final = 64 << 20
"""Files and bytes of one plugin."""
_UNREAD: Final = (".git", "__pycache__")
_AUTHORS: Final = ("https", "ssh")
"""Transports that a marketplace may name: what it says is a stranger's."""


class PluginCandidate(NamedTuple):
    """A plugin as it stands at its source: what would be noted of it, and its files."""

    installed: InstalledPlugin
    files: Files


class _Source(NamedTuple):
    """A folder, or a commit ("" for a folder), and what gives the files below a folder of it by their paths there."""

    place: str
    commit: str
    files: Callable[[str], Awaitable[Mapping[str, RemoteFile]]]


async def candidate(source: str, directory: Path, ref: str = "", name: str = "") -> PluginCandidate:
    """Read a plugin from a folder, meant from `directory`, or the URL of a git repository.

    `name` is that of a plugin in the marketplace there. Raises `PluginFolderError`.
    """
    processes = Processes()
    try:
        async with _opened(processes, source, directory, ref) as opened:
            market = _json(await opened.files(".claude-plugin"), "marketplace.json", MARKETPLACE)
            noted = InstalledPlugin(name="", source=opened.place, format="claude", ref=ref)
            entry = _entry(market, name, opened.place)
            if entry is None:
                return await _read(opened, "", {}, noted)
            noted = msgspec.structs.replace(noted, entry=str(entry.get("name")))
            where = _where(entry, as_map(market.get("metadata")))
            if isinstance(where, str):
                return await _read(opened, where, entry, noted)
            url, folder, wanted = where
            async with _opened(processes, url, directory, wanted) as other:
                return await _read(other, folder, entry, noted)
    except (GitError, ProcessError, DocumentError, OSError) as error:
        # Without the command of ours that failed.
        said = re.sub(r"^git .* failed in \S+: ", "", str(error))
        raise PluginFolderError(f"{source} cannot be read: {said}") from None
    finally:
        await processes.close()


def _real(directory: Path, source: str) -> Path:
    try:
        return (directory / Path(source).expanduser()).resolve()
    except (RuntimeError, ValueError) as error:
        raise PluginFolderError(f"{source} is no folder: {error}") from None


@asynccontextmanager
async def _opened(processes: Processes, source: str, directory: Path, ref: str) -> AsyncIterator[_Source]:
    if scheme(source) is None:
        folder = _real(directory, source)
        if not folder.is_dir():
            raise PluginFolderError(
                f"{source} is no folder, and no URL of a git repository (https://…, ssh://…, git@HOST:PATH)"
            )
        if ref:
            raise PluginFolderError(
                f"{source} is a folder, which has no --ref; name its repository as file://{folder}"
            )
        yield _Source(str(folder), "", lambda within: asyncio.to_thread(_files, folder / within))
        return
    with tempfile.TemporaryDirectory(prefix="instar-plugin-") as made:
        commit = await fetch(processes, source, ref, Path(made))
        yield _Source(source, commit, partial(files, processes, Path(made), commit))


def _files(top: Path) -> Mapping[str, RemoteFile]:
    """The files of a folder; links stay links."""
    found, size = dict[str, RemoteFile](), 0
    for at, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _UNREAD]
        for path in (Path(at, name) for name in (*names, *folders)):
            state = path.lstat()
            if stat.S_ISLNK(state.st_mode):
                entry = RemoteFile(LINK, os.fsencode(path.readlink()))
            elif stat.S_ISREG(state.st_mode):
                entry = RemoteFile(0o100755 if state.st_mode & 0o100 else 0o100644, read_bytes(path))
            else:
                continue
            found[path.relative_to(top).as_posix()] = entry
            size += len(entry.data)
            _check_size(len(found), size, top)
    return found


def _check_size(count: int, size: int, source: object) -> None:
    if count > MOST or size > LARGEST:
        raise PluginFolderError(f"{source} has more than {MOST} files or {LARGEST >> 20} MiB")


# -- marketplaces -------------------------------------------------------------------------------------


def _entry(market: Plain, name: str, source: str) -> Plain | None:
    """The entry of a plugin in a marketplace; None: the source itself is the plugin. Raises `PluginFolderError`."""
    listed = market.get("plugins")
    entries = {str(one.get("name")): one for one in map(as_map, listed if isinstance(listed, list) else ())}
    if not entries:
        if name:
            raise PluginFolderError(f"{source} is no marketplace ({MARKETPLACE}), so it has no plugin {name}")
        return None
    if not name and len(entries) == 1:
        return next(iter(entries.values()))
    if name not in entries:
        said = f"has no plugin {name!r}" if name else "has more than one plugin: name one"
        raise PluginFolderError(
            f"the marketplace of {source} {said}; there are: {', '.join(sorted(entries))}"
        )
    return entries[name]


def _where(entry: Plain, metadata: Plain) -> str | tuple[str, str, str]:
    """Where the files of a marketplace's plugin are: a folder beside it, or URL, folder and ref."""
    name, source = entry.get("name"), entry.get("source")
    if isinstance(source, str):
        root = str(metadata.get("pluginRoot") or "") if not source.startswith("./") else ""
        path = PurePosixPath(root, source)
        if path.is_absolute() or ".." in path.parts:
            raise PluginFolderError(f"the plugin {name} lies at {source}, outside of its marketplace")
        return "" if str(path) == "." else str(path)
    said = as_map(source)
    kind = said.get("source")
    url = f"https://github.com/{said.get('repo')}.git" if kind == "github" else str(said.get("url") or "")
    if kind not in ("github", "url", "git-subdir") or scheme(url) not in _AUTHORS:
        raise PluginFolderError(
            f"the plugin {name} is offered as {msgspec.json.encode(source).decode()}, which is not taken"
        )
    folder = PurePosixPath(str(said.get("path") or ""))
    if folder.is_absolute() or ".." in folder.parts:
        raise PluginFolderError(f"the plugin {name} lies at {folder}, outside of its repository")
    return url, "" if str(folder) == "." else str(folder), str(said.get("sha") or said.get("ref") or "")


# -- the plugin itself --------------------------------------------------------------------------------


async def _read(source: _Source, within: str, entry: Plain, noted: InstalledPlugin) -> PluginCandidate:
    listed = await source.files(within)
    _check_size(len(listed), sum(len(file.data) for file in listed.values()), noted.source)
    found = _resolved(listed)
    if not found:
        raise PluginFolderError(f"{noted.source} has no files at {within or 'its top'}")
    portable = AGENT_MANIFEST in found and CLAUDE_MANIFEST not in found
    path = AGENT_MANIFEST if portable else CLAUDE_MANIFEST
    manifest = _json(found, path, path)
    if portable and manifest.get("$schema") != SCHEMA:
        raise PluginFolderError(
            f"{noted.source}: {path}: $schema: expected {SCHEMA}: other versions are not known"
        )
    if not (manifest or entry):
        raise PluginFolderError(
            f"{noted.source} is no plugin: it has neither {CLAUDE_MANIFEST} nor {AGENT_MANIFEST}"
        )
    name = manifest.get("name") or entry.get("name")
    if not isinstance(name, str) or not is_name(name):
        raise PluginFolderError(
            f"{noted.source}: {path}: name: expected small letters, digits, single hyphens and dots, found {name!r:.80}"
        )
    said = {key: value for key, value in entry.items() if key not in ("source", "strict")}
    installed = msgspec.structs.replace(
        noted,
        name=name,
        format="agent" if portable else "claude",
        commit=source.commit,
        digest=_digest(found),
        manifest=manifest if portable else {**said, **manifest},
    )
    check_places(installed)
    return PluginCandidate(installed, found)


def _json(found: Mapping[str, Any], path: str, shown: str) -> Plain:
    """What a JSON file of a plugin says; empty without one. Raises `PluginFolderError`."""
    if path not in found:
        return {}
    try:
        said = parse_jsonc(found[path].data.decode(), shown)
    except (DocumentError, UnicodeDecodeError) as error:
        raise PluginFolderError(str(error)) from None
    if not isinstance(said, dict):
        raise PluginFolderError(f"{shown}: expected an object")
    return said


def _resolved(found: Mapping[str, RemoteFile]) -> dict[str, SteeringFile]:
    """The files with what links lead to in their places. Raises `PluginFolderError` for a link that leads out."""
    plain = {
        path: SteeringFile(file.data, file.mode == 0o100755)
        for path, file in found.items()
        if file.mode != LINK and _is_sound(path)
    }
    for path, file in found.items():
        if file.mode != LINK:
            continue
        target = os.path.normpath(PurePosixPath(path).parent / os.fsdecode(file.data))
        below = {one: data for one, data in plain.items() if one == target or one.startswith(f"{target}/")}
        if not below:
            raise PluginFolderError(
                f"{path} is a link to {os.fsdecode(file.data)}, which is no file of the plugin"
            )
        plain |= {path + one.removeprefix(target): data for one, data in below.items()}
    return plain


def _is_sound(path: str) -> bool:
    """Whether a path may be laid out: a tree of git can hold any bytes."""
    if not path.isprintable() or any(part in ("", ".", "..") for part in path.split("/")):
        raise PluginFolderError(f"{path!r} is no name for a file")
    return not any(part in _UNREAD for part in path.split("/"))


def _digest(found: Files) -> str:
    """A name for the content: of each file its path, whether it runs, and what it holds."""
    told = "".join(f"{path}\0{file.entry.mode:o} {file.entry.blob}\n" for path, file in sorted(found.items()))
    return hashlib.sha256(told.encode()).hexdigest()
