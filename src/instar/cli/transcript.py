"""A session as Markdown, for a person to read or to keep."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from instar.cli.output import tool_line
from instar.cli.text import harmless, local_time, money, one_line, short
from instar.message import (
    Assistant,
    FilePart,
    Part,
    Session,
    TextPart,
    ToolCompleted,
    ToolPart,
    WithParts,
    error_text,
)
from instar.wire.pattern import late_pattern

_FENCE: Final = late_pattern(r"^\s*(`{3,})", re.MULTILINE)
_NOT_IN_A_NAME: Final = late_pattern(r"[^\w.-]+")


def file_name(session: Session) -> str:
    """Return a name for the file: the session's title, or its id before it has one."""
    named = not session.title.startswith("New session - ")
    title = _NOT_IN_A_NAME.sub("-", short(session.title, 60)).strip("-.") if named else ""
    return f"{title or session.id}.md"


def markdown_of(session: Session, messages: Sequence[WithParts]) -> str:
    """Return what was said and done in a session; reasoning and a failed call's details are left out."""
    tokens = session.tokens.input + session.tokens.output + session.tokens.reasoning
    head = [
        f"# {one_line(session.title)}",
        f"{session.id}, {local_time(session.time.created)}, {_code(session.directory)}, "
        f"{tokens:,} tokens, {money(session.cost)}",
    ]
    return "\n\n".join([*head, *(text for message in messages for text in _message(message))]) + "\n"


def _message(message: WithParts) -> Iterator[str]:
    info = message.info
    by = f"{info.agent} ({info.provider_id}/{info.model_id})" if isinstance(info, Assistant) else "You"
    shown = [text for part in message.parts for text in _part(part)]
    if isinstance(info, Assistant) and info.error is not None:
        shown.append(f"**Failed:** {one_line(error_text(info.error))}")
    if shown:
        yield f"## {by}"
        yield from shown


def _part(part: Part) -> Iterator[str]:
    match part:
        case TextPart(ignored=True) | TextPart(synthetic=True):
            return
        case TextPart(text=text) if text.strip():
            yield harmless(text).strip()
        case FilePart():
            yield f"File: {_code(part.filename or short(part.url))}"
        case ToolPart(state=state):
            line = tool_line(part)
            title = f" {_code(line.title)}" if line.title else ""
            yield f"**{line.name}**{title}" + (f": {line.problem}" if line.problem else "")
            if isinstance(state, ToolCompleted):
                match state.metadata:
                    case {"diff": str(diff)} if diff.strip():
                        yield _fenced(diff, "diff")
                    case {"exit": _, "output": str(output)} if output.strip():
                        yield _fenced(output, "text")


def _code(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{one_line(text)}{ticks}"


def _fenced(text: str, language: str) -> str:
    """Return a block of code; its fence is longer than any in it."""
    clean = harmless(text).rstrip("\n")
    fence = "`" * max([3, *(len(one) + 1 for one in _FENCE.findall(clean))])
    return f"{fence}{language}\n{clean}\n{fence}"
