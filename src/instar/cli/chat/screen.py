"""The rows at the bottom of the terminal: what lives of the conversation, the input, and a line of facts."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    Dimension,
    DynamicContainer,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.text import Text

from instar.cli.chat.picker import Picked, Picker
from instar.cli.chat.state import ChatState

T = TypeVar("T")

_FRAME: Final = 0.03
"""Seconds between two prints: what comes meanwhile is printed with it."""
_TICK: Final = 0.1
"""Seconds between two drawings of rows that count the time."""
_LONG: Final = 6
"""Lines of a paste that are shown as they are; a longer one is folded."""
_STYLE: Final = Style.from_dict({"bottom": "dim noreverse", "prompt": "bold"})

Words = Callable[[str], Awaitable[Iterable[tuple[str, str]]]]
"""The words that complete a beginning, with their meanings."""


class Screen:
    """An input below a terminal's scrollback.

    `submit` gets each text that the person sends, `rows` and `facts` return what stands above and below the input,
    `words` what completes a word, `waiting` takes back a text that is not sent yet, `escape` is called for Esc where
    there is none, with what stands in the input, and `interrupt` for Ctrl-C with an empty input.
    """

    def __init__(
        self,
        *,
        submit: Callable[[str], None],
        rows: Callable[[], Sequence[Text]],
        facts: Callable[[int], str],
        prompt: Callable[[], str],
        words: Words,
        waiting: Callable[[], str | None],
        escape: Callable[[str], None],
        interrupt: Callable[[], None],
        history: Path | None,
        state: ChatState,
    ) -> None:
        self._submit, self._rows, self._facts, self._prompt = submit, rows, facts, prompt
        self._waits, self._escape, self._interrupt = waiting, escape, interrupt
        self._state = state
        self._pasted: dict[str, str] = {}
        self._picker: Picker[Any] | None = None
        self._waiting = io.StringIO()
        self._wanted = asyncio.Event()
        self._drawing = Console(file=io.StringIO(), force_terminal=True, highlight=False)
        self.buffer = Buffer(
            multiline=True,
            history=InMemoryHistory() if history is None else FileHistory(str(history)),
            completer=_Words(words),
            complete_while_typing=True,
            tempfile_suffix=".md",
        )
        terminal = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        # Over a slow line the terminal's answer would be taken for what was typed.
        terminal.enable_cpr = False
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._global_keys(),
            style=_STYLE,
            erase_when_done=True,
            output=terminal,
            color_depth=lambda: ColorDepth.DEPTH_1_BIT if state.no_color else None,
        )
        # A lone Esc is known sooner than by the default of more than a second.
        self.app.ttimeoutlen = self.app.timeoutlen = 0.05

    async def run(self) -> None:
        """Show the input until the person leaves."""
        printing = asyncio.create_task(self._printer())
        try:
            await self.app.run_async()
        finally:
            printing.cancel()
            await asyncio.gather(printing, return_exceptions=True)
            self.app.output.write_raw(self._taken())
            self.app.output.flush()

    def leave(self) -> None:
        """End `run`."""
        if self.app.is_running:
            self.app.exit()

    def print(self, text: str) -> None:
        """Print above the input, soon."""
        self._waiting.write(text)
        self._wanted.set()

    def take_back(self, text: str) -> None:
        """Put a text into the input again, before what stands there."""
        self.buffer.text = "\n".join(filter(None, (text, self.buffer.text)))
        self.buffer.cursor_position = len(text)

    async def pick(self, picker: Picker[T]) -> Picked[T] | None:
        """Show a list in place of the input until the person picks or leaves; another list takes its place."""
        if self._picker:
            self._picker.leave()
        self._picker = picker
        picker.closed = self._picked
        self.app.layout.focus(picker.window)
        self.app.invalidate()
        return await picker.answer

    def _picked(self) -> None:
        self._picker = None
        self.app.layout.focus(self.buffer)
        self.app.invalidate()

    async def _printer(self) -> None:
        lived = False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._wanted.wait()
            if not self._wanted.is_set():
                lives = bool(self._rows())
                # Once more when nothing goes on any longer; at rest nothing is drawn.
                if lives or lived:
                    self.app.invalidate()
                lived = lives
                continue
            async with in_terminal():
                self.app.output.write_raw(self._taken())
                self.app.output.flush()
            # What goes on may have ended before it was seen to live.
            lived = True
            await asyncio.sleep(_FRAME)

    def _taken(self) -> str:
        text = self._waiting.getvalue().replace("\n", "\r\n")
        self._waiting = io.StringIO()
        self._wanted.clear()
        return text

    # -- what is shown -------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        above = FormattedTextControl(self._above)
        prompt = FormattedTextControl(lambda: [("class:prompt", self._now(Picker.head, self._prompt))])
        facts = FormattedTextControl(lambda: [("class:bottom", self._now(Picker.hints, self._said))])
        typed = Window(
            BufferControl(self.buffer, key_bindings=self._keys()),
            height=Dimension(min=1, max=10),
            wrap_lines=True,
            dont_extend_height=True,
        )
        body = HSplit(
            [
                Window(above, dont_extend_height=True, wrap_lines=False),
                VSplit(
                    [
                        Window(prompt, dont_extend_width=True, dont_extend_height=True),
                        DynamicContainer(lambda: self._picker.window if self._picker else typed),
                    ]
                ),
                Window(facts, height=1, dont_extend_height=True),
            ]
        )
        menu = Float(xcursor=True, ycursor=True, content=CompletionsMenu(max_height=8))
        return Layout(FloatContainer(body, [menu]))

    def _now(self, picking: Callable[[Picker[Any]], str], otherwise: Callable[[], str]) -> str:
        return picking(self._picker) if self._picker else otherwise()

    def _said(self) -> str:
        return self._facts(self.app.output.get_size().columns)

    def _above(self) -> StyleAndTextTuples:
        rows, columns = self.app.output.get_size()
        self._drawing.width = columns
        self._drawing.no_color = self._state.no_color
        shown = list(self._rows())
        if self._picker:
            shown += self._picker.rows(columns - 1, rows - len(shown) - 3)
        with self._drawing.capture() as captured:
            for row in shown:
                row.truncate(max(1, self._drawing.width - 1), overflow="ellipsis")
                self._drawing.print(row)
        return to_formatted_text(ANSI(captured.get().rstrip("\n")))

    # -- keys ----------------------------------------------------------------------------------------

    def _global_keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("c-z")(lambda event: self.app.suspend_to_background())
        return keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        bound: tuple[tuple[tuple[Keys | str, ...], Callable[[KeyPressEvent], object]], ...] = (
            (("enter",), lambda event: self._send()),
            (("escape", "enter"), lambda event: self.buffer.insert_text("\n")),
            (("c-j",), lambda event: self._send()),
            (("escape",), lambda event: self._escaped()),
            (("c-c",), lambda event: self.buffer.reset() if self.buffer.text else self._interrupt()),
            (("c-d",), lambda event: None if self.buffer.text else self.leave()),
            (("up",), lambda event: self._up()),
            (("c-g",), lambda event: self._edit()),
            ((Keys.BracketedPaste,), lambda event: self._paste(event.data)),
        )
        for names, handler in bound:
            keys.add(*names)(handler)
        return keys

    def _send(self) -> None:
        if self.buffer.document.current_line_before_cursor.endswith("\\"):
            self.buffer.delete_before_cursor()
            self.buffer.insert_text("\n")
            return
        text = self._unfolded(self.buffer.text)
        self.buffer.reset(append_to_history=bool(text.strip()))
        self._submit(text)

    def _escaped(self) -> None:
        if self.buffer.complete_state:
            self.buffer.cancel_completion()
        elif not self._taken_back():
            self._escape(self.buffer.text)

    def _up(self) -> None:
        if self.buffer.text or not self._taken_back():
            self.buffer.auto_up()

    def _taken_back(self) -> bool:
        text = self._waits()
        if text is not None:
            self.take_back(text)
        return text is not None

    def _edit(self) -> None:
        self.buffer.text = self._unfolded(self.buffer.text)
        self.buffer.open_in_editor()

    def _paste(self, data: str) -> None:
        self.buffer.insert_text(self._folded(data.replace("\r\n", "\n").replace("\r", "\n")))

    def _folded(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= _LONG:
            return text
        mark = f"[pasted {lines} lines, {len(self._pasted) + 1}]"
        self._pasted[mark] = text
        return mark

    def _unfolded(self, text: str) -> str:
        for mark, pasted in self._pasted.items():
            text = text.replace(mark, pasted)
        return text


class _Words(Completer):
    """Completes the word before the cursor if it begins with ``@``, or with ``/`` as the first of the text."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Only `get_completions_async` is asked."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what the word may become."""
        before = document.text_before_cursor
        word = "" if before[-1:].isspace() else (before.split() or [""])[-1]
        if word.startswith("@") or (before.startswith("/") and word == before):
            for text, meaning in await self._words(word):
                yield Completion(text + " ", -len(word), display=text, display_meta=meaning)
