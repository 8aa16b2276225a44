"""The `edit` tool: replaces text in a file, forgiving blanks and indentation; it never guesses between two places.

Text that does not stand exactly is looked for by whole lines, first with other blanks and indentation, then by its
first and last line. Each way is tried only if those before it find nothing.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher, get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, parameters
from instar.wire import Plain

ANCHORED: Final = 3
"""Lines that a text needs at least to be found by its first and last one."""
LIKENESS: Final = 0.8
"""How alike (0 to 1) the lines between two anchors must be to what was given."""
CANDIDATES: Final = 50
"""Pairs of anchors that are compared; a text with more of them is not looked for."""
LONGEST: Final = 20_000
"""Characters of a text that is compared by likeness, which costs their product."""


class _Place(msgspec.Struct, frozen=True):
    """Lines `first` to `last` of a file (from 0, both included), and what puts a text into their indentation."""

    first: int
    last: int
    fitted: Callable[[str], str]
    how: str


def _places(lines: Sequence[str], wanted: Sequence[str]) -> list[_Place]:
    """Return where `wanted` stands in `lines`, both without line ends, by the first way that finds it."""
    if not any(line.strip() for line in wanted):
        return []
    bare = [_bare(line) for line in lines]
    given = [_bare(line) for line in wanted]
    same = [start for start in range(len(bare) - len(given) + 1) if bare[start : start + len(given)] == given]
    found = [_indented(lines, wanted, start) for start in same]
    if same:
        # A place that fits but for an indentation that cannot be carried over is a place too: ambiguous.
        return [one for one in found if one is not None] if None not in found else []
    return _anchored(lines, wanted, bare, given)


def _bare(line: str) -> str:
    return " ".join(line.split())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indented(lines: Sequence[str], wanted: Sequence[str], start: int) -> _Place | None:
    """The place whose lines differ in blanks only, when the indentation is the same or carries over."""
    end = start + len(wanted)
    fitted = _fit(wanted, lines[start:end])
    return None if fitted is None else _Place(start, end - 1, fitted, "blanks")


def _fit(given: Sequence[str], there: Sequence[str]) -> Callable[[str], str] | None:
    """How a text indented as `given` is indented as `there`: by one shift, else indentation by indentation.

    None when one indentation would have to become two, or two would become one.
    """
    pairs = [(_indent(one), _indent(other)) for one, other in zip(given, there, strict=True) if one.strip()]
    # Characters are meant, though its module is that of paths.
    old, new = (os.path.commonprefix(indents) for indents in zip(*pairs, strict=True))  # noqa: RUF071
    if all(one[len(old) :] == other[len(new) :] for one, other in pairs):
        return lambda text: _each(text, lambda indent: _shifted(indent, old, new))
    known = dict(pairs)
    if any(known[one] != other for one, other in pairs) or len(set(known.values())) < len(known):
        return None
    return lambda text: _each(text, lambda indent: _known(indent, known))


def _anchored(
    lines: Sequence[str], wanted: Sequence[str], bare: Sequence[str], given: Sequence[str]
) -> list[_Place]:
    """Places that begin and end with the text's first and last line and are much like it in between."""
    text = "\n".join(given)
    if len(given) < ANCHORED or not (given[0] and given[-1]) or len(text) > LONGEST:
        return []
    slack = max(1, len(given) // 4)
    pairs = [
        (start, end)
        for start, line in enumerate(bare)
        if line == given[0]
        for end in range(start + max(1, len(given) - 1 - slack), min(len(bare), start + len(given) + slack))
        if bare[end] == given[-1]
    ]
    if len(pairs) > CANDIDATES:
        return []
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(text)
    found = []
    for start, end in pairs:
        matcher.set_seq1("\n".join(bare[start : end + 1])[: 2 * LONGEST])
        if matcher.quick_ratio() >= LIKENESS and matcher.ratio() >= LIKENESS:
            ends = [lines[start], lines[end]]
            fitted = _fit([wanted[0], wanted[-1]], ends)
            if fitted is not None:
                found.append(_Place(start, end, fitted, "anchors"))
    return found


def _each(text: str, changed: Callable[[str], str]) -> str:
    lines = text.split("\n")
    return "\n".join(
        changed(_indent(line)) + line[len(_indent(line)) :] if line.strip() else line for line in lines
    )


def _shifted(indent: str, old: str, new: str) -> str:
    return new + indent[len(old) :] if indent.startswith(old) else indent


def _known(indent: str, known: dict[str, str]) -> str:
    """The indentation that stands for `indent`; a deeper one goes on from the deepest that is known."""
    nearest = max((one for one in known if indent.startswith(one)), key=len, default=None)
    return indent if nearest is None else known[nearest] + indent[len(nearest) :]


SHOWN_PLACES: Final = 10
"""Line numbers that are listed when the text stands in several places."""
NEAR_LINES: Final = 2000
"""Lines that are compared to find what is near."""

PARAMETERS: Final[Plain] = parameters(
    {
        "filePath": "The file to change",
        "oldString": "The text to replace, exactly as it stands in the file",
        "newString": "The text to put in its place",
    },
    {
        "replaceAll": {
            "type": "boolean",
            "description": "Whether to replace every occurrence (default false: there must be exactly one)",
        }
    },
)

_BOM: Final = "\ufeff"


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what changing this file needs; a person is shown the change."""
    path, old = files.locate(args["filePath"], ctx), args["oldString"]
    before = files.preview(path)
    try:
        after = changed(before, old, args["newString"], everywhere=bool(args.get("replaceAll")))
    except ToolFailure:
        after = before  # the call itself will say what is wrong
    change = files.unified(files.shown(path, ctx), before, after)
    return files.asks("edit", path, ctx, {"filepath": str(path), "diff": change})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Change the file. Raises `ToolFailure`, the file untouched, when it is not clear what to replace."""
    path, old, new = files.locate(args["filePath"], ctx), args["oldString"], args["newString"]
    if old == new:
        raise ToolFailure("oldString and newString are the same: there is nothing to change.")
    files.encoded(new)
    async with files.locked(path, ctx):
        files.check_unchanged(path, ctx)
        stamp = files.stamp(path)
        before = await asyncio.to_thread(_before, path, old)
        # In a thread: a text that is not there exactly is compared with all of a large file.
        after = await asyncio.to_thread(changed, before, old, new, everywhere=bool(args.get("replaceAll")))
        if files.stamp(path) != stamp:
            raise ToolFailure(f"{path} was changed by another program just now; read it again.")
        data = after.encode(errors="surrogateescape")
        await asyncio.to_thread(files.replace, path, data)
        settled = await files.settle({path: data}, ctx)
    name, after = files.shown(path, ctx), settled.now[path].decode(errors="surrogateescape")
    text = f"Edit applied successfully.{settled.note}"
    return ToolResult(text, name, files.counted(path, name, before, after) | settled.metadata)


def changed(text: str, old: str, new: str, *, everywhere: bool = False) -> str:
    """Return `text` with `old` replaced by `new`, once or everywhere; an empty `old` means an empty text.

    Where `old` does not stand exactly, lines that differ from it in blanks or indentation count, then a block
    between its first and last line that is much like it; `new` is put into their indentation. A byte order
    mark stays, and newlines become those of the text. Raises `ToolFailure` when `old` is not
    there (naming what is near), or stands in several places and not all are meant (naming them).
    """
    mark, body = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    if not old:
        return mark + new if not body else text
    crlf = body.count("\r\n") * 2 > body.count("\n")
    found = next((form for form in (old, _with_crlf(old), old.replace("\r\n", "\n")) if form in body), None)
    if found is None:
        return mark + _forgiven(body, old, new, crlf=crlf, everywhere=everywhere)
    _one_place(_lines_of(body, found), everywhere)
    return mark + body.replace(found, _with_crlf(new) if crlf else new)


TOOL: Final = Tool(description("edit"), PARAMETERS, execute, permissions, permission="edit")


def _forgiven(body: str, old: str, new: str, *, crlf: bool, everywhere: bool) -> str:
    """`body` with the lines replaced that are `old` but for blanks; the line ends of the rest stay."""
    lines = body.split("\n")
    wanted = old.replace("\r\n", "\n").split("\n")
    whole = len(wanted) > 1 and not wanted[-1].strip()
    if whole:
        wanted.pop()
    found = _places([line.removesuffix("\r") for line in lines], wanted)
    if not found:
        raise ToolFailure(f"Could not find oldString in the file. {_near(body, old)}")
    _one_place([block.first + 1 for block in found], everywhere and found[0].how == "blanks")
    text = new.replace("\r\n", "\n")
    text = text.removesuffix("\n") if whole else text
    if any(one.last >= other.first for one, other in pairwise(found)):
        raise ToolFailure("oldString stands in places that overlap; give more of the text around the one.")
    for block in reversed(found):
        fitted = block.fitted(text).split("\n") if text or not whole else []
        ends = "\r" if crlf else ""
        # The file's last line has no line end of its own.
        last = block.last == len(lines) - 1
        fitted = [line + ("" if last and at == len(fitted) - 1 else ends) for at, line in enumerate(fitted)]
        lines[block.first : block.last + 1] = fitted
    return "\n".join(lines)


def _one_place(lines: list[int], everywhere: bool) -> None:
    if len(lines) > 1 and not everywhere:
        raise ToolFailure(
            f"oldString stands in {len(lines)} places (lines {_listed(lines)}). "
            "Give more of the text around the one you mean, or set replaceAll."
        )


def _before(path: Path, old: str) -> str:
    """Return the file's text; bytes that are not UTF-8 survive as surrogates."""
    if old:
        return files.whole(path).decode(errors="surrogateescape")
    if path.exists() or path.is_symlink():
        raise ToolFailure(
            f"{path} exists: an empty oldString only creates a new file. Give the text to replace."
        )
    return ""


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, part: str) -> list[int]:
    """The line of each place where `part` stands, places that overlap included."""
    lines, line, seen = [], 1, 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", seen, at)
        lines.append(line)
        seen = at
        at = text.find(part, at + 1)
    return lines


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:SHOWN_PLACES])) + (", …" if len(lines) > SHOWN_PLACES else "")


def _near(text: str, old: str) -> str:
    """What in the text is most like `old`: the same but for its indentation, else the line most like its first."""
    lines = text.split("\n")
    wanted, bare = [_bare(line) for line in old.strip().split("\n")], [_bare(line) for line in lines]
    for index in range(len(bare) - len(wanted) + 1):
        if bare[index : index + len(wanted)] == wanted:
            return f"The same text stands at line {index + 1}, but indented otherwise; copy it exactly."
    close = get_close_matches(wanted[0], bare[:NEAR_LINES], n=1)
    if not close:
        return "Nothing in it is like its first line; read the file again."
    index = bare.index(close[0])
    return f"The nearest to its first line is line {index + 1}: {lines[index].strip()[:200]!r}"
