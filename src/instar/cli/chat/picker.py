"""A list above the input, of which a person picks an entry: with the arrows, or by words that it holds."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Window
from rich.cells import cell_len
from rich.text import Text

from instar.cli.text import one_line

T = TypeVar("T")

_ROWS: Final = 10
"""Entries that are shown at once."""
_PAUSE: Final = 0.15
"""Seconds after the last key before a search begins."""


class Entry(NamedTuple, Generic[T]):
    """An entry: what it stands for, its name, and what is said of it in a second column."""

    value: T
    name: str
    note: str = ""


class Picked(NamedTuple, Generic[T]):
    """What was picked, and the key that did it: ``enter``, or one of the picker's own."""

    value: T
    key: str


class Picker(Generic[T]):
    """A list with a title; `answer` is what was picked, None if the person left.

    What is typed narrows the list to the entries that hold all its words, or to what `search` finds. With `keys`,
    each with what it does (``{"r": "roll back"}``), letters are keys, and typing narrows nothing. `enter` says what
    Enter does. At first `typed` is as if it had been typed, and the entry number `at` is selected.
    """

    def __init__(
        self,
        title: str,
        entries: Sequence[Entry[T]],
        *,
        enter: str = "picks",
        keys: Mapping[str, str] | None = None,
        search: Callable[[str], Awaitable[Sequence[Entry[T]]]] | None = None,
        typed: str = "",
        at: int = 0,
    ) -> None:
        self.closed: Callable[[], None] = lambda: None
        self.answer: asyncio.Future[Picked[T] | None] = asyncio.get_running_loop().create_future()
        self._title, self._enter, self._search = title, enter, search
        self._keys = keys or {}
        self._all = self._shown = entries
        self._at, self._height = at, 0
        self._searching: asyncio.Task[None] | None = None
        self._typed = Buffer(multiline=False, on_text_changed=lambda _: self._narrow())
        self._typed.insert_text(typed)
        self.window = Window(BufferControl(self._typed, key_bindings=self._bindings()), height=1)

    def leave(self) -> None:
        """Answer that nothing was picked."""
        self._end(None)

    def _end(self, picked: Picked[T] | None) -> None:
        if self._searching:
            self._searching.cancel()
            self._searching = None
        if not self.answer.done():
            self.answer.set_result(picked)
            # At once: the next letter may be read already, and is the input's.
            self.closed()

    # -- what is shown -------------------------------------------------------------------------------

    def rows(self, columns: int, most: int) -> list[Text]:
        """Return the entries around the selected one, at most `most`, each in a row that is `columns` wide."""
        most = max(1, min(_ROWS, most))
        first = max(0, min(self._at - most // 2, len(self._shown) - most))
        shown = self._shown[first : first + most]
        # Rows that came stay until the end: the input below must not jump with each letter.
        self._height = max(len(shown), min(self._height, most))
        longest = max((cell_len(one_line(one.note)) for one in shown), default=0)
        room = max(columns - 4 - longest, columns // 2)
        width = min(room, max((cell_len(one_line(one.name)) for one in shown), default=0))
        rows = [_row(one, first + number == self._at, width) for number, one in enumerate(shown)]
        return [*rows, *(Text("") for _ in range(self._height - len(rows)))]

    def head(self) -> str:
        """Return what stands before the words that are typed."""
        here = f"{self._at + 1}/{len(self._shown)}" if self._shown else "none"
        return f"{self._title} ({here}{' …' if self._searching else ''}) › "

    def hints(self) -> str:
        """Return what the keys do."""
        keys = [f"{key} {what}" for key, what in self._keys.items()]
        typing = [] if self._keys else ["typing searches"]
        return " · ".join([f"Enter {self._enter}", *keys, *typing, "Esc leaves"])

    # -- keys ----------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        moves = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -_ROWS, "pagedown": _ROWS}
        if self._keys:
            bindings.add(Keys.Any)(lambda event: None)
            moves |= {"k": -1, "j": 1}
        for name, by in moves.items():
            bindings.add(name)(lambda event, by=by: self._move(by))
        for name in ("escape", "c-c", "c-d"):
            bindings.add(name)(lambda event: self.leave())
        for name in ("enter", "c-j"):
            bindings.add(name)(lambda event: self._pick("enter"))
        for name in self._keys:
            bindings.add(name)(lambda event, name=name: self._pick(name))
        bindings.add(Keys.BracketedPaste)(lambda event: self._paste(event.data))
        return bindings

    def _move(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._shown) - 1))

    def _pick(self, key: str) -> None:
        if self._searching:
            # What Enter means is in the list that comes.
            self._searching.add_done_callback(lambda _: self._pick(key))
        elif self._shown:
            self._end(Picked(self._shown[self._at].value, key))

    def _paste(self, text: str) -> None:
        if not self._keys:
            self._typed.insert_text(one_line(text))

    def _narrow(self) -> None:
        typed = self._typed.text.strip()
        if self._searching:
            self._searching.cancel()
        if self._search:
            self._searching = asyncio.create_task(self._find(self._search, typed))
            return
        words = typed.lower().split()
        found = [one for one in self._all if _holds(f"{one.name} {one.note}", words)]
        # Those whose names hold them are first.
        self._put(sorted(found, key=lambda one: not _holds(one.name, words)))

    async def _find(self, search: Callable[[str], Awaitable[Sequence[Entry[T]]]], typed: str) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            self._put(await search(typed) if typed else self._all)
        except Exception as error:
            # Who waits for the answer says why there is none.
            self.answer.set_exception(error)
            self.closed()
        self._searching = None
        get_app().invalidate()

    def _put(self, found: Sequence[Entry[T]]) -> None:
        self._shown, self._at = found, 0


class Pick(Protocol):
    """Lets the person pick from a list; None if they left it."""

    async def __call__(self, picker: Picker[T], /) -> Picked[T] | None: ...


def _holds(text: str, words: Sequence[str]) -> bool:
    return all(word in text.lower() for word in words)


def _row(entry: Entry[T], is_selected: bool, width: int) -> Text:
    name = Text(f"{'▸' if is_selected else ' '} {one_line(entry.name)}", "bold" if is_selected else "")
    name.truncate(width + 2, overflow="ellipsis", pad=True)
    return name.append(f"  {one_line(entry.note)}", "dim")
