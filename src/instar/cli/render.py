"""What a person is shown of a finished tool call below its line: a diff, a command's end, a list."""

import difflib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from rich.text import Text

from instar.cli.text import counted, harmless
from instar.message import ToolCompleted, ToolPart
from instar.wire.pattern import late_pattern

_DIFF_LINES: Final = 24
"""Lines of a diff that are shown; of a longer one the number of the others."""
_OUTPUT_LINES: Final = 6
"""Last lines of a command's output."""
_HITS: Final = 3
"""First lines of what a search found."""
_WORDS: Final = late_pattern(r"\w+|\s+|[^\w\s]")
_ALIKE: Final = 0.5
"""How much of a line must have stayed for its words to be compared."""
_TODO_MARKS: Final = {
    "completed": ("✓", "green"),
    "in_progress": ("▸", "bold"),
    "cancelled": ("✗", "dim strike"),
}


def details(part: ToolPart, *, in_words: bool = False) -> list[Text]:
    """Return the lines below a finished call's own line; none where it says all. `in_words`: without marks."""
    if not isinstance(part.state, ToolCompleted):
        return []
    match part.state.metadata:
        case {"diff": str(diff)} if diff.strip():
            return _folded(diff_lines(diff))
        case {"todos": [*todos]}:
            return [_todo(todo, in_words=in_words) for todo in todos if isinstance(todo, dict)]
        case {"exit": _, "output": str(output)}:
            return _command(output)
        case {"matches": int(number)}:
            return _hits(part.state.output, counted(number, "match", "matches"))
        case {"count": int(number)}:
            return _hits(part.state.output, counted(number, "file"))
    return []


def summary_of(part: ToolPart) -> str | None:
    """Return what a call changed of instar itself, as its tool says it in a sentence."""
    if isinstance(part.state, ToolCompleted) and isinstance(text := part.state.metadata.get("summary"), str):
        return text
    return None


def diff_lines(diff: str) -> Iterator[Text]:
    """Yield the lines of a unified diff in colours; of lines that were changed the words that differ stand out."""
    lines = [
        line
        for line in harmless(diff).splitlines()
        if not line.startswith(("--- ", "Index: ", "====", "\\", "diff --git ", "index "))
    ]
    if sum(line.startswith("+++ ") for line in lines) == 1:
        # The call's own line names the file.
        lines = [line for line in lines if not line.startswith("+++ ")]
    runs = [(kind, list(run)) for kind, run in groupby(lines, _kind)]
    at = 0
    while at < len(runs):
        kind, run = runs[at]
        at += 1
        if kind == "-" and at < len(runs) and runs[at][0] == "+":
            added = runs[at][1]
            at += 1
            pairs = [_changed(old, new) for old, new in zip(run, added, strict=False)]
            yield from (old for old, _ in pairs)
            yield from (Text(line, "red") for line in run[len(pairs) :])
            yield from (new for _, new in pairs)
            yield from (Text(line, "green") for line in added[len(pairs) :])
        else:
            style = {"-": "red", "+": "green", "@": "cyan", "f": "bold"}.get(kind, "")
            yield from (Text(line.removeprefix("+++ ") if kind == "f" else line, style) for line in run)


def _kind(line: str) -> str:
    return "f" if line.startswith("+++ ") else line[:1]


def _changed(old: str, new: str) -> tuple[Text, Text]:
    before, after = _WORDS.findall(old[1:]), _WORDS.findall(new[1:])
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    first, second = Text("-", "red"), Text("+", "green")
    alike = matcher.ratio() >= _ALIKE
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        more = " reverse" if alike and tag != "equal" else ""
        first.append("".join(before[start:end]), f"red{more}")
        second.append("".join(after[new_start:new_end]), f"green{more}")
    return first, second


def _folded(lines: Iterable[Text]) -> list[Text]:
    found = list(lines)
    if len(found) <= _DIFF_LINES:
        return found
    return [*found[:_DIFF_LINES], Text(f"… {counted(len(found) - _DIFF_LINES, 'more line')}", "dim")]


def _todo(todo: dict[str, Any], *, in_words: bool) -> Text:
    status = str(todo.get("status"))
    mark, style = _TODO_MARKS.get(status, ("·", ""))
    if in_words:
        mark = f"{status.replace('_', ' ')}:"
    return Text(f"{mark} {harmless(str(todo.get('content', '')))}", style)


def _command(output: str) -> list[Text]:
    lines = harmless(output).rstrip().splitlines()
    shown = [Text(line, "dim") for line in lines[-_OUTPUT_LINES:]]
    if len(lines) > len(shown):
        shown.insert(0, Text(f"… {counted(len(lines) - len(shown), 'line')} before", "dim"))
    return shown


def _hits(output: str, said: str) -> list[Text]:
    lines = [line for line in harmless(output).splitlines() if line.strip()]
    first = [line for line in lines if not line.startswith(("Found ", "No files", "("))][:_HITS]
    return [Text(said, "dim"), *(Text(line.strip(), "dim") for line in first)]
