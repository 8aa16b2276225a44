"""What a change to a file did, as a unified diff."""

from difflib import unified_diff
from typing import Final

from instar.wire import Plain

CONTEXT: Final = 3
"""Unchanged lines shown around a change."""
LIMIT: Final = 2000
"""Changed lines that are compared with each other; beyond, one side replaces the other as a whole."""

LARGEST: Final = 256 * 1024
"""Characters of a file whose change is shown."""


def unified(name: str, before: str, after: str) -> str:
    """Return the unified diff of a file's text, "" when nothing changed.

    The time is bounded: equal lines at both ends are set aside first, and a change of more than `LIMIT`
    lines is given as a whole, since comparing costs their product.
    """
    if before == after:
        return ""
    if max(len(before), len(after)) > LARGEST:
        return f"--- {name}\n+++ {name}\n@@ too large to show @@\n"
    old, new = _lines(before), _lines(after)
    start = _equal(old, new)
    end = _equal(old[start:][::-1], new[start:][::-1])
    lead, tail = max(0, start - CONTEXT), max(0, end - CONTEXT)
    old_part, new_part = old[lead : len(old) - tail], new[lead : len(new) - tail]
    if len(old_part) + len(new_part) > LIMIT:
        lines = [_header(lead, len(old_part), len(new_part)), *_all("-", old_part), *_all("+", new_part)]
    else:
        lines = [
            _moved(line, lead) for line in list(unified_diff(old_part, new_part, lineterm="", n=CONTEXT))[2:]
        ]
    if not lines:
        lines = ["@@ only the newline at the end differs @@"]
    return "\n".join([f"--- {name}", f"+++ {name}", *lines]) + "\n"


def counted(name: str, before: str, after: str) -> Plain:
    """Return the metadata of a change: its `diff`, and as `filediff` the lines added and deleted."""
    diff = unified(name, before, after)
    lines = diff.splitlines()[2:]
    added, deleted = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return {"diff": diff, "filediff": {"file": name, "additions": added, "deletions": deleted}}


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _equal(one: list[str], other: list[str]) -> int:
    """How many lines at the start are the same."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _all(sign: str, lines: list[str]) -> list[str]:
    return [sign + line for line in lines]


def _header(lead: int, old: int, new: int) -> str:
    return f"@@ -{lead + bool(old)},{old} +{lead + bool(new)},{new} @@"


def _moved(line: str, lead: int) -> str:
    """A hunk header counted from the part's start, counted from the file's."""
    if not line.startswith("@@ "):
        return line
    _, old, new, *_ = line.split(" ")
    return f"@@ {_shift(old, lead)} {_shift(new, lead)} @@"


def _shift(span: str, lead: int) -> str:
    sign, numbers = span[0], span[1:].split(",")
    return sign + ",".join([str(int(numbers[0]) + lead), *numbers[1:]])
