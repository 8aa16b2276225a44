"""Lists and searches files where there is no ripgrep, with ripgrep's output and the same rules.

Run as a program of its own (``python -I -S walk.py files ROOT``, ``… grep PATTERN ROOT [NAMES]``,
``… json PATTERN ROOT``), so that a regular expression that never ends can be ended; it imports the
standard library only. Rules (ripgrep's, and git's): what ``.gitignore`` and ``.ignore`` say from the
repository's root down (only inside a repository), never ``.git``, hidden files included, links not
followed, files above `MAX_FILE_BYTES` and binary files not searched.
"""

# A walk of a hundred thousand files on pathlib takes three times as long.
# ruff: noqa: PTH110, PTH112, PTH118, PTH120, PTH123, PTH202

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

MAX_FILE_BYTES: Final = 10 << 20
"""Bytes of the largest file that is searched."""
SNIFF: Final = 64 << 10
"""Bytes at the start of a file in which a NUL makes it binary."""
MAX_RULES: Final = 1 << 20
"""Bytes of an ignore file that are read."""

MAX_GLOB: Final = 4096
"""Characters of a glob: no path is longer, and an ignore file is anybody's."""
MAX_ALTERNATIVES: Final = 256
"""Patterns that the braces of one glob may stand for."""


class Glob:
    """A glob: ``*`` and ``?`` stay in a folder, ``**`` does not, ``[…]``, ``{a,b}``; a backslash escapes.

    Without a slash it fits a name at any depth, with one it starts at the root. Its time is linear in the
    path for each star. Raises `ValueError` for a pattern that means nothing.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_GLOB:
            raise ValueError(f"it is longer than {MAX_GLOB} characters")
        self._alternatives = [_parts(one) for one in _unbraced(pattern)]

    def fits(self, path: str) -> bool:
        """True if the glob fits a path that is relative to the glob's root."""
        names = path.split("/")
        return any(_fits(parts, names) for parts in self._alternatives)


class IgnoreRule(NamedTuple):
    """A line of an ignore file; paths are relative to its folder."""

    glob: Glob
    folders_only: bool
    keep: bool


Rules = tuple[tuple[str, tuple[IgnoreRule, ...]], ...]
"""The ignore files that hold in a folder: each one's folder with its rules, outermost first."""


def parse(text: str) -> tuple[IgnoreRule, ...]:
    """Return the rules of an ignore file in order; invalid globs are left out."""
    rules = []
    for line in text.splitlines():
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            continue
        keep = line.startswith("!")
        glob = line[1:] if keep else line.removeprefix("\\") if line[:2] in ("\\#", "\\!") else line
        try:
            rules.append(IgnoreRule(Glob(glob.removesuffix("/")), glob.endswith("/"), keep))
        except ValueError:
            continue
    return tuple(rules)


def ignored(path: str, folder: bool, rules: Rules) -> bool:
    """True if the last rule that fits, of the innermost file that has one, takes `path` away."""
    for base, lines in reversed(rules):
        inside = path[len(base) :].lstrip("/")
        for rule in reversed(lines):
            if (folder or not rule.folders_only) and rule.glob.fits(inside):
                return not rule.keep
    return False


