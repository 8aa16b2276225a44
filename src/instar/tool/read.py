"""The `read` tool: part of a text file with line numbers, a folder's entries, an image, a PDF's text."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, media, parameters
from instar.tool.call import MAX_BYTES, MAX_LINES
from instar.tool.files import SAMPLE, is_binary, missing, opened
from instar.wire import Plain

MAX_LINE: Final = 2000
"""Characters of one line that are shown."""
COUNT_AHEAD: Final = 16 << 20
"""Bytes after the shown part that are read to count the lines; beyond, the answer does not say how many."""
CHUNK: Final = 1 << 20
PREVIEW: Final = 20
"""Lines in the metadata's preview."""

PARAMETERS: Final[Plain] = parameters(
    {"filePath": "The file or folder to read"},
    {
        "offset": {
            "type": "integer",
            "minimum": 0,
            "maximum": 9007199254740991,
            "description": "The number of the first line or entry to return, counted from 1 (default 1)",
        },
        "limit": {
            "type": "integer",
            "minimum": 0,
            "maximum": 9007199254740991,
            "description": "How many lines or entries to return at most (default 2000; 0 means the default)",
        },
    },
)


class Window(msgspec.Struct, frozen=True):
    """Part of a file: `lines` from number `first` on; `total` lines in all (None: not counted)."""

    lines: Sequence[str]
    first: int
    total: int | None
    full: bool
    """True if the size limit ended it."""


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what reading this path needs."""
    path = files.locate(args["filePath"], ctx)
    return files.asks("read", path, ctx, {"filepath": str(path)})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Read. Raises `ToolFailure` when the path is missing, binary, no file, or ends before `offset`."""
    path = files.locate(args["filePath"], ctx)
    if (mime := media.image_type(path)) is not None:
        return await media.read_image(path, mime, ctx)
    stamp = files.stamp(path)
    first, limit = args.get("offset") or 1, args.get("limit") or MAX_LINES
    # In a thread: the file may be gigabytes, or on a network. `abort` ends it where cancelling cannot.
    kind = "directory" if path.is_dir() else "file"
    if kind == "file" and media.is_pdf(path):
        found = _part(await media.pdf_text(path, ctx), first, limit)
    elif kind == "file" and (text := await files.unsaved(path, ctx)) is not None:
        found, kind = _part(text.removesuffix("\n"), first, limit), "file, as it stands unsaved in the editor"
        files.note_seen(path, ctx, stamp)
    else:
        reader = _entries if kind == "directory" else window
        found = await asyncio.to_thread(reader, path, first, limit, ctx.abort.is_set)
        files.note_seen(path, ctx, stamp if kind == "file" else None)
    text = "\n".join(_listed(found) if kind == "directory" else _numbered(found))
    display = _display(path, found, is_folder=kind == "directory")
    metadata = {
        "preview": "\n".join(found.lines[:PREVIEW]),
        "truncated": display["truncated"],
        "loaded": [],
        "display": display,
    }
    output = f"<path>{path}</path>\n<type>{kind}</type>\n{text}"
    return ToolResult(output, files.shown(path, ctx), metadata, truncate=False)


def window(path: Path, first: int, limit: int, stopped: Callable[[], bool]) -> Window:
    """Return up to `limit` lines of a text file from line `first` (from 1) on, without loading the file.

    Reading ends when `stopped` returns True. Raises `ToolFailure` as `execute`.
    """
    with opened(path) as file:
        if is_binary(file.read(SAMPLE)):
            raise ToolFailure(f"Cannot read binary file: {path}")
        file.seek(0)
        skipped = _skip(file, first - 1, stopped)
        if skipped < first - 1 or (first > 1 and not file.peek(1)):  # type: ignore[attr-defined]
            raise ToolFailure(f"Offset {first} is beyond the end of {path}, which has {skipped} lines")
        lines, full = _take(_lines(file, stopped), limit)
        total = _count_rest(file, skipped + len(lines) + full, stopped)
        return Window(lines, first, total, full)


TOOL: Final = Tool(description("read"), PARAMETERS, execute, permissions, idempotent=True)


def _entries(path: Path, first: int, limit: int, stopped: Callable[[], bool]) -> Window:
    try:
        with os.scandir(path) as found:
            names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in found)
    except OSError as error:
        raise ToolFailure(
            f"Cannot list {path}: {error.strerror}" if path.exists() else missing(path)
        ) from None
    if first > max(1, len(names)):
        raise ToolFailure(f"Offset {first} is beyond the end of {path}, which has {len(names)} entries")
    lines, full = _take((_clean(os.fsencode(name)) for name in names[first - 1 :]), limit)
    return Window(lines, first, len(names), full)


