"""The rows at the bottom of the terminal: what lives of the conversation, the input, and a line of facts."""

import asyncio
import io
import os
import signal
import sys
import termios
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
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

from instar.cli import streams
from instar.cli.chat.picker import Entry, Picked, Picker
from instar.cli.chat.state import ChatState
from instar.cli.text import harmless, one_line

T = TypeVar("T")

_FRAME: Final = 0.03
"""Seconds between two prints: what comes meanwhile is printed with it."""
_TICK: Final = 0.1
"""Seconds between two drawings of rows that count the time."""
_LONG: Final = 6
"""Lines of a paste that are shown as they are; a longer one is folded."""
_LONGEST: Final = 2_000
"""Characters of a paste that are shown as they are."""
_REMEMBERED: Final = 20_000
"""Characters of a text that is remembered, or put into the input again, with what was pasted into it."""
_STYLE: Final = Style.from_dict({"bottom": "dim noreverse", "prompt": "bold"})

# Shift-Enter, as the terminals send it that tell it from Enter; here it is what Alt-Enter is.
ANSI_SEQUENCES.update(dict.fromkeys(("\x1b[13;2u", "\x1b[27;2;13~"), (Keys.Escape, Keys.ControlM)))

Words = Callable[[str], Awaitable[Iterable[tuple[str, str]]]]
"""The words that complete a beginning, with their meanings."""


class Screen:
    """An input below a terminal's scrollback.

    `submit` gets each text that the person sends, `rows` and `facts` return what stands above and below the input,
    `words` what completes a word, `waiting` takes back a text that is not sent yet, `escape` is called for Esc where
    there is none, with what stands in the input; with an empty input `interrupt` for Ctrl-C and `left` for Ctrl-D.
    `paste` says what stands in the input for a text that was pasted; `clipboard` is called to paste an image.
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
        paste: Callable[[str], str],
        clipboard: Callable[[], object],
        left: Callable[[], None],
        history: Path | None,
        state: ChatState,
    ) -> None:
        self._submit, self._rows, self._facts, self._prompt = submit, rows, facts, prompt
        self._waits, self._escape, self._interrupt, self._left = waiting, escape, interrupt, left
        self._state, self._for_paste, self._clipboard = state, paste, clipboard
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
        keyboard = Vt100Input(sys.stdin)
        keyboard.stdin_reader = _Reader(sys.stdin.fileno())
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._global_keys(),
            style=_STYLE,
            erase_when_done=True,
            input=keyboard,
            output=self._output,
            color_depth=lambda: ColorDepth.DEPTH_1_BIT if state.no_color else None,
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
        """Show the input until the person leaves. Raises `EOFError` or `OSError` when the terminal is gone."""
        self._modes = termios.tcgetattr(sys.stdin)
        printing = asyncio.create_task(self._printer())
        try:
            await self.app.run_async(pre_run=self._watch_size, handle_sigint=False)
        finally:
            printing.cancel()
            await asyncio.gather(printing, return_exceptions=True)
            self.app.output.write_raw(self._taken())
            self.app.output.flush()

    async def restore(self) -> None:
        """Give the terminal back as it was: the program ends at once."""
        termios.tcsetattr(sys.stdin, termios.TCSANOW, self._modes)
        self.app.renderer.erase()

    def leave(self) -> None:
        """End `run`."""
        if self.app.is_running:
            self.app.exit()

    def print(self, text: str) -> None:
        """Print above the input, soon."""
        self._waiting.write(text)
        self._wanted.set()

    def print_now(self, text: str) -> None:
        """Print in place of the rows, which are drawn anew once the event loop turns: it may stand."""
        self.app.renderer.erase()
        self.app.output.write_raw(f"{text}\r\n")
        self.app.output.flush()
        self.app.invalidate()

    def take_back(self, text: str) -> None:
        """Put a text into the input again, before what stands there."""
        shown = text if len(text) <= _REMEMBERED else self._folded(text)
        self.buffer.text = "\n".join(filter(None, (shown, self.buffer.text)))
        self.buffer.cursor_position = len(shown)

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
            if streams.is_behind() or self.app.is_done:
                # A slow line would show what is drawn now later and later; at the end `run` prints what waits.
                await asyncio.sleep(_FRAME)
            elif self._wanted.is_set():
                if self._editing is not None:
                    await self._editing
                self._draw()
                # What goes on may have ended before it was seen to live.
                lives = True
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
        keys.add("c-z")(lambda event: run_in_terminal(_suspend))
        return keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        bound: tuple[tuple[tuple[Keys | str, ...], Callable[[KeyPressEvent], object]], ...] = (
            (("enter",), lambda event: self._send()),
            (("escape", "enter"), lambda event: self.buffer.insert_text("\n")),
            (("c-j",), lambda event: self._send()),
            (("escape",), lambda event: self._escaped()),
            (("c-c",), lambda event: self.buffer.reset() if self.buffer.text else self._interrupt()),
            (("c-d",), lambda event: None if self.buffer.text else self._left()),
            (("up",), lambda event: self._up()),
            (("c-r",), lambda event: event.app.create_background_task(self._recall())),
            (("c-v",), lambda event: self._clipboard()),
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
        offered = self.buffer.complete_state
        if offered and len(offered.completions) == 1 and self.buffer.text.startswith("/"):
            # The beginning of one order alone means that order.
            self.buffer.apply_completion(offered.completions[0])
        text = self._unfolded(self.buffer.text)
        said = text if len(text) <= _REMEMBERED else self.buffer.text
        if said.strip() and said not in self.buffer.history.get_strings()[-1:]:
            self.buffer.history.append_string(said)
        self.buffer.reset()
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
        self._editing = self.buffer.open_in_editor()

    async def _recall(self) -> None:
        said = dict.fromkeys(reversed(self.buffer.history.get_strings()))
        entries = [Entry(text, one_line(text[:_LONGEST])) for text in said]
        picked = await self.pick(Picker("said before", entries, enter="puts it into the input"))
        if picked:
            self.take_back(picked.value)

    def _paste(self, data: str) -> None:
        text = harmless(data.replace("\r\n", "\n").replace("\r", "\n"))
        self.buffer.insert_text(self._folded(self._for_paste(text)))

    def _folded(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= _LONG and len(text) <= _LONGEST:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark = f"[pasted {size}, {len(self._pasted) + 1}]"
        self._pasted[mark] = text
        return mark

    def _unfolded(self, text: str) -> str:
        for mark, pasted in self._pasted.items():
            text = text.replace(mark, pasted)
        return text


def _suspend() -> None:
    """Leave the terminal to the shell, once what was printed is there; the process group stops, as the shell waits."""
    streams.finish()
    os.kill(0, signal.SIGTSTP)


class _Output(Vt100_Output):
    """Writes a frame in one piece: its parts are never seen alone, and pastes are told from typing all the time."""

    is_held = False

    def flush(self) -> None:
        if not self.is_held:
            super().flush()


class _Reader(PosixStdinReader):
    """Reads all that is there: of a paste in many pieces the parser goes through the whole with each of them."""

    def read(self, count: int = 65536) -> str:
        """Return what was typed."""
        return "".join(iter(partial(super().read, count), ""))


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
