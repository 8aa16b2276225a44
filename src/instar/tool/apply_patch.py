"""The `apply_patch` tool: changes several files by one patch, all of them or none.

A patch stands between ``*** Begin Patch`` and ``*** End Patch``. It holds any number of ``*** Add File: P`` (each line
with ``+``), ``*** Delete File: P`` and ``*** Update File: P`` (then perhaps ``*** Move to: Q``). The chunks of an
update begin with ``@@`` and perhaps a line to look behind. They hold lines with a blank, ``-`` or ``+`` in front;
``*** End of File`` says that a chunk stands at the end.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, parameters
from instar.wire import Plain

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_LAST: Final = "*** End of File"
_HEADS: Final = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}
_MOVE: Final = "*** Move to: "


class Chunk(msgspec.Struct):
    """Lines to find and what to put there; `behind` are lines that it stands after."""

    behind: list[str] = []
    old: list[str] = []
    new: list[str] = []
    at_end: bool = False


class FileChange(msgspec.Struct):
    """What the patch does to one file; `text` is that of a new one, `line` where in the patch it stands."""

    kind: Literal["add", "delete", "update"]
    path: str
    line: int
    move: str | None = None
    text: list[str] = []
    chunks: list[Chunk] = []


def parse(text: str) -> list[FileChange]:
    """Return what a patch does, file by file. Raises `ToolFailure` naming the line that is wrong."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise ToolFailure(
            f"A patch begins with {_BEGIN!r} and ends with {_END!r}, each on a line of its own."
        )
    changes: list[FileChange] = []
    for number, line in enumerate(lines[1:-1], 2):
        head = next((head for head in _HEADS if line.startswith(head)), None)
        if head is not None:
            path = line[len(head) :].strip()
            changes.append(FileChange(_HEADS[head], path, number))  # type: ignore[arg-type]
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
        replaced = lines[at : at + len(chunk.old)]
        done += [*lines[:at], *_kept(chunk, replaced)]
        lines = lines[at + len(chunk.old) :]
    whole = "\n".join([*done, *lines]) + ("\n" if ended and (done or lines) else "")
    return whole.replace("\n", "\r\n") if crlf else whole


def _take(change: FileChange, line: str, number: int) -> None:
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


def _take_update(change: FileChange, line: str, number: int) -> None:
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


def _checked(changes: list[FileChange]) -> list[FileChange]:
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


log = logging.getLogger("instar.tool")

PARAMETERS: Final[Plain] = parameters({"patchText": "The whole patch"})


class _Effect(msgspec.Struct, frozen=True):
    """What becomes of one path: its bytes `before` and `after` (None: no file)."""

    path: Path
    before: bytes | None
    after: bytes | None


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what the patch needs: `edit` for each path that it touches."""
    try:
        touched = _touched(parse(args["patchText"]), ctx)
    except ToolFailure:
        return []  # it touches nothing: the call itself will say what is wrong
    found: list[Ask] = []
    for path in touched:
        name = files.shown(path, ctx)
        found += files.asks(
            "edit", path, ctx, {"filepath": str(path), "diff": _about(args["patchText"], name)}
        )
    return found


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Apply it. Raises `ToolFailure` when any part does not fit; no file is changed then."""
    changes = parse(args["patchText"])
    async with AsyncExitStack() as stack:
        for path in sorted(_touched(changes, ctx), key=lambda path: str(files.real(path))):
            await stack.enter_async_context(files.locked(path, ctx))
        # In a thread, shielded: an abort must not leave some of the files changed.
        effects = await asyncio.to_thread(_effects, changes, ctx)
        await asyncio.shield(asyncio.to_thread(_write, effects))
        settled = await files.settle({effect.path: effect.after for effect in effects}, ctx)
    effects = [replace(effect, after=settled.now.get(effect.path)) for effect in effects]
    result = _result(effects, ctx)
    return replace(result, output=result.output + settled.note, metadata=result.metadata | settled.metadata)


TOOL: Final = Tool(description("apply_patch"), PARAMETERS, execute, permissions, permission="edit")


