"""Output for pipes: the answer's text alone on stdout, or one JSON object a line; the rest on stderr."""

import time
from typing import Any

import click

from instar import wire
from instar.cli.line import tool_line
from instar.cli.text import harmless, one_line
from instar.event import Retry
from instar.message import (
    MessageError,
    Part,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolPart,
    error_text,
    part_to_plain,
)


class Plain:
    """The answer's text on stdout, tool calls and troubles as short lines on stderr."""

    streams = False

    def delta(self, part: Part, text: str) -> None:
        """Wait for the whole part."""

    def part(self, part: Part) -> None:
        """Print an answer's text, or a tool call's line."""
        if isinstance(part, TextPart) and part.text and not part.ignored:
            click.echo(part.text, color=True)
        elif isinstance(part, ToolPart):
            line = tool_line(part)
            mark = "+" if line.problem is None else "!"
            seconds = f"({line.seconds or 0:.1f} s)"
            _say(" ".join(word for word in (mark, line.name, line.title, seconds, line.problem) if word))

    def retry(self, status: Retry) -> None:
        """Say when a model call is tried again."""
        _say(f"instar: {retry_text(status)}")

    def note(self, text: str) -> None:
        """Say what happened."""
        _say(f"instar: {text}")

    def error(self, error: MessageError) -> None:
        """Say why the turn failed."""
        _say(f"instar: {error_text(error)}")

    def limit(self, text: str) -> None:
        """Say which limit stopped the turn."""
        _say(f"instar: {text}")

    def tick(self) -> None:
        """Say nothing: a pipe has no line that could be written over."""


_KINDS: dict[type[Any], str] = {
    StepStartPart: "step_start",
    TextPart: "text",
    ToolPart: "tool_use",
    StepFinishPart: "step_finish",
}


class JsonLines(Plain):
    """One JSON object a line, as ``opencode run --format json`` prints them; notes stay on stderr."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._begun = ""

    def part(self, part: Part) -> None:
        """Print a whole part; a step's beginning once, though it is published again when its snapshot is there."""
        kind = _KINDS.get(type(part))
        if isinstance(part, StepStartPart):
            if part.id == self._begun:
                return
            self._begun = part.id
        if kind is not None:
            self._print(kind, part=part_to_plain(part))

    def error(self, error: MessageError) -> None:
        """Print the error of a turn."""
        self._print("error", error=wire.to_plain(error))

    def limit(self, text: str) -> None:
        """Print a limit as an error of our own name."""
        self._print("error", error={"name": "LimitReached", "data": {"message": text}})

    def _print(self, kind: str, **rest: Any) -> None:
        head = {"type": kind, "timestamp": time.time_ns() // 1_000_000, "sessionID": self._session_id}
        click.echo(wire.encode({**head, **rest}))


def retry_text(status: Retry) -> str:
    """Return a sentence about a model call that failed and is tried again."""
    # Start-up time: a call that is tried again has brought the room along.
    from instar.step import RETRIES

    seconds = max(0.0, status.next / 1000 - time.time())
    return f"{status.message}; trying again in {seconds:.0f} s (attempt {status.attempt} of {RETRIES})"


def _say(text: str) -> None:
    click.echo(one_line(harmless(text)), err=True)
