"""The program that lists and searches files for a client: ripgrep where there is one, else `instar.tool.walk`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from instar.api.request import Invalid
from instar.process import Output, ProcessError, Processes
from instar.tool import walk
from instar.tool.search import MEMORY, ripgrep

SECONDS: Final = 20.0
"""How long a search may take; what was found by then is answered."""
LONGEST: Final = 32 << 20
"""Bytes of what it prints that are read."""

_PYTHON: Final = (sys.executable, "-I", "-S", walk.__file__)
# The rules of `walk`: hidden files yes, .git no, ignore files of the tree but not the person's own.
_RULES: Final = (
    "--no-config", "--no-messages", "--hidden", "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git",
)  # fmt: skip


async def names(processes: Processes, directory: Path) -> Output:
    """Run the program that prints every file's absolute path, each followed by a NUL. Raises `Invalid`."""
    program = ripgrep()
    root = str(directory)
    argv = [program, *_RULES, "--files", "--null", "--", root] if program else [*_PYTHON, "files", root]
    return await _run(processes, directory, argv)


async def matches(processes: Processes, directory: Path, pattern: str, most: int) -> Sequence[bytes]:
    """Return the first `most` lines that match, each as ripgrep's JSON. Raises `Invalid`."""
    program, enough = ripgrep(), _Enough(most)
    size = f"--max-filesize={walk.MAX_FILE_BYTES}"
    flags = (*_RULES, "--json", "--no-mmap", "--sort=path", f"--max-count={most}", size)
    found = (
        [program, *flags, f"--regexp={pattern}", "--", "."] if program else [*_PYTHON, "json", pattern, "."]
    )
    try:
        output = await _run(processes, directory, found, enough)
    except _Enough.Found:
        return enough.lines
    if output.code == 2 and output.stderr.strip():
        said = output.stderr.decode(errors="replace").strip()
        raise Invalid(f"the pattern is no regular expression: {said}")
    return enough.lines


class _Enough:
    """Keeps lines with matches as they come, and ends the program when there are `most`."""

    class Found(Exception):
        """There are enough."""

    def __init__(self, most: int) -> None:
        self.lines: list[bytes] = []
        self._most = most
        self._begun = b""

    def __call__(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            if b'"match"' in (head := (self._begun + line)[:LONGEST])[:64]:
                self.lines.append(head)
            self._begun = b""
            if len(self.lines) >= self._most:
                raise _Enough.Found
        if len(self._begun) < LONGEST:
            self._begun += rest


async def _run(
    processes: Processes, directory: Path, argv: Sequence[str], take: Callable[[bytes], None] | None = None
) -> Output:
    if any("\0" in one for one in argv):
        raise Invalid("the pattern holds a NUL, which no line of a text does")
    # ripgrep reads an ignore file whole: a repository's .gitignore may be a symlink to /dev/zero.
    limited = ["/bin/sh", "-c", f'ulimit -v {MEMORY >> 10} 2>/dev/null; exec "$@"', "search", *argv]
    try:
        return await processes.run(limited, cwd=directory, timeout=SECONDS, limit=LONGEST, on_output=take)
    except ProcessError as error:
        raise Invalid(f"the search could not be started: {error}") from None