def _skip(file: BinaryIO, count: int, stopped: Callable[[], bool]) -> int:
    """Move past `count` lines and return how many there were; the file then stands at a line's start."""
    seen = 0
    while seen < count and not stopped():
        start = file.tell()
        chunk = file.read(CHUNK)
        if not chunk:
            break
        found = chunk.count(b"\n")
        if seen + found < count:
            seen += found
            continue
        end = 0
        for _ in range(count - seen):
            end = chunk.index(b"\n", end) + 1
        file.seek(start + end)
        return count
    return seen + _unfinished(file) if seen < count else seen


def _unfinished(file: BinaryIO) -> int:
    """1 when the file, read to its end, closes with a line that has no newline."""
    size = file.tell()
    if not size:
        return 0
    file.seek(size - 1)
    return int(file.read(1) != b"\n")


def _lines(file: BinaryIO, stopped: Callable[[], bool]) -> Iterator[str]:
    """The lines from here on, each cut at `MAX_LINE` characters however long it is."""
    most, at_start = MAX_LINE * 4 + 2, file.tell() == 0
    while line := file.readline(most):
        whole = line
        while not line.endswith(b"\n") and not stopped() and (line := file.readline(CHUNK)):
            pass
        yield _clean(whole.removeprefix(b"\xef\xbb\xbf") if at_start else whole)
        at_start = False


def _clean(line: bytes) -> str:
    text = line.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... (line cut to {MAX_LINE} characters)"


def _take(lines: Iterator[str], limit: int) -> tuple[list[str], bool]:
    """Up to `limit` lines that fit the size limit, and whether the size limit ended them."""
    taken: list[str] = []
    size = 0
    for line in islice(lines, limit):
        size += len(line.encode(errors="replace")) + 1
        if size > MAX_BYTES:
            return taken, True
        taken.append(line)
    return taken, False


def _count_rest(file: BinaryIO, before: int, stopped: Callable[[], bool]) -> int | None:
    """How many lines the file has in all, None when too much is left to count."""
    count, last = before, b"\n"
    for _ in range(COUNT_AHEAD // CHUNK):
        chunk = file.read(CHUNK)
        if not chunk or stopped():
            return count + (last[-1:] != b"\n")
        count, last = count + chunk.count(b"\n"), chunk
    return None


def _part(text: str, first: int, limit: int) -> Window:
    """The lines of a text from number `first` on, as far as they fit. Raises `ToolFailure` behind its end."""
    lines = [line if len(line) <= MAX_LINE else line[:MAX_LINE] for line in text.split("\n")]
    if first > len(lines):
        raise ToolFailure(f"Offset {first} is out of range: the text has {len(lines)} lines.")
    taken, full = _take(iter(lines[first - 1 :]), limit)
    return Window(taken, first, len(lines), full)


def _rest(found: Window) -> str | None:
    """What to say when something is left, None when nothing is."""
    next_one = found.first + len(found.lines)
    if found.total is not None and next_one > found.total:
        return None
    of = f" of {found.total}" if found.total is not None else ""
    why = f"Output capped at {MAX_BYTES // 1024} KiB. " if found.full else ""
    return f"({why}Showing {found.first}-{next_one - 1}{of}. Use offset={next_one} to continue.)"


def _display(path: Path, found: Window, *, is_folder: bool) -> Plain:
    """What clients and plugins show of it, in opencode's form (1.18)."""
    last = found.first + len(found.lines) - 1
    total = last if found.total is None else found.total
    shown = (
        {"type": "directory", "entries": found.lines, "offset": found.first, "totalEntries": total}
        if is_folder
        else {
            "type": "file",
            "text": "\n".join(found.lines),
            "lineStart": found.first,
            "lineEnd": last,
            "totalLines": total,
        }
    )
    return {**shown, "path": str(path), "truncated": _rest(found) is not None}


def _numbered(found: Window) -> list[str]:
    lines = [f"{number}: {line}" for number, line in enumerate(found.lines, found.first)]
    end = _rest(found) or f"(End of file - total {found.total} lines)"
    return ["<content>", *lines, "", end, "</content>"]


def _listed(found: Window) -> list[str]:
    return ["<entries>", *found.lines, "", _rest(found) or f"({found.total} entries)", "</entries>"]
