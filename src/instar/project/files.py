"""A directory's files for a client: lists, contents, searches. Nothing outside of the directory is answered.

Shapes are opencode's. A directory is given as its real path. Searches run ripgrep where there is one, else
`instar.tool.walk`.
"""

import asyncio
import base64
import mimetypes
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from instar import wire
from instar.api.project import FileContent, FileNode, FileSystemEntry, Kind, Text, TextMatch
from instar.api.session import Invalid
from instar.git import GitError, git_bytes
from instar.git.project import Project
from instar.process import Output, ProcessError, Processes
from instar.tool import search
from instar.wire.document import open_regular

LARGEST: Final = 16 << 20
"""Bytes of a file that are answered."""


def locate(directory: Path, named: str) -> Path:
    """Return what a client's path names, links resolved: relative to the directory, or absolute and inside it.

    `directory` is a real path. The path need not exist. Raises `Invalid` for what lies outside, also by way of a link.
    """
    try:
        # Of an absolute name only the name itself is left.
        path = Path(os.path.realpath(directory / named))
    except (OSError, ValueError) as error:
        raise Invalid(f"{named!r} is no path: {error}") from None
    if not path.is_relative_to(directory):
        raise Invalid(f"{named!r} leads out of {directory}")
    return path


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file. Raises `FileNotFoundError`, and `Invalid` for anything else or an unreadable file."""
    try:
        # A link that took the file's place since it was resolved is not followed.
        file = open_regular(path, os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    with file:
        yield file


def whole(path: Path) -> bytes:
    """Return what a file holds. Raises as `opened`, and `Invalid` when it is larger than `LARGEST`."""
    with opened(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Invalid(f"{path} is larger than {LARGEST >> 20} MiB")
    return data


SECONDS: Final = 20.0
"""How long a search may take; what was found by then is answered."""
LONGEST_OUTPUT: Final = 32 << 20
"""Bytes of the search program's output that are read."""


async def _matching(processes: Processes, directory: Path, pattern: str, most: int) -> Sequence[bytes]:
    """Return the first `most` lines that match, each as ripgrep's JSON. Raises `Invalid`."""
    found: list[bytes] = []

    def take(line: bytes) -> None:
        if b'"match"' in line[:64]:
            found.append(line)
        if len(found) >= most:
            raise _EnoughError  # which ends the program

    argv = search.matching_argv(("--json", "--sort=path", f"--max-count={most}"), "json", pattern, ".")
    try:
        output = await _run(processes, directory, argv, search.RecordSplitter(b"\n", take, LONGEST_OUTPUT))
    except _EnoughError:
        return found
    if output.code == 2 and output.stderr.strip():
        said = output.stderr.decode(errors="replace").strip()
        raise Invalid(f"the pattern is no regular expression: {said}")
    return found


class _EnoughError(Exception):
    """The wanted number of lines was found."""


async def _run(
    processes: Processes, directory: Path, argv: Sequence[str], take: Callable[[bytes], None] | None = None
) -> Output:
    if any("\0" in one for one in argv):
        raise Invalid("the pattern holds a NUL, which no line of a text does")
    try:
        return await processes.run(
            search.limited(argv), cwd=directory, timeout=SECONDS, limit=LONGEST_OUTPUT, on_output=take
        )
    except ProcessError as error:
        raise Invalid(f"the search could not be started: {error}") from None


LIMIT: Final = 10
"""Matches that are answered where the client names no number (as opencode)."""
LONGEST_LINE: Final = 64 << 10
"""Bytes of a line; a longer one is left out."""


async def fuzzy(
    processes: Processes, directory: Path, query: str, kind: Kind | None, limit: int
) -> list[FileSystemEntry]:
    """Return files and folders (or one `kind`) whose path holds the letters of `query` in order, best first.

    Without letters the shortest paths come first.
    """
    output = await _run(processes, directory, search.listing_argv(directory))
    files, folders = await asyncio.to_thread(_names, output.stdout, str(directory))
    candidates = [] if kind == "directory" else files
    candidates = candidates if kind == "file" else [*candidates, "/", *folders]
    chosen = await asyncio.to_thread(best, candidates, query, limit)
    return [FileSystemEntry(path=path, type="directory" if path.endswith("/") else "file") for path in chosen]


