"""Views of a turn: `TurnView` for pipes, `JsonView` for programs; `terminal.py` has the one for a terminal."""

import time
from typing import Any

import click
import msgspec

from instar import wire
from instar.cli.text import echo, note, short
from instar.event import HookWaiting, Retry
from instar.message import (
    MessageError,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    error_text,
    part_to_plain,
)


class ToolLine(msgspec.Struct, frozen=True):
    """A tool call in a line: `seconds` and `problem` are None while it runs, `problem` when all went well."""

    name: str
    title: str
    seconds: float | None = None
    problem: str | None = None


def tool_line(part: ToolPart) -> ToolLine:
    """Return what a line says about a tool call; its title is else the first argument that is a text."""
    state = part.state
    title = getattr(state, "title", None)
    if not title and not isinstance(state, ToolPending):
        title = next((value for value in state.input.values() if isinstance(value, str)), "")
    if part.tool == "glob" and not isinstance(state, ToolPending):
        title = f"{state.input.get('pattern', '')} in {title}".removesuffix(" in .")
    name, title = short(part.tool), short(title or "")
    match state:
        case ToolCompleted(time=span, metadata=metadata):
            code = metadata.get("exit")
            problem = f"exit code {code}" if code else None
            problem = "aborted" if metadata.get("interrupted") else problem
            return ToolLine(name, title, (span.end - span.start) / 1000, problem)
        case ToolError(time=span, error=error):
            return ToolLine(name, title, (span.end - span.start) / 1000, short(error))
        case _:
            return ToolLine(name, title)


def retry_text(status: Retry) -> str:
    """Return a sentence about a model call that failed and is tried again."""
    # Start-up time: a call that is tried again has brought the room along.
    from instar.turn.step import RETRIES

    seconds = max(0.0, status.next / 1000 - time.time())
    # In the retry mode `persistent` there is no last one.
    most = f" of {RETRIES}" if status.attempt <= RETRIES else ""
    return f"{status.message}; trying again in {seconds:.0f} s (attempt {status.attempt}{most})"


def hook_name(waiting: HookWaiting) -> str:
    """Return what a person is told of a hook: which one, and for what."""
    return f"hook {short(waiting.name, 40)} ({waiting.hook})"


class TurnView:
    """Shows a turn in a pipe: the answer's text on stdout, tool calls and troubles as short lines on stderr."""

    streams = False
    """Whether parts are wanted as they grow; else a part is handed over once, whole, and never taken back."""
    interval = 1.0
    """Seconds between two calls of `tick`."""

    def begin(self, session_id: str) -> None:
        """Learn which session is shown."""

    def delta(self, part: Part, text: str) -> None:
        """Show what was added to a text or reasoning part."""

    def part(self, part: Part) -> None:
        """Show a part: each change of it when the view streams, else the whole one."""
        if isinstance(part, TextPart) and part.text and not part.ignored:
            click.echo(part.text, color=True)
        elif isinstance(part, ToolPart):
            line = tool_line(part)
            mark = "+" if line.problem is None else "!"
            words = (mark, line.name, line.title, f"({line.seconds or 0:.1f} s)", line.problem)
            echo(" ".join(word for word in words if word), err=True)

    def child(self, part: ToolPart, depth: int) -> None:
        """Show a finished call of a sub-agent, `depth` of them below the session."""

    def note(self, text: str, style: str = "dim") -> None:
        """Show something else that happened; `style` is for a terminal."""
        note(text)

    def hook(self, waiting: HookWaiting) -> None:
        """Show that a hook is waited for, or no longer."""
        if waiting.duration is None:
            self.note(f"waiting for the {hook_name(waiting)}")

    def evolved(self, text: str) -> None:
        """Show what instar changed of itself."""
        self.note(text)

    def error(self, error: MessageError) -> None:
        """Show that the turn failed."""
        self.note(error_text(error), "red")

    def limit(self, text: str) -> None:
        """Show that a limit stopped the turn."""
        self.note(text, "red")

    def tick(self) -> None:
        """Show that time goes by; called each `interval` while no question waits for the person."""

    def answered(self, call_id: str, seconds: float) -> None:
        """Learn how long a call waited for the person."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    def resume(self) -> None:
        """Go on after a question."""

    def close(self, session_id: str) -> None:
        """Show what the turn took."""


class PlainView(TurnView):
    """For a screen reader or a terminal that can do nothing: whole lines, no colours, no marks, nothing rewritten."""

    def part(self, part: Part) -> None:
        """Show a whole part; of a call also what it did."""
        super().part(part)
        if isinstance(part, ToolPart):
            # Start-up time: rich costs 50 ms.
            from instar.cli.render import details, summary_of

            for line in details(part, in_words=True):
                echo(f"    {line.plain}", err=True)
            if summary := summary_of(part):
                self.evolved(summary)

    def child(self, part: ToolPart, depth: int) -> None:
        """Show a finished call of a sub-agent."""
        echo("sub-agent: " * depth, nl=False, err=True)
        super().part(part)

    def close(self, session_id: str) -> None:
        """Say how to go on with the session."""
        self.note(f"go on: instar run -s {session_id}")


class JsonView(TurnView):
    """One JSON object a line, as ``opencode run --format json`` prints them; notes stay on stderr."""

    _KINDS: dict[type[Any], str] = {  # noqa: RUF012 - never changed
        StepStartPart: "step_start",
        TextPart: "text",
        ToolPart: "tool_use",
        StepFinishPart: "step_finish",
    }

    def __init__(self, *, thinking: bool = False) -> None:
        self._kinds = self._KINDS | {ReasoningPart: "reasoning"} if thinking else self._KINDS
        self._session_id = self._step_id = ""

    def begin(self, session_id: str) -> None:
        """Learn the session that each line names."""
        self._session_id = session_id

    def part(self, part: Part) -> None:
        """Print a whole part; a step's start once: it is published again with its snapshot."""
        if isinstance(part, StepStartPart):
            if part.id == self._step_id:
                return
            self._step_id = part.id
        if kind := self._kinds.get(type(part)):
            self._print(kind, part=part_to_plain(part))

    def error(self, error: MessageError) -> None:
        """Print the error of a turn."""
        self._print("error", error=wire.to_plain(error))

    def limit(self, text: str) -> None:
        """Print a limit as an error of our own name."""
        self._print("error", error={"name": "LimitReached", "data": {"message": text}})

    def _print(self, kind: str, **rest: Any) -> None:
        head = {"type": kind, "timestamp": time.time_ns() // 1_000_000, "sessionID": self._session_id}
        echo(wire.encode({**head, **rest}))
