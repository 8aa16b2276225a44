"""The view for a terminal: what is finished is printed once, what goes on stands in rows below it."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

from instar.cli import streams
from instar.cli.area import Area
from instar.cli.door import WaitingLines
from instar.cli.output import TurnView, hook_name, tool_line
from instar.cli.render import details, summary_of
from instar.cli.text import counted, harmless, money, one_line, short
from instar.event import HookWaiting
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
from instar.plugin.waiting import NAMED_AFTER

if TYPE_CHECKING:
    from instar.cli.markdown import Block, Blocks

THEME: Final = Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"})
"""Colours of the terminal alone, and no background: they are read on light and dark."""
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TAIL: Final = 6
"""Rows of a text that grows, and of a command's output."""
_LIGHT: Final = ("7", "15")
"""Backgrounds of a light terminal in the last field of ``COLORFGBG``, which rxvt and others set."""
_CALLS: Final = 4
"""Calls that run together and have a row each."""


def has_light_background() -> bool:
    """Return whether the terminal says so."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT


class TerminalView(TurnView):
    """Shows a turn on a terminal.

    Markdown is printed block by block once a block is whole, a call once it has ended. Below that stand rows that are
    written over: the end of the block that grows, the calls that run, and what is waited for. With `thinking` the
    model's reasoning is printed whole, else a line of it.
    """

    streams = True
    interval = 0.1

    def __init__(self, *, thinking: bool = False) -> None:
        self._console = Console(highlight=False, theme=THEME)
        self._area = Area(self._console)
        self._thinking = thinking
        self._texts: dict[str, Blocks] = {}
        self._taken: dict[str, str] = {}
        self._finished: set[str] = set()
        self._calls: dict[str, tuple[ToolPart, float]] = {}
        self._answered: dict[str, float] = {}
        self._diffs: set[str] = set()
        """Calls whose diff a question has shown."""
        self._reasoning = ""
        self._last_is_item = False
        self._is_asked = False
        self._started = time.monotonic()
        self._since = self._started
        self._hooks: dict[tuple[str, int], float] = {}
        self._tokens = 0
        self._cost = 0.0

    def begin(self, session_id: str) -> None:
        """Be ready for Ctrl-Z, and for what is said of what is waited for."""
        WaitingLines.show = lambda text: self.note(f"instar: {text}", "yellow")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self._stop)

    def delta(self, part: Part, text: str) -> None:
        """Take what was added to a text or to reasoning."""
        clean = harmless(text)
        self._taken[part.id] = self._taken.get(part.id, "") + clean
        if isinstance(part, ReasoningPart):
            self._reasoning += clean
        else:
            blocks = self._blocks(part.id)
            self._print_blocks(blocks.feed(clean))

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

    def child(self, part: ToolPart, depth: int) -> None:
        """Print a finished call of a sub-agent, below the calls of who started it."""
        self._print(Padding(self._line(part), (0, 0, 0, 2 * depth)))

    def note(self, text: str, style: str = "dim") -> None:
        """Print what happened."""
        self._print(Text(one_line(text), style=style))

    def hook(self, waiting: HookWaiting) -> None:
        """Name in the rows the hook that is waited for."""
        key = (hook_name(waiting), waiting.since)
        if waiting.duration is None:
            self._hooks[key] = time.monotonic() - NAMED_AFTER
        else:
            self._hooks.pop(key, None)

    def evolved(self, text: str) -> None:
        """Print what instar changed of itself."""
        self._print(Text(f"✦ {one_line(text)}", style="bold magenta"))

    def error(self, error: MessageError) -> None:
        """Print why the turn failed. An abort is printed without its details: the person asked for it."""
        if isinstance(error, MessageAbortedError):
            self.note("aborted", "red")
        else:
            super().error(error)

    def answered(self, call_id: str, seconds: float) -> None:
        """A call waited so long for a person; that is no part of its time."""
        self._answered[call_id] = self._answered.get(call_id, 0.0) + seconds

    def pause(self) -> None:
        """Take the rows away: a question is asked below what was printed."""
        self._is_asked = True
        self._area.erase()
        self._console.file.flush()

    def resume(self) -> None:
        """Show the rows again."""
        self._is_asked = False
        self._since = time.monotonic()

    def tick(self) -> None:
        """Draw the rows anew."""
        if not self._is_asked:
            self._area.draw([*self._growing(), *self._running(), self._status()])

    def close(self, session_id: str) -> None:
        """Print what the turn took, and how to go on with its session."""
        used = f"{time.monotonic() - self._started:.1f} s, {self._tokens:,} tokens"
        price = f", {money(self._cost)}" if self._cost else ""
        self._print(Text(f"{used}{price}; go on: instar run -s {session_id}", style="dim"), last=True)

    def _stop(self) -> None:
        """Leave the terminal to the shell without a trace; drawn again once the process goes on."""
        self._area.erase()
        streams.finish()
        os.kill(os.getpid(), signal.SIGSTOP)

    # -- what is printed -----------------------------------------------------------------------------

    def _print(self, *what: RenderableType, last: bool = False) -> None:
        self._area.erase()
        for one in what:
            self._console.print(one)
        self._since = time.monotonic()
        if last:
            self._console.file.flush()
        else:
            self.tick()

    def _is_light(self) -> bool:
        return has_light_background()

    def _blocks(self, part_id: str) -> "Blocks":
        # Start-up time: 60 ms, and only a text needs them.
        from instar.cli.markdown import Blocks

        return self._texts.setdefault(part_id, Blocks())

    def _print_blocks(self, blocks: "list[Block]") -> None:
        from instar.cli.markdown import rendered

        found: list[RenderableType] = []
        for block in blocks:
            if not (block.is_item and self._last_is_item):
                found.append("")
            self._last_is_item = block.is_item
            found.append(rendered(block, light=self._is_light()))
        if found:
            self._print(*found)

    def _finish_text(self, part: TextPart | ReasoningPart) -> None:
        if part.time is None or part.time.end is None or part.id in self._finished:
            return
        self._finished.add(part.id)
        taken, whole = self._taken.pop(part.id, ""), harmless(part.text)
        if isinstance(part, ReasoningPart):
            self._reasoning = ""
            if whole.strip():
                self._print_reasoning(whole, (part.time.end - part.time.start) / 1000)
            return
        blocks = self._blocks(part.id)
        del self._texts[part.id]
        if whole.startswith(taken):
            found = blocks.feed(whole[len(taken) :])
            self._print_blocks([*found, *blocks.close()])
        else:
            # A plugin changed the text after it was streamed: show the stored text too.
            self._print_blocks(blocks.close())
            blocks.rest = whole
            self._print_blocks(blocks.close())
        self._last_is_item = False

    def _print_reasoning(self, text: str, seconds: float) -> None:
        if self._thinking:
            self._print("", Text(text.strip(), style="dim italic"))
        else:
            head = f"thought {seconds:.1f} s: "
            room = max(20, min(72, self._console.width - len(head)))
            self._print(Text(head + short(text, room), style="dim italic"))

    def _tool(self, part: ToolPart) -> None:
        if isinstance(part.state, ToolRunning):
            _, since = self._calls.get(part.id, (part, time.monotonic()))
            self._calls[part.id] = (part, since)
            return
        self._finished.add(part.id)
        self._calls.pop(part.id, None)
        shown = [] if part.call_id in self._diffs else details(part)
        below = [Padding(line, (0, 0, 0, 4)) for line in shown]
        self._print(self._line(part), *below)
        if summary := summary_of(part):
            self.evolved(summary)

    def _line(self, part: ToolPart) -> Text:
        line = tool_line(part)
        mark, color = ("✓", "green") if line.problem is None else ("✗", "red")
        text = Text.assemble((f"{mark} ", color), (line.name, "bold"), f" {one_line(line.title)}")
        seconds = max(0.0, (line.seconds or 0.0) - self._answered.get(part.call_id, 0.0))
        text.append(f" {seconds:.1f} s", style="dim")
        if line.problem is not None:
            text.append(f" {line.problem}", style="red")
        return text

    # -- what stands below ---------------------------------------------------------------------------

    def _growing(self) -> Iterator[Text]:
        for blocks in self._texts.values():
            yield from (Text(line) for line in blocks.rest.rstrip("\n").splitlines()[-_TAIL:])
        if self._reasoning:
            yield Text(short(self._reasoning.rstrip().rpartition("\n")[2] or self._reasoning), "dim italic")

    def _running(self) -> Iterator[Text]:
        calls = list(self._calls.values())
        for part, since in calls[:_CALLS]:
            line, seconds = tool_line(part), time.monotonic() - since - self._answered.get(part.call_id, 0.0)
            text = Text.assemble(("… ", "dim"), (line.name, "bold"), f" {one_line(line.title)}")
            yield text.append(f" {int(seconds)} s" if seconds >= 1 else "", style="dim")
            output = getattr(part.state, "metadata", None) or {}
            if len(calls) == 1 and isinstance(output.get("output"), str):
                lines = harmless(output["output"]).rstrip().splitlines()[-_TAIL:]
                yield from (Text(f"    {one}", "dim") for one in lines)
        if len(calls) > _CALLS:
            yield Text(f"… {counted(len(calls) - _CALLS, 'more call')}", "dim")

    def _status(self) -> Text:
        now = time.monotonic()
        what = "works" if self._calls else "answers" if self._texts else "thinks"
        since = self._since
        if self._hooks:
            (what, _), since = next(iter(self._hooks.items()))
        used = f" · {self._tokens:,} tokens" if self._tokens else ""
        price = f" · {money(self._cost)}" if self._cost else ""
        text = (
            f"{_SPINNER[int(now * 10) % len(_SPINNER)]} {what} {now - since:.0f} s{used}{price} · Ctrl-C ends"
        )
        return Text(text, style="dim")