async def lines(processes: Processes, directory: Path, pattern: str, limit: int) -> list[TextMatch]:
    """Return lines that match a regular expression, by the files' names. Raises `Invalid` for one that is none."""
    found = map(_match, await _matching(processes, directory, pattern, limit))
    return [match for match in found if match is not None]


def best(paths: Iterable[str], query: str, limit: int) -> list[str]:
    """Return the paths that hold the letters of `query` in this order, best first (see `score`)."""
    wanted = "".join(query.lower().split())
    scored = ((score(path.lower(), wanted), len(path), path) for path in paths)
    found = sorted((points, length, path) for points, length, path in scored if points is not None)
    return [path for _, _, path in found[:limit]]


def score(path: str, wanted: str) -> int | None:
    """Return how well a path fits what is wanted: 0 if it is its name, more if worse, None if letters are missing.

    A name that begins with it is nearer than one that holds it, that nearer than a path that does, and last come
    paths that hold only its letters, the closer together the nearer.
    """
    if not wanted:
        return 0
    name = path.rstrip("/").rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    if wanted.rstrip("/") in (name, stem, path.rstrip("/")):
        return 0
    if name.startswith(wanted):
        return 1
    if wanted in name:
        return 2
    if wanted in path:
        return 3
    span = _span(path, wanted)
    return None if span is None else 4 + span - len(wanted)


def _span(path: str, wanted: str) -> int | None:
    """Characters of the path from the first letter of `wanted` to the last, sought from the end."""
    end = at = len(path)
    for number, letter in enumerate(reversed(wanted)):
        at = path.rfind(letter, 0, at)
        if at < 0:
            return None
        end = at + 1 if number == 0 else end
    return end - at


def _names(printed: bytes, root: str) -> tuple[list[str], list[str]]:
    """The files that were printed, up to the last whole name, and the folders that hold them, with a slash at the end.

    All are relative to `root`.
    """
    prefix = root.rstrip("/") + "/"
    files = [os.fsdecode(one).removeprefix(prefix) for one in printed.split(b"\0")[:-1]]
    folders: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return files, sorted(folders)


def _match(line: bytes) -> TextMatch | None:
    """A line of ripgrep's output; None for one that is too long, or cut."""
    try:
        plain = wire.parse(line)["data"]
        if len(plain["lines"].get("text") or plain["lines"].get("bytes") or "") > LONGEST_LINE:
            return None
        found = msgspec.convert(_texts(plain), TextMatch)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError):
        return None
    found.path = Text(text=found.path.text.removeprefix("./"))
    return found


def _texts(value: Any) -> Any:
    """Decode what ripgrep prints in base64 because it is not UTF-8."""
    if isinstance(value, dict):
        if isinstance(value.get("bytes"), str):
            return {"text": msgspec.convert(value["bytes"], bytes, strict=False).decode(errors="replace")}
        return {key: _texts(one) for key, one in value.items()}
    return [_texts(one) for one in value] if isinstance(value, list) else value


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
    """Return what a file holds: its text without blank ends, else its bytes. A missing file is empty, as in opencode.

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
    return FileContent(type="binary", content=encoded, encoding="base64", mime_type=_mime(path))


async def data(directory: Path, named: str) -> tuple[bytes, str]:
    """Return a file's bytes and their type. Raises `Invalid` as `content`, also for a missing file."""
    path = locate(directory, named)
    try:
        return await asyncio.to_thread(whole, path), _mime(path)
    except FileNotFoundError:
        raise Invalid(f"there is no file {named!r}") from None


def _mime(path: Path) -> str:
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
    """The names in a folder that git ignores; none outside a repository, or if git fails."""
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
