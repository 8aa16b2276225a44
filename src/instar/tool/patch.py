"""Reads patches in the form of ``apply_patch`` and works out what becomes of each file. Touches no file.

The form: between ``*** Begin Patch`` and ``*** End Patch`` any number of ``*** Add File: P`` (each line with
``+``), ``*** Delete File: P`` and ``*** Update File: P`` (then perhaps ``*** Move to: Q``), whose chunks begin
with ``@@`` and perhaps a line to look behind, and hold lines with a blank, ``-`` or ``+`` in front; ``*** End of
File`` says that a chunk stands at the end.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from instar.plugin.tool import ToolFailure

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
_LAST: Final = "*** End of File"
_HEADS: Final = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}
_MOVE: Final = "*** Move to: "


class Chunk(msgspec.Struct):
    """Lines to find and what to put there; `behind` are lines that it stands after."""

    behind: list[str] = []
    old: list[str] = []
    new: list[str] = []
    at_end: bool = False


class Change(msgspec.Struct):
    """What the patch does to one file; `text` is that of a new one, `line` where in the patch it stands."""

    kind: Literal["add", "delete", "update"]
    path: str
    line: int
    move: str | None = None
    text: list[str] = []
    chunks: list[Chunk] = []


def parse(text: str) -> list[Change]:
    """Return what a patch does, file by file. Raises `ToolFailure` naming the line that is wrong."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolFailure(f"A patch begins with {BEGIN!r} and ends with {END!r}, each on a line of its own.")
    changes: list[Change] = []
    for number, line in enumerate(lines[1:-1], 2):
        head = next((head for head in _HEADS if line.startswith(head)), None)
        if head is not None:
            path = line[len(head) :].strip()
            changes.append(Change(_HEADS[head], path, number))  # type: ignore[arg-type]
            if not path:
                raise _wrong(number, line, "a path")
        elif not changes:
            raise _wrong(number, line, "*** Add File:, *** Update File: or *** Delete File:")
        else:
            _take(changes[-1], line, number)
    return _checked(changes)


def updated(name: str, text: str, chunks: Sequence[Chunk]) -> str:
    """Return a file's text after its chunks, which stand in order. Raises `ToolFailure` for one that does not fit.

    A chunk fits lines that are equal, else equal but for blanks at their ends, else but for all outer
    blanks; where it would fit several places and no line before it says which, it is refused.
    """
    crlf = text.count("\r\n") * 2 > text.count("\n")
    ended = text.endswith("\n") or not text
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    done: list[str] = []
    for number, chunk in enumerate(chunks, 1):
        where = f"chunk {number} of {name}"
        for line in chunk.behind:
            at = _find(lines, [line], False, where, f"the line behind @@, {line!r}", first=True)
            done += lines[: at + 1]
            lines = lines[at + 1 :]
        if not chunk.old:
            done, lines = (done, lines) if chunk.behind else ([*done, *lines], [])
            done += chunk.new
            continue
        at = _find(lines, chunk.old, chunk.at_end, where, "its lines", first=bool(chunk.behind))
        kept = lines[at : at + len(chunk.old)]
        done += [*lines[:at], *_kept(chunk, kept)]
        lines = lines[at + len(chunk.old) :]
    whole = "\n".join([*done, *lines]) + ("\n" if ended and (done or lines) else "")
    return whole.replace("\n", "\r\n") if crlf else whole


def _take(change: Change, line: str, number: int) -> None:
    if change.kind == "delete":
        if line.strip():
            raise _wrong(number, line, "nothing more of a file that is deleted")
    elif change.kind == "add":
        if not line.startswith("+"):
            raise _wrong(number, line, "a line that begins with +")
        change.text.append(line[1:])
    elif line.startswith(_MOVE):
        if change.chunks or change.move is not None:
            raise _wrong(number, line, "*** Move to: right below *** Update File:")
        change.move = line[len(_MOVE) :].strip()
    else:
        _take_update(change, line, number)


def _take_update(change: Change, line: str, number: int) -> None:
    if line.startswith("@@"):
        behind = line[2:].strip()
        # Several @@ lines in a row lead to a place step by step: class, then method.
        if not change.chunks or change.chunks[-1].old or change.chunks[-1].new:
            change.chunks.append(Chunk(behind=[], old=[], new=[]))
        change.chunks[-1].behind += [line[2:].removeprefix(" ")] if behind else []
        return
    if not change.chunks:
        change.chunks.append(Chunk(behind=[], old=[], new=[]))
    chunk = change.chunks[-1]
    if line.strip() == _LAST:
        chunk.at_end = True
    elif line[:1] in ("", " "):
        chunk.old.append(line[1:])
        chunk.new.append(line[1:])
    elif line[0] == "-":
        chunk.old.append(line[1:])
    elif line[0] == "+":
        chunk.new.append(line[1:])
    else:
        raise _wrong(number, line, "a line that begins with a blank, -, + or @@")


def _checked(changes: list[Change]) -> list[Change]:
    if not changes:
        raise ToolFailure("The patch is empty: it names no file.")
    for change in changes:
        if change.kind == "update" and not change.move and not any(c.old or c.new for c in change.chunks):
            raise ToolFailure(
                f"line {change.line} of the patch: the update of {change.path} changes nothing."
            )
    return changes


def _kept(chunk: Chunk, there: Sequence[str]) -> list[str]:
    """The chunk's new lines, those that it only repeats as they stand in the file."""
    left = dict[str, list[str]]()
    for given, found in zip(chunk.old, there, strict=True):
        left.setdefault(given, []).append(found)
    return [left[line].pop(0) if left.get(line) else line for line in chunk.new]


def _find(
    lines: Sequence[str], wanted: Sequence[str], at_end: bool, where: str, what: str, *, first: bool
) -> int:
    """Where `wanted` begins. Raises `ToolFailure` when it is nowhere, or in several places (unless `first`)."""
    for form in (str, str.rstrip, str.strip):
        given, there = [form(line) for line in wanted], [form(line) for line in lines]
        starts = range(len(there) - len(given) + 1)
        found = [start for start in starts if there[start : start + len(given)] == given]
        if at_end:
            found = [start for start in found if start + len(given) == len(there)]
        if len(found) > 1 and not first:
            raise ToolFailure(
                f"{where}: {what} stand in {len(found)} places. Give more lines around it, or a line to look"
                " behind after @@."
            )
        if found:
            return found[0]
    end = " at its end" if at_end else ""
    raise ToolFailure(
        f"{where}: {what} do not stand in the file{end}, begun with {wanted[0]!r}. Read it again."
    )


def _wrong(number: int, line: str, expected: str) -> ToolFailure:
    return ToolFailure(f"line {number} of the patch: expected {expected}, found {line[:80]!r}.")