def _touched(changes: Sequence[FileChange], ctx: ToolContext) -> list[Path]:
    names = [name for change in changes for name in (change.path, change.move) if name]
    by_place: dict[Path, Path] = {}
    for path in (files.locate(name, ctx) for name in names):
        by_place.setdefault(files.real(path), path)
    return list(by_place.values())


def _about(text: str, name: str) -> str:
    """The patch as a person is shown it."""
    return (
        text
        if len(text) <= files.LARGEST_SHOWN
        else f"(a patch of {len(text)} characters that changes {name})"
    )


def _effects(changes: Sequence[FileChange], ctx: ToolContext) -> list[_Effect]:
    """What the patch does to each path, worked out in order. Raises `ToolFailure`; nothing is written."""
    first: dict[Path, bytes | None] = {}
    now: dict[Path, bytes | None] = {}

    def content(path: Path) -> bytes | None:
        if path not in now:
            files.check_unchanged(path, ctx)
            first[path] = now[path] = files.whole(path) if path.exists() or path.is_symlink() else None
        return now[path]

    for change in changes:
        path = files.locate(change.path, ctx)
        if change.kind == "add":
            if content(path) is not None:
                raise ToolFailure(f"{change.path} exists: a patch adds only new files. Use *** Update File:.")
            now[path] = files.encoded("".join(f"{line}\n" for line in change.text))
            continue
        before = content(path)
        if before is None:
            raise ToolFailure(files.missing(path))
        if change.kind == "delete":
            now[path] = None
            continue
        text = updated(change.path, before.decode(errors="surrogateescape"), change.chunks)
        target = files.locate(change.move, ctx) if change.move else path
        if target != path and content(target) is not None:
            raise ToolFailure(f"{change.move} exists: {change.path} is not moved over it.")
        now[path] = None
        now[target] = text.encode(errors="surrogateescape")
    return [_Effect(path, first[path], after) for path, after in now.items() if first[path] != after]


def _write(effects: Sequence[_Effect]) -> None:
    """Put every file in its new state. When one cannot be, those before it are put back. Raises `ToolFailure`."""
    done: list[tuple[_Effect, int | None]] = []
    try:
        # New and changed files first: nothing is deleted before what takes its place is there.
        for effect in sorted(effects, key=lambda effect: effect.after is None):
            mode = effect.path.stat().st_mode & 0o7777 if effect.before is not None else None
            done.append((effect, mode))
            if effect.after is None:
                effect.path.unlink()
            else:
                files.replace(effect.path, effect.after)
    except (ToolFailure, OSError) as error:
        for effect, mode in reversed(done):
            _restore(effect, mode)
        reason = error if isinstance(error, ToolFailure) else f"{error.strerror}: {error.filename}"
        raise ToolFailure(f"{reason}\nThe patch was not applied; every file is as it was.") from None


def _restore(effect: _Effect, mode: int | None) -> None:
    try:
        if effect.before is not None:
            files.replace(effect.path, effect.before)
            effect.path.chmod(mode or 0o644)
        elif effect.path.exists():
            effect.path.unlink()
    except (ToolFailure, OSError) as error:
        log.error("patch not taken back file=%s error=%s", effect.path, error)


def _result(effects: Sequence[_Effect], ctx: ToolContext) -> ToolResult:
    changes: list[dict[str, Any]] = []
    lines = []
    for effect in effects:
        name = files.shown(effect.path, ctx)
        before, after = (
            data.decode(errors="replace") if data else "" for data in (effect.before, effect.after)
        )
        letter = "A" if effect.before is None else "D" if effect.after is None else "M"
        lines.append(f"{letter} {name}")
        changes.append(files.counted(effect.path, name, before, after))
    text = "\n".join(["Success. Updated the following files:", *lines]) if lines else "Nothing changed."
    metadata = {
        "diff": "".join(file["diff"] for file in changes),
        "files": [file["filediff"] for file in changes],
    }
    return ToolResult(text, f"{len(effects)} file{'' if len(effects) == 1 else 's'}", metadata)
