"""Finding files and folders by a few letters of their path, and lines by a regular expression.

A directory is given as its real path.
"""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from instar import wire
from instar.api.file import FileSystemEntry, Kind, Text, TextMatch
from instar.files import program
from instar.process import Processes

LIMIT: Final = 10
"""Matches that are answered where the client names no number (as opencode)."""
LONGEST_LINE: Final = 64 << 10
"""Bytes of a line; a longer one is left out."""


class Names(NamedTuple):
    """The files of a directory and the folders that hold them, relative to it, folders with a slash at the end."""

    files: list[str]
    folders: list[str]


async def names(processes: Processes, directory: Path) -> Names:
    """Return what there is in a directory, without what its ignore files leave out. Raises `Invalid`."""
    output = await program.names(processes, directory)
    return await asyncio.to_thread(_names, output.stdout, str(directory))


async def fuzzy(
    processes: Processes, directory: Path, query: str, kind: Kind | None, limit: int
) -> list[FileSystemEntry]:
    """Return files and folders (or one `kind`) whose path holds the letters of `query` in order, best first.

    Without letters the shortest paths come first.
    """
    known = await names(processes, directory)
    candidates = [] if kind == "directory" else known.files
    candidates = candidates if kind == "file" else [*candidates, "/", *known.folders]
    chosen = await asyncio.to_thread(best, candidates, query, limit)
    return [FileSystemEntry(path=path, type="directory" if path.endswith("/") else "file") for path in chosen]


async def lines(processes: Processes, directory: Path, pattern: str, limit: int) -> list[TextMatch]:
    """Return lines that match a regular expression, by the files' names. Raises `Invalid` for one that is none."""
    found = map(_match, await program.matches(processes, directory, pattern, limit))
    return [match for match in found if match is not None]


def best(paths: Iterable[str], query: str, limit: int) -> list[str]:
    """Return the paths that hold the letters of `query` in this order, best first (see `score`)."""
    wanted = "".join(query.lower().split())
    scored = ((score(path.lower(), wanted), len(path), path) for path in paths)
    found = sorted((points, length, path) for points, length, path in scored if points is not None)
    return [path for _, _, path in found[:limit]]


def score(path: str, wanted: str) -> int | None:
    """Return how far a path is from what is wanted (0: it is its name), None where letters are missing.

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


def _names(printed: bytes, root: str) -> Names:
    """What was printed, up to the last whole name."""
    prefix = root.rstrip("/") + "/"
    files = [os.fsdecode(one).removeprefix(prefix) for one in printed.split(b"\0")[:-1]]
    folders: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return Names(files, sorted(folders))


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
    """What is not UTF-8 stands in base64 in ripgrep's output; a client wants a text."""
    if isinstance(value, dict):
        if isinstance(value.get("bytes"), str):
            return {"text": msgspec.convert(value["bytes"], bytes, strict=False).decode(errors="replace")}
        return {key: _texts(one) for key, one in value.items()}
    return [_texts(one) for one in value] if isinstance(value, list) else value
