"""Lines for people: a tool call, a time, a price. What comes from outside is made harmless for terminals."""

from typing import Any, Final

import msgspec

from instar.cli.text import harmless
from instar.message import ToolCompleted, ToolError, ToolPart, ToolPending, ToolRunning, ToolState

_LONGEST: Final = 120


def short(text: str, longest: int = _LONGEST) -> str:
    """Return the first line of `text`, harmless and at most `longest` characters long."""
    line = next((line for line in harmless(text).splitlines() if line.strip()), "").strip()
    return line if len(line) <= longest else line[: longest - 1] + "…"


class ToolLine(msgspec.Struct, frozen=True):
    """A tool call in a line: `seconds` and `problem` are None while it runs, `problem` when all went well."""

    name: str
    title: str
    seconds: float | None = None
    problem: str | None = None


def tool_line(part: ToolPart) -> ToolLine:
    """Return what a line says about a tool call."""
    name, title = short(part.tool), short(_title(part.state))
    match part.state:
        case ToolCompleted(time=time, metadata=metadata):
            problem = "aborted" if metadata.get("interrupted") else None
            return ToolLine(name, title, (time.end - time.start) / 1000, problem)
        case ToolError(time=time, error=error):
            return ToolLine(name, title, (time.end - time.start) / 1000, short(error))
        case _:
            return ToolLine(name, title)


def money(dollars: float) -> str:
    """Return a price in US dollars with as many digits as it needs: ``$1.20``, ``$0.0004``."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def _title(state: ToolState) -> str:
    if isinstance(state, ToolRunning | ToolCompleted) and state.title:
        return state.title
    return "" if isinstance(state, ToolPending) else _first_word(state.input)


def _first_word(given: dict[str, Any]) -> str:
    """The first argument that is a text: a command, a path, a pattern."""
    return next((value for value in given.values() if isinstance(value, str)), "")
