"""The `edit` tool: replaces text in a file, forgiving blanks and indentation; it never guesses between two places."""

import asyncio
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Final

from instar import event
from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import diff, match, place, seen, textfile
from instar.wire import Plain

SHOWN_PLACES: Final = 10
"""Line numbers that are listed when the text stands in several places."""
NEAR_LINES: Final = 2000
"""Lines that are compared to find what is near."""

PARAMETERS: Final[Plain] = {
    "type": "object",
    "properties": {
        "filePath": {"type": "string", "description": "The file to change"},
        "oldString": {
            "type": "string",
            "description": "The text to replace, exactly as it stands in the file",
        },
        "newString": {"type": "string", "description": "The text to put in its place"},
        "replaceAll": {
            "type": "boolean",
            "description": "Whether to replace every occurrence (default false: there must be exactly one)",
        },
    },
    "required": ["filePath", "oldString", "newString"],
}

_BOM: Final = "\ufeff"


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what changing this file needs; a person is shown the change."""
    path, old = place.locate(args["filePath"], ctx), args["oldString"]
    before = textfile.preview(path)
    try:
        after = changed(before, old, args["newString"], everywhere=bool(args.get("replaceAll")))
    except ToolFailure:
        after = before  # the call itself will say what is wrong
    change = diff.unified(place.shown(path, ctx), before, after)
    return place.asks("edit", path, ctx, {"filepath": str(path), "diff": change})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Change the file. Raises `ToolFailure`, the file untouched, when it is not clear what to replace."""
    path, old, new = place.locate(args["filePath"], ctx), args["oldString"], args["newString"]
    if old == new:
        raise ToolFailure("oldString and newString are the same: there is nothing to change.")
    textfile.encoded(new)
    async with place.alone(path, ctx):
        seen.check(path, ctx)
        stamp = seen.stamp(path)
        before = await asyncio.to_thread(_before, path, old)
        # In a thread: a text that is not there exactly is compared with all of a large file.
        after = await asyncio.to_thread(changed, before, old, new, everywhere=bool(args.get("replaceAll")))
        if seen.stamp(path) != stamp:
            raise ToolFailure(f"{path} was changed by another program just now; read it again.")
        await asyncio.to_thread(textfile.replace, path, after.encode(errors="surrogateescape"))
        seen.note(path, ctx, seen.stamp(path))
    await ctx.client.publish(event.make(event.FileEdited(file=str(path))))
    name = place.shown(path, ctx)
    return ToolResult("Edit applied successfully.", name, diff.counted(name, before, after))


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
    found = next((form for form in _forms(old) if form in body), None)
    if found is None:
        return mark + _forgiven(body, old, new, crlf=crlf, everywhere=everywhere)
    _one_place(_lines_of(body, found), everywhere)
    return mark + body.replace(found, _with_crlf(new) if crlf else new)


TOOL: Final = Tool(
    description=Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip(),
    parameters=PARAMETERS,
    execute=execute,
    permissions=permissions,
    permission="edit",
)


def _forgiven(body: str, old: str, new: str, *, crlf: bool, everywhere: bool) -> str:
    """`body` with the lines replaced that are `old` but for blanks; the line ends of the rest stay."""
    lines = body.split("\n")
    wanted = old.replace("\r\n", "\n").split("\n")
    whole = len(wanted) > 1 and not wanted[-1].strip()
    if whole:
        wanted.pop()
    found = match.places([line.removesuffix("\r") for line in lines], wanted)
    if not found:
        raise ToolFailure(f"Could not find oldString in the file. {_near(body, old)}")
    _one_place([place.first + 1 for place in found], everywhere and found[0].how == "blanks")
    text = new.replace("\r\n", "\n")
    text = text.removesuffix("\n") if whole else text
    if any(one.last >= other.first for one, other in pairwise(found)):
        raise ToolFailure("oldString stands in places that overlap; give more of the text around the one.")
    for place_ in reversed(found):
        fitted = place_.fitted(text).split("\n") if text or not whole else []
        ends = "\r" if crlf else ""
        # The file's last line has no line end of its own.
        last = place_.last == len(lines) - 1
        fitted = [line + ("" if last and at == len(fitted) - 1 else ends) for at, line in enumerate(fitted)]
        lines[place_.first : place_.last + 1] = fitted
    return "\n".join(lines)


def _one_place(lines: list[int], everywhere: bool) -> None:
    if len(lines) > 1 and not everywhere:
        raise ToolFailure(
            f"oldString stands in {len(lines)} places (lines {_listed(lines)}). "
            "Give more of the text around the one you mean, or set replaceAll."
        )


def _before(path: Path, old: str) -> str:
    """The file's text; bytes that are no UTF-8 are carried along."""
    if old:
        return textfile.whole(path).decode(errors="surrogateescape")
    if path.exists() or path.is_symlink():
        raise ToolFailure(
            f"{path} exists: an empty oldString only creates a new file. Give the text to replace."
        )
    return ""


def _forms(old: str) -> list[str]:
    return [old, _with_crlf(old), old.replace("\r\n", "\n")]


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
    wanted = [" ".join(line.split()) for line in old.strip().split("\n")]
    bare = [" ".join(line.split()) for line in lines]
    for index in range(len(bare) - len(wanted) + 1):
        if bare[index : index + len(wanted)] == wanted:
            return f"The same text stands at line {index + 1}, but indented otherwise; copy it exactly."
    close = get_close_matches(wanted[0], bare[:NEAR_LINES], n=1)
    if not close:
        return "Nothing in it is like its first line; read the file again."
    index = bare.index(close[0])
    return f"The nearest to its first line is line {index + 1}: {lines[index].strip()[:200]!r}"
