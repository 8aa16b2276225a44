"""What a folder or a file holds, in opencode's shapes. A directory is given as its real path."""

import asyncio
import base64
import mimetypes
import os
from pathlib import Path
from typing import Final

from instar.api.file import FileContent, FileNode, FileSystemEntry, Kind
from instar.api.request import Invalid
from instar.files.place import locate, whole
from instar.git import GitError, git_bytes
from instar.process import ProcessError, Processes
from instar.project import Project

MOST: Final = 20_000
"""Entries of a folder that are listed."""


async def nodes(processes: Processes, project: Project, directory: Path, named: str) -> list[FileNode]:
    """Return the files and folders in a folder, folders first; links and the like are left out.

    Raises `Invalid` for what is no folder inside the directory.
    """
    folder = locate(directory, named)
    found = await asyncio.to_thread(_entries, folder)
    ignored = await _ignored(processes, project, folder, [name for name, _ in found])
    shown, below = _shown(directory, named, folder)
    return [
        FileNode(
            name=name,
            path=_path(below, name, kind),
            absolute=str(shown / name),
            type=kind,
            ignored=name in ignored,
        )
        for name, kind in found
    ]


async def entries(directory: Path, named: str) -> list[FileSystemEntry]:
    """Return as `nodes` does, for opencode's newer route."""
    folder = locate(directory, named)
    _, below = _shown(directory, named, folder)
    found = await asyncio.to_thread(_entries, folder)
    return [FileSystemEntry(path=_path(below, name, kind), type=kind) for name, kind in found]


async def content(directory: Path, named: str) -> FileContent:
    """Return what a file holds: its text without blank ends, else its bytes; of a missing one no text (as opencode).

    Raises `Invalid` for what is no file, is too large, or lies outside of the directory.
    """
    path = locate(directory, named)
    try:
        data = await asyncio.to_thread(whole, path)
    except FileNotFoundError:
        return FileContent(type="text", content="")
    text = _text(data)
    if text is not None:
        return FileContent(type="text", content=text.strip())
    encoded = base64.b64encode(data).decode()
    return FileContent(type="binary", content=encoded, encoding="base64", mime_type=mime(path))


async def data(directory: Path, named: str) -> tuple[bytes, str]:
    """Return a file's bytes and their type. Raises `Invalid` as `content`, also for a missing file."""
    path = locate(directory, named)
    try:
        return await asyncio.to_thread(whole, path), mime(path)
    except FileNotFoundError:
        raise Invalid(f"there is no file {named!r}") from None


def mime(path: Path) -> str:
    """Return the type of a file by its name."""
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _entries(folder: Path) -> list[tuple[str, Kind]]:
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name, _kind(entry)) for entry in found]
    except OSError as error:
        raise Invalid(f"cannot list {folder}: {error.strerror}") from None
    known = [(name, kind) for name, kind in entries if kind is not None]
    return sorted(known, key=lambda one: (one[1], one[0].lower(), one[0]))[:MOST]


def _kind(entry: "os.DirEntry[str]") -> Kind | None:
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else None


def _shown(directory: Path, named: str, folder: Path) -> tuple[Path, str]:
    """A folder as the client named it, also by way of a link, and its path from the directory."""
    shown = Path(os.path.normpath(directory / named))
    shown = shown if shown.is_relative_to(directory) else folder
    return shown, os.path.relpath(shown, directory)


def _path(below: str, name: str, kind: Kind) -> str:
    path = name if below in ("", ".") else f"{below}/{name}"
    return f"{path}/" if kind == "directory" else path


async def _ignored(processes: Processes, project: Project, folder: Path, names: list[str]) -> set[str]:
    """The names in a folder that git does not look at; none outside a repository, or where git cannot say."""
    if project.vcs is None or not names or not folder.is_relative_to(project.worktree):
        return set()
    asked = b"\0".join(os.fsencode(name) for name in names)
    args = ("check-ignore", "-z", "--stdin")
    env = {"GIT_WORK_TREE": str(project.worktree)}
    try:
        found = await git_bytes(processes, folder, *args, check=False, stdin=asked, env=env)
    except (GitError, ProcessError):
        return set()
    return {os.fsdecode(name) for name in found.split(b"\0")}
