"""Output for a terminal: text as it streams, a line for each tool call, troubles in red."""

import time
from typing import Final

from rich.console import Console
from rich.text import Text

from instar.cli.line import money, tool_line
from instar.cli.plain import retry_text
from instar.cli.text import harmless, one_line
from instar.event import Retry
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
    error_text,
)

_PATIENCE: Final = 1.5
"""Seconds without news after which the person is told that something is awaited."""

_BACK: Final = "\r\x1b[2K"
"""Back to the start of the line, and clear it."""


class Terminal:
    """Shows a turn on a terminal.

    The line of a tool call that runs is replaced by that of its end when nothing was printed in between. It
    counts its seconds, and so does a line that stands while nothing else happens.
    """

    streams = True

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._shown: dict[str, str] = {}
        self._done: set[str] = set()
        self._open: str | None = None
        self._running: str | None = None
        self._called = (Text(), 0.0)
        self._announced: set[str] = set()
        self._waits = False
        self._news = time.monotonic()
        self._started = time.monotonic()
        self._tokens = 0
        self._cost = 0.0

    def delta(self, part: Part, text: str) -> None:
        """Print what was added to a text (plain) or to reasoning (dimmed)."""
        if self._open != part.id:
            self._end_line()
            self._open = part.id
        self._news = time.monotonic()
        clean = harmless(text)
        self._shown[part.id] = self._shown.get(part.id, "") + clean
        self._console.out(clean, style="dim" if isinstance(part, ReasoningPart) else None, end="")

    def part(self, part: Part) -> None:
        """Print what a part's change means to a person."""
        match part:
            case TextPart() | ReasoningPart():
                self._finish_text(part)
            case ToolPart() if part.id not in self._done and not isinstance(part.state, ToolPending):
                self._tool(part)
            case StepFinishPart(tokens=tokens, cost=cost):
                self._tokens += tokens.input + tokens.output + tokens.reasoning
                self._cost += cost

    def retry(self, status: Retry) -> None:
        """Print when a model call is tried again."""
        self._line(Text(retry_text(status), style="yellow"))

    def note(self, text: str) -> None:
        """Print what happened, dimmed."""
        self._line(Text(text, style="dim"))

    def error(self, error: MessageError) -> None:
        """Print why the turn failed, in red."""
        text = "aborted" if isinstance(error, MessageAbortedError) else error_text(error)
        self._line(Text(text, style="red"))

    def limit(self, text: str) -> None:
        """Print which limit stopped the turn, in red."""
        self._line(Text(text, style="red"))

    def tick(self) -> None:
        """Count the seconds of the tool call that runs, or of a wait."""
        if self._running is not None:
            self._rewrite(self._called[0], self._since())
        elif self._open is None and (seconds := time.monotonic() - self._news) >= _PATIENCE:
            self._waits = True
            self._rewrite(Text("… waiting", style="dim"), f" {seconds:.0f} s (Ctrl-C ends the turn)")

    def close(self, session_id: str) -> None:
        """Print what the turn took, and how to go on with its session."""
        used = f"{time.monotonic() - self._started:.1f} s, {self._tokens:,} tokens"
        price = f", {money(self._cost)}" if self._cost else ""
        self._line(Text(f"{used}{price}; go on: instar run -s {session_id}", style="dim"))

    def _finish_text(self, part: TextPart | ReasoningPart) -> None:
        if part.time is None or part.time.end is None or part.id in self._done:
            return
        self._done.add(part.id)
        shown, whole = self._shown.pop(part.id, ""), harmless(part.text)
        if whole.startswith(shown):
            rest = whole[len(shown) :]
            self._end_wait()
        else:
            # A plugin changed the text after it had streamed: what is stored is shown too.
            self._end_line()
            rest = whole
        self._open = part.id
        self._console.out(rest, end="")
        self._end_line()

    def _tool(self, part: ToolPart) -> None:
        line = tool_line(part)
        running = isinstance(part.state, ToolRunning)
        if running and part.id in self._announced and part.id != self._running:
            # One of several calls that run together: its line is not the last one, and is not printed again.
            return
        mark = "…" if running else "✓" if line.problem is None else "✗"
        color = "dim" if running else "green" if line.problem is None else "red"
        text = Text.assemble((f"{mark} ", color), (line.name, "bold"), f" {line.title}")
        if line.seconds is not None:
            text.append(f" {line.seconds:.1f} s", style="dim")
        if line.problem is not None:
            text.append(f" {line.problem}", style="red")
        if running:
            since = self._called[1] if part.id == self._running else time.monotonic()
            self._announced.add(part.id)
            self._called = (text, since)
        else:
            self._done.add(part.id)
        self._replace(part.id if running else None, part.id, text)

    def _replace(self, stays_open: str | None, part_id: str, text: Text) -> None:
        """Print a tool's line, over the one before it when that is of the same call."""
        if self._running == part_id:
            self._console.file.write(_BACK)
            self._running = None
        else:
            self._end_line()
        text = Text(" ").join(text.split()) if "\n" in text.plain else text
        self._running = stays_open
        if stays_open is None:
            self._console.print(text)
        else:
            self._rewrite(text, self._since())

    def _since(self) -> str:
        """How long the call whose line is the last one has been running; nothing for a short while."""
        seconds = time.monotonic() - self._called[1]
        return f" {seconds:.0f} s" if seconds >= _PATIENCE else ""

    def _rewrite(self, text: Text, seconds: str) -> None:
        """Print a line over the last one, short enough for one row; the cursor stays at its end."""
        room = max(1, self._console.width - 1 - len(seconds))
        shown = text.copy()
        shown.truncate(room, overflow="ellipsis")
        self._console.file.write(_BACK)
        self._console.print(shown.append(seconds, style="dim"), end="")
        self._console.file.flush()

    def _line(self, text: Text) -> None:
        self._end_line()
        text.plain = one_line(harmless(text.plain))
        self._console.print(text)

    def _end_wait(self) -> None:
        if self._waits:
            self._waits = False
            self._console.file.write(_BACK)

    def _end_line(self) -> None:
        self._end_wait()
        self._news = time.monotonic()
        if self._open is not None or self._running is not None:
            self._open = self._running = None
            self._console.file.write("\n")
            self._console.file.flush()
