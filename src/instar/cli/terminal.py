"""The view for a terminal: text as it streams, a line for each tool call, troubles in red."""

import time
from typing import Final

from rich.console import Console
from rich.text import Text

from instar.cli.output import TurnView, tool_line
from instar.cli.text import harmless, money, one_line
from instar.message import (
    MessageAbortedError,
    MessageError,
    Part,
    ReasoningPart,
    StepFinishPart,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
)

_PATIENCE: Final = 1.5
"""Seconds without output after which a line says that instar waits."""

_BACK: Final = "\r\x1b[2K"
"""Back to the start of the line, and clear it."""


class TerminalView(TurnView):
    """Shows a turn on a terminal.

    A running tool call has a line that counts seconds; the line of its end replaces it if nothing was printed in
    between. When nothing happens, a line counts the seconds of the wait.
    """

    streams = True

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._shown: dict[str, str] = {}
        self._finished: set[str] = set()
        self._open_part: str | None = None
        self._running_part: str | None = None
        self._tool_line = (Text(), 0.0)
        self._announced: set[str] = set()
        self._is_waiting = False
        self._last_output = time.monotonic()
        self._started = time.monotonic()
        self._tokens = 0
        self._cost = 0.0

    def delta(self, part: Part, text: str) -> None:
        """Print what was added to a text (plain) or to reasoning (dimmed)."""
        if self._open_part != part.id:
            self._end_line()
            self._open_part = part.id
        self._last_output = time.monotonic()
        clean = harmless(text)
        self._shown[part.id] = self._shown.get(part.id, "") + clean
        self._console.out(clean, style="dim" if isinstance(part, ReasoningPart) else None, end="")

    def part(self, part: Part) -> None:
        """Print what a part's change means to a person."""
        match part:
            case TextPart() | ReasoningPart():
                self._finish_text(part)
            case ToolPart() if part.id not in self._finished and not isinstance(part.state, ToolPending):
                self._tool(part)
            case StepFinishPart(tokens=tokens, cost=cost):
                self._tokens += tokens.input + tokens.output + tokens.reasoning
                self._cost += cost

    def note(self, text: str, style: str = "dim") -> None:
        """Print what happened."""
        self._end_line()
        self._console.print(Text(one_line(text), style=style))

    def error(self, error: MessageError) -> None:
        """Print why the turn failed. An abort is printed without its details: the person asked for it."""
        if isinstance(error, MessageAbortedError):
            self.note("aborted", "red")
        else:
            super().error(error)

    def tick(self) -> None:
        """Count the seconds of the tool call that runs, or of a wait."""
        if self._running_part is not None:
            self._rewrite(self._tool_line[0], self._since())
        elif self._open_part is None and (seconds := time.monotonic() - self._last_output) >= _PATIENCE:
            self._is_waiting = True
            self._rewrite(Text("… waiting", style="dim"), f" {seconds:.0f} s (Ctrl-C ends the turn)")

    def close(self, session_id: str) -> None:
        """Print what the turn took, and how to go on with its session."""
        used = f"{time.monotonic() - self._started:.1f} s, {self._tokens:,} tokens"
        price = f", {money(self._cost)}" if self._cost else ""
        self.note(f"{used}{price}; go on: instar run -s {session_id}")

    def _finish_text(self, part: TextPart | ReasoningPart) -> None:
        if part.time is None or part.time.end is None or part.id in self._finished:
            return
        self._finished.add(part.id)
        shown, whole = self._shown.pop(part.id, ""), harmless(part.text)
        if whole.startswith(shown):
            rest = whole[len(shown) :]
            self._end_wait()
        else:
            # A plugin changed the text after it was streamed: show the stored text too.
            self._end_line()
            rest = whole
        self._open_part = part.id
        self._console.out(rest, end="")
        self._end_line()

    def _tool(self, part: ToolPart) -> None:
        line = tool_line(part)
        running = isinstance(part.state, ToolRunning)
        if running and part.id in self._announced and part.id != self._running_part:
            # One of several calls that run together: its line is not the last one, do not print it again.
            return
        mark = "…" if running else "✓" if line.problem is None else "✗"
        color = "dim" if running else "green" if line.problem is None else "red"
        text = Text.assemble((f"{mark} ", color), (line.name, "bold"), f" {line.title}")
        if line.seconds is not None:
            text.append(f" {line.seconds:.1f} s", style="dim")
        if line.problem is not None:
            text.append(f" {line.problem}", style="red")
        if running:
            since = self._tool_line[1] if part.id == self._running_part else time.monotonic()
            self._announced.add(part.id)
            self._tool_line = (text, since)
        else:
            self._finished.add(part.id)
        self._replace(part.id if running else None, part.id, text)

    def _replace(self, stays_open: str | None, part_id: str, text: Text) -> None:
        """Print a tool's line, over the one before it when that is of the same call."""
        if self._running_part == part_id:
            self._console.file.write(_BACK)
            self._running_part = None
        else:
            self._end_line()
        text = Text(" ").join(text.split()) if "\n" in text.plain else text
        self._running_part = stays_open
        if stays_open is None:
            self._console.print(text)
        else:
            self._rewrite(text, self._since())

    def _since(self) -> str:
        """The seconds that the last line's call has been running; empty for the first ones."""
        seconds = time.monotonic() - self._tool_line[1]
        return f" {seconds:.0f} s" if seconds >= _PATIENCE else ""

    def _rewrite(self, text: Text, seconds: str) -> None:
        """Print a line over the last one, short enough for one row; the cursor stays at its end."""
        room = max(1, self._console.width - 1 - len(seconds))
        shown = text.copy()
        shown.truncate(room, overflow="ellipsis")
        self._console.file.write(_BACK)
        self._console.print(shown.append(seconds, style="dim"), end="")
        self._console.file.flush()

    def _end_wait(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._console.file.write(_BACK)

    def _end_line(self) -> None:
        self._end_wait()
        self._last_output = time.monotonic()
        if self._open_part is not None or self._running_part is not None:
            self._open_part = self._running_part = None
            self._console.file.write("\n")
            self._console.file.flush()