def files(root: str) -> Iterator[str]:
    """Every file below `root` that the rules leave, as absolute paths if `root` is one; or `root`, a file."""
    if not os.path.isdir(root):
        yield root
        return
    rules, in_repository = _above(root)
    stack = [(root, rules, in_repository)]
    while stack:
        folder, rules, in_repository = stack.pop()
        rules, in_repository = _entered(folder, rules, in_repository)
        for entry in entries(folder):
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or ignored(entry.path, is_folder, rules):
                continue
            if is_folder:
                stack.append((entry.path, rules, in_repository))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def search(path: str, expression: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text file that match, with their numbers; none of a large, binary or unreadable file."""
    for number, line in enumerate(_text(path).decode(errors="replace").removesuffix("\n").split("\n"), 1):
        if expression.search(line.removesuffix("\r")):
            yield number, line


def records(path: str, expression: re.Pattern[str]) -> Iterator[str]:
    """The lines of a text file that match, each as ripgrep's ``--json`` prints it."""
    offset = 0
    for number, raw in enumerate(_text(path).splitlines(keepends=True), 1):
        line = raw.decode(errors="replace")
        found = [_submatch(line, one) for one in expression.finditer(line.rstrip("\r\n"))]
        if found:
            texts = {"path": {"text": path}, "lines": {"text": line}}
            places = {"line_number": number, "absolute_offset": offset, "submatches": found}
            yield json.dumps({"type": "match", "data": {**texts, **places}})
        offset += len(raw)


def main(arguments: Sequence[str]) -> int:
    """Write what was found to stdout. Returns 0 if anything, 1 if nothing, 2 for an invalid pattern."""
    out = sys.stdout.buffer
    if arguments[0] == "files":
        for path in files(arguments[1]):
            out.write(os.fsencode(path) + b"\0")
        return 0
    try:
        expression = re.compile(arguments[1])
    except (re.error, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    if arguments[0] == "json":
        for path in sorted(files(arguments[2])):
            out.writelines(record.encode() + b"\n" for record in records(path, expression))
        return 0
    names = Glob(arguments[3]) if len(arguments) > 3 else None
    count = 0
    for path in files(arguments[2]):
        if names is None or names.fits(os.path.relpath(path, arguments[2])):
            for number, line in search(path, expression):
                count += 1
                out.write(os.fsencode(path) + b"\0" + f"{number}:{line}\n".encode(errors="replace"))
    return 0 if count else 1


def _text(path: str) -> bytes:
    """What a text file holds; nothing of a large, binary or unreadable one."""
    try:
        data = _bytes(path, MAX_FILE_BYTES) if os.path.getsize(path) <= MAX_FILE_BYTES else b""
    except OSError:
        return b""
    return b"" if b"\0" in data[:SNIFF] else data.removeprefix(b"\xef\xbb\xbf")


def _submatch(line: str, found: re.Match[str]) -> dict[str, object]:
    start, end = (len(line[:at].encode(errors="replace")) for at in found.span())
    return {"match": {"text": found[0]}, "start": start, "end": end}


def _above(root: str) -> tuple[Rules, bool]:
    """The rules that hold in the folders above `root`, up to the repository's; none outside of one."""
    rules: Rules = ()
    folder = os.path.dirname(root)
    while not os.path.exists(os.path.join(root, ".git")):
        rules = ((folder, _rules_of(folder, True)), *rules)
        if os.path.exists(os.path.join(folder, ".git")):
            return rules, True
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    return (), False


def _entered(folder: str, rules: Rules, in_repository: bool) -> tuple[Rules, bool]:
    """What holds inside `folder`: a repository of its own forgets the rules of the outer one."""
    if os.path.exists(os.path.join(folder, ".git")):
        rules, in_repository = (), True
    found = _rules_of(folder, in_repository)
    return ((*rules, (folder, found)) if found else rules), in_repository


def _rules_of(folder: str, in_repository: bool) -> tuple[IgnoreRule, ...]:
    rules: tuple[IgnoreRule, ...] = ()
    for name in (".gitignore", ".ignore") if in_repository else (".ignore",):
        try:
            rules += parse(_bytes(os.path.join(folder, name), MAX_RULES).decode(errors="replace"))
        except OSError:
            continue
    return rules


def _bytes(path: str, most: int) -> bytes:
    """The first bytes of a file; none of a pipe or device, which could be waited for or read for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with open(descriptor, "rb") as file:
        return file.read(most)


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what a folder holds; nothing of one that cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _unbraced(pattern: str) -> list[str]:
    """Return the patterns that a pattern with braces expands to; an unclosed brace is literal."""
    done, waiting = [], [pattern]
    while waiting:
        one = waiting.pop()
        span = _brace(one)
        if span is None:
            done.append(one)
            continue
        waiting += [one[: span[0]] + choice + one[span[-1] + 1 :] for choice in _between(one, span)]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"its braces stand for more than {MAX_ALTERNATIVES} patterns")
    return done


def _brace(pattern: str) -> list[int] | None:
    """Where the first brace opens, each comma of its own, and where it closes."""
    marks: list[int] = []
    depth = 0
    for index, char in enumerate(pattern):
        if index and pattern[index - 1] == "\\":
            continue
        if char == "{":
            depth += 1
            marks += [index] if depth == 1 else []
        elif char == "," and depth == 1:
            marks.append(index)
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                return [*marks, index]
    return None


def _between(text: str, marks: Sequence[int]) -> list[str]:
    return [text[start + 1 : end] for start, end in pairwise(marks)]


_Parts = tuple[re.Pattern[str] | None, ...]


def _parts(pattern: str) -> _Parts:
    """A pattern folder by folder; None stands for ``**``."""
    names = pattern.split("/")
    if len(names) == 1:
        names = ["**", *names]
    names = names[1:] if not names[0] else names
    if not all(names):
        raise ValueError("it has an empty part")
    return tuple(None if name == "**" else _segment(name) for name in names)


def _fits(parts: _Parts, names: Sequence[str]) -> bool:
    ends = {0}
    for number, part in enumerate(parts):
        if part is None:
            last = number == len(parts) - 1
            ends = set(range(min(ends) + last, len(names) + 1))
        else:
            ends = {at + 1 for at in ends if at < len(names) and part.fullmatch(names[at])}
        if not ends:
            return False
    return len(names) in ends


@lru_cache(maxsize=4096)
def _segment(text: str) -> re.Pattern[str]:
    """The expression of one name: each piece between two stars at its first place and never again."""
    pieces, index = [""], 0
    while index < len(text):
        if text[index] == "*":
            pieces.append("")
            index += 1
            continue
        expression, size = _character(text, index)
        pieces[-1] += expression
        index += size
    head, *rest = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(f"{head}{middle}.*{rest[-1]}" if rest else head, re.DOTALL)


def _character(text: str, at: int) -> tuple[str, int]:
    """The expression of the character of a glob at `at`, and how much of the glob it took."""
    one, next_one = text[at], text[at + 1 : at + 2]
    if one == "[" and (end := text.find("]", at + (3 if next_one in ("!", "^") else 2))) > 0:
        inside = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        return f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]", end + 1 - at
    if one == "\\" and next_one:
        return re.escape(next_one), 2
    return "." if one == "?" else re.escape(one), 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
