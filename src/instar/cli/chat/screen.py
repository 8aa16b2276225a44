"""The rows at the bottom of the terminal: what lives of the conversation, the input, and a line of facts."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from prompt_toolkit.application import Application
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
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.text import Text

from instar.cli import streams
from instar.cli.chat.picker import Picked, Picker

T = TypeVar("T")

_FRAME: Final = 0.03
"""Seconds between two prints: what comes meanwhile is printed with it."""
_TICK: Final = 0.1
"""Seconds between two drawings of rows that count the time."""
_LONG: Final = 6
"""Lines of a paste that are shown as they are; a longer one is folded."""
_STYLE: Final = Style.from_dict({"bottom": "ansibrightblack noreverse", "prompt": "bold"})

Words = Callable[[str], Awaitable[Iterable[tuple[str, str]]]]
"""The words that complete a beginning, with their meanings."""


class Screen:
    """An input below a terminal's scrollback.

    `submit` gets each text that the person sends, `rows` and `facts` return what stands above and below the input,
    `words` what completes a word, `escape` is called for Esc and `interrupt` for Ctrl-C with an empty input.
    """

    def __init__(
        self,
        *,
        submit: Callable[[str], None],
        rows: Callable[[], Sequence[Text]],
        facts: Callable[[int], str],
        prompt: Callable[[], str],
        words: Words,
        escape: Callable[[], None],
        interrupt: Callable[[], None],
        history: Path | None,
    ) -> None:
        self._submit, self._rows, self._facts, self._prompt = submit, rows, facts, prompt
        self._escape, self._interrupt = escape, interrupt
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
        self._output = cast("_Output", _Output.from_pty(sys.stdout, term=os.environ.get("TERM")))
        # Over a slow line the terminal's answer would be taken for what was typed.
        self._output.enable_cpr = False
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._global_keys(),
            style=_STYLE,
            erase_when_done=True,
            output=self._output,
            # A key is shown at once, also while an answer streams.
            max_render_postpone_time=None,
            terminal_size_polling_interval=None,
            before_render=self._fit,
        )
        # A lone Esc is known sooner than by the default of more than a second.
        self.app.ttimeoutlen = self.app.timeoutlen = 0.05
        self._editing: asyncio.Task[None] | None = None
        self._size = self._output.get_size()

    async def run(self) -> None:
        """Show the input until the person leaves."""
        printing = asyncio.create_task(self._printer())
        try:
            await self.app.run_async(pre_run=self._watch_size)
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
        """Put a text into the input again."""
        self.buffer.text = text
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
            lives = bool(self._rows())
            if streams.is_behind():
                # A slow line: it would show what is drawn now later and later.
                await asyncio.sleep(_FRAME)
            elif self._wanted.is_set():
                if self._editing is not None:
                    await self._editing
                self._draw()
                await asyncio.sleep(_FRAME)
            # Once more when nothing goes on any longer; at rest nothing is drawn.
            elif lives or lived:
                self.app.invalidate()
            lived = lives

    def _draw(self) -> None:
        """Print what waits, and draw the rows below it, in one piece."""
        app = self.app
        self._output.is_held = True
        self._erase()
        self._output.write_raw(self._taken())
        app.render_counter += 1
        app.renderer.render(app, app.layout)
        self._output.is_held = False
        self._output.flush()

    def _erase(self) -> None:
        """Take the rows away. A terminal that became narrower has wrapped them: all that they take now is cleared."""
        renderer = self.app.renderer
        if (drawn := renderer.last_rendered_screen) is not None:
            width, cursor = self._output.get_size().columns, renderer._cursor_pos
            widths = [
                max(
                    (x + char.width for x, char in drawn.data_buffer[y].items() if char.char != " "),
                    default=0,
                )
                for y in range(cursor.y)
            ]
            self._output.write_raw("\r")
            self._output.cursor_up(sum(max(1, -(-cells // width)) for cells in widths) + cursor.x // width)
            self._output.erase_down()
        renderer.reset()

    def _watch_size(self) -> None:
        # Once prompt_toolkit has its own handler, which knows nothing of wrapped rows.
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.add_signal_handler, signal.SIGWINCH, self.app.invalidate)

    def _fit(self, app: Application[None]) -> None:
        if (size := self._output.get_size()) != self._size:
            self._size = size
            self._erase()

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
        else:
            self._escape()

    def _edit(self) -> None:
        self.buffer.text = self._unfolded(self.buffer.text)
        self._editing = self.buffer.open_in_editor()

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


class _Output(Vt100_Output):
    """Writes a frame in one piece: its parts are never seen alone, and pastes are told from typing all the time."""

    is_held = False

    def flush(self) -> None:
        if not self.is_held:
            super().flush()


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
