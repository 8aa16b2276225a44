"""Text operations of the read and edit tools. Pure functions; new text is always taken literally."""

import difflib
import re

READ_LIMIT = 2000
"""Lines that a read returns when the model names no limit."""


class NoEdit(ValueError):
    """An edit that cannot be made; the text tells the model why and what to do."""


def window(text: str, offset: int = 1, limit: int = READ_LIMIT) -> str:
    """Return `limit` lines of `text` from line `offset` (counted from 1), and say what was left out."""
    if not text:
        return "(empty)"
    lines = text.split("\n")
    total = len(lines) - (1 if lines[-1] == "" else 0)
    start = max(offset, 1) - 1
    if start >= total:
        raise NoEdit(f"offset {offset} is past the end: there are {total} lines")
    end = start + max(limit, 1)
    if start == 0 and end >= total:
        return text
    shown = "\n".join(lines[start : min(end, total)])
    return f"{shown}\n\n(lines {start + 1} to {min(end, total)} of {total})"


def replace(text: str, old: str, new: str, *, everywhere: bool = False) -> tuple[str, int]:
    """Return `text` with `old` replaced by `new`, and how often; once unless `everywhere`.

    In a text whose lines end in CRLF, `old` and `new` may be written with LF. Raises `NoEdit`.
    """
    if old == new:
        raise NoEdit("oldString and newString are the same: nothing to change")
    if not old:
        raise NoEdit("oldString is empty: use the write tool to replace the whole file")
    if old not in text and "\r\n" in text:
        old, new = _crlf(old), _crlf(new)
    found = text.count(old)
    if found == 0:
        raise NoEdit("oldString was not found: read the file and copy the text exactly, spaces included")
    if found > 1 and not everywhere:
        raise NoEdit(f"oldString was found {found} times: give more lines around it, or set replaceAll")
    return text.replace(old, new, -1 if everywhere else 1), found if everywhere else 1


def diff(name: str, before: str, after: str) -> str:
    """Return the change as a unified diff."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
