"""What a turn shows in a chat: printed above the input, as `TerminalView` prints it, the rest in rows above it."""

import time
from collections.abc import Callable
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from instar.approval.permissions import KEEP
from instar.cli.chat.state import ChatState
from instar.cli.person import KEPT
from instar.cli.render import diff_lines
from instar.cli.terminal import TerminalView
from instar.cli.text import counted, harmless, one_line, short
from instar.event import PermissionAsked, Question

_SAID: Final = 20
"""Lines of what a person said that are shown."""
_LONGEST: Final = 2_000
"""Characters of one of them."""


class ChatView(TerminalView):
    """Hands what is finished to `printed`, as text with ANSI sequences."""

    def __init__(self, printed: Callable[[str], None], state: ChatState, *, thinking: bool) -> None:
        super().__init__(thinking=thinking)
        self._printed, self._state = printed, state

    def begin(self, session_id: str) -> None:
        """Ctrl-Z is the input's."""

    def tick(self) -> None:
        """The rows are drawn with the input."""

    def pause(self) -> None:
        """A question is asked in the input."""

    def rows(self, *, busy: bool) -> list[Text]:
        """Return what grows, what runs, and while the session works what is waited for."""
        return [*self._growing(), *self._running(), *([self._status()] if busy else [])]

    def said(self, text: str) -> None:
        """Print what a person or a plugin said; of a long text the beginning, and how much more there is."""
        lines = harmless(text).splitlines() or [""]
        shown = lines if len(lines) <= _SAID else lines[: _SAID - 1]
        begun = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in shown]
        self._print("", *(Text(f"{' ' if at else '›'} {line}", "bold") for at, line in enumerate(begun)))
        if len(shown) < len(lines):
            self._print(Text(f"  … {counted(len(lines) - len(shown), 'more line')}", "dim"))

    def show(self, *what: RenderableType) -> None:
        """Print something else."""
        self._print(*what)

    def break_off(self) -> None:
        """Print what there is of a text that grows, and show no call any more as one that runs."""
        for blocks in self._texts.values():
            self._print_blocks(blocks.close())
        self._texts.clear()
        self._calls.clear()
        self._reasoning = ""

    def ask(self, asked: PermissionAsked) -> None:
        """Print what a call wants, and all that it would do: nobody must agree to what a short line leaves out."""
        wanted = ", ".join(short(pattern) for pattern in asked.patterns)
        what = f"{short(asked.permission)} wants: {wanted}"
        if asked.permission == KEEP:
            what = KEPT
        self._print("", Text(f"? {what}", "bold yellow"))
        if isinstance(diff := asked.metadata.get("diff"), str):
            self._print(*(Text("  ").append_text(line) for line in diff_lines(diff)))
            self._diffs.add(asked.tool.call_id if asked.tool else "")
        elif isinstance(command := asked.metadata.get("command"), str):
            self._print(*(Text(f"  | {line}") for line in harmless(command).splitlines()))
        if asked.always:
            always = ", ".join(short(pattern) for pattern in asked.always)
            self._print(Text(f"  always would remember: {always}", "dim"))

    def question(self, question: Question) -> None:
        """Print a question of the model's, with the answers that it offers."""
        self._print("", Text(f"? {one_line(question.question)}", "bold yellow"))
        for number, option in enumerate(question.options, 1):
            meaning = f" - {short(option.description)}" if option.description else ""
            self._print(Text(f"  {number}. {short(option.label)}{meaning}"))

    def _is_light(self) -> bool:
        return super()._is_light() if self._state.theme == "auto" else self._state.theme == "light"

    def _print(self, *what: RenderableType, last: bool = False) -> None:
        self._since = time.monotonic()
        self._console.no_color = self._state.no_color
        with self._console.capture() as captured:
            for one in what:
                self._console.print(one)
        self._printed(captured.get())
