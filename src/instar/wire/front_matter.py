"""Front matter: the YAML between two ``---`` lines at the top of a Markdown file.

YAML 1.1 reads ``no`` as false and ``2024-01-01`` as a date. Here only ``true`` and ``false`` are booleans and
only numbers are numbers (YAML 1.2's core schema, which opencode's reader follows); what a field means is its
schema's to say, and `FrontMatter.written` keeps what stood there. Aliases are refused and the depth is bounded:
the file may be a stranger's.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from instar.wire import Plain
from instar.wire.document import DocumentError
from instar.wire.pattern import late_pattern

LONGEST: Final = 64 * 1024
"""Characters of a front matter."""
DEEPEST: Final = 16
"""Levels of maps and lists."""

Place = tuple[str | int, ...]
"""Where a value stands: keys and list indexes from the top."""

_FENCE: Final = late_pattern(r"---[ \t]*")
_NUMBER: Final = late_pattern(r"[-+]?(\d+|\d*\.\d+|\d+\.\d*)([eE][-+]?\d+)?")
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_LINE: Final = late_pattern(r"([A-Za-z_][\w-]*)([ \t]*:[ \t]+)(.*:.*)")
_OPENERS: Final = tuple("\"'|>[{&*!%@`")


class FrontMatter(NamedTuple):
    """A file's fields and its text.

    `first` is the line, from 1, on which `body` begins. `places` tells line and column of each value,
    `written` each plain word as it stood, before it was taken for a number or true or false.
    """

    data: Plain
    body: str
    first: int
    places: dict[Place, tuple[int, int]]
    written: dict[Place, str]

    def line(self, place: Place) -> int:
        """Return the line of the value at `place`, or of the innermost one around it that is there."""
        while place and place not in self.places:
            place = place[:-1]
        return self.places[place][0] if place else 1


def front_matter(text: str, source: str) -> FrontMatter:
    """Split a Markdown text into its fields and its body; a text that begins with no ``---`` line has no fields.

    A top-level value that holds a colon (``description: Use when: asked``) needs no quotes. `source` names the
    text in errors. Raises `DocumentError` with line and column.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return FrontMatter({}, text, 1, {}, {})
    end = next((at for at, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise DocumentError(source, 1, 1, "expected a --- line that ends the front matter, found none")
    head, body = "".join(f"{line}\n" for line in lines[1:end]), "\n".join(lines[end + 1 :])
    if len(head) > LONGEST:
        raise DocumentError(source, 1, 1, f"expected a front matter of at most {LONGEST} characters")
    reader = _read(head, source)
    return FrontMatter(reader.data, body, end + 2, reader.places, reader.written)


def yaml_file(text: str, source: str) -> FrontMatter:
    """Read a file that is YAML from end to end, by the same rules; its body is empty.

    `source` names the file in errors. Raises `DocumentError` with line and column.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > LONGEST:
        raise DocumentError(source, 1, 1, f"expected at most {LONGEST} characters of YAML")
    reader = _Reader(text, source, first=1)
    return FrontMatter(reader.data, "", text.count("\n") + 1, reader.places, reader.written)


def _read(head: str, source: str) -> "_Reader":
    try:
        return _Reader(head, source)
    except DocumentError as error:
        mended = "\n".join(map(_quoted, head.split("\n")))
        if mended == head:
            raise
        try:
            return _Reader(mended, source)
        except DocumentError:
            raise error from None


def _quoted(line: str) -> str:
    """A top-level line whose plain value holds a colon, with that value in quotes."""
    found = _LINE.fullmatch(line.rstrip())
    if found is None or found[3].startswith(_OPENERS):
        return line
    return f"{found[1]}{found[2]}'{found[3].replace(chr(39), chr(39) * 2)}'"


class _Reader:
    """One pass over YAML's events: they come without recursion, so no depth of brackets overflows a stack."""

    def __init__(self, text: str, source: str, first: int = 2) -> None:
        self.places: dict[Place, tuple[int, int]] = {}
        self.written: dict[Place, str] = {}
        self._source = source
        self._text = text
        # The line of the file on which the text begins: in front matter the second one.
        self._first = first
        self._events = self._parsed()
        self.data = self._document()

    def _parsed(self) -> Iterator[Any]:
        # Start-up time: 30 ms that only a folder with definitions pays for.
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            yield from yaml.parse(self._text, Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error).splitlines()[0]
            line, column = (mark.line, mark.column) if mark else (0, 0)
            self._fail(line, column, f"expected YAML: {problem}{self._advice(line, column)}")

    def _advice(self, line: int, column: int) -> str:
        lines = self._text.split("\n")
        at = lines[line][column - 1 : column + 1] if line < len(lines) and column else ""
        word = next((char for char in reversed(at) if char in "*&!%@`"), "")
        if line < len(lines) and lines[line][column : column + 1] == "\t":
            return " (indent with spaces: YAML takes no tabs)"
        if not word and line < len(lines) and lines[line][column : column + 1] in "@`%*":
            word = lines[line][column : column + 1]
        return f" (write {word} in quotes: YAML gives it a meaning of its own)" if word else ""

    def _fail(self, line: int, column: int, message: str) -> Any:
        raise DocumentError(self._source, line + self._first, column + 1, message)

    def _document(self) -> Plain:
        for event in self._events:
            kind = type(event).__name__
            if kind in ("StreamStartEvent", "DocumentStartEvent"):
                continue
            if kind == "StreamEndEvent":
                return {}
            value = self._value(event, ())
            if value is None:
                return {}
            if not isinstance(value, dict):
                self._fail(event.start_mark.line, event.start_mark.column, "expected fields (name: value)")
            for _ in self._events:  # what follows must be YAML too
                pass
            return dict(value)
        return {}

    def _value(self, event: Any, place: Place) -> Any:
        mark = event.start_mark
        self.places[place] = (mark.line + self._first, mark.column + 1)
        kind = type(event).__name__
        if len(place) > DEEPEST:
            self._fail(mark.line, mark.column, f"expected at most {DEEPEST} levels")
        if kind == "AliasEvent":
            advice = f"expected a value, found *{event.anchor} (write it in quotes: *{event.anchor} is no text to YAML)"
            self._fail(mark.line, mark.column, advice)
        if kind == "ScalarEvent":
            return self._scalar(event, place)
        if kind == "SequenceStartEvent":
            return list(self._items(place))
        return dict(self._entries(place))

    def _scalar(self, event: Any, place: Place) -> Any:
        self.written[place] = event.value
        return event.value if event.style else plain_word(event.value)

    def _items(self, place: Place) -> Iterator[Any]:
        for index, event in enumerate(self._events):
            if type(event).__name__ == "SequenceEndEvent":
                return
            yield self._value(event, (*place, index))

    def _entries(self, place: Place) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key in self._events:
            if type(key).__name__ == "MappingEndEvent":
                return
            mark = key.start_mark
            if type(key).__name__ != "ScalarEvent":
                self._fail(
                    mark.line, mark.column, "expected a name in quotes, found what YAML takes for more"
                )
            if key.value in seen:
                self._fail(
                    mark.line, mark.column, f"{key.value!r} stands twice (first on line {seen[key.value]})"
                )
            seen[key.value] = mark.line + self._first
            yield key.value, self._value(next(self._events), (*place, key.value))


def plain_word(word: str) -> Any:
    """Return what a word without quotes means: true, false, null, a number, else the word itself."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _NUMBER.fullmatch(word):
        number = int(word) if re.fullmatch(r"[-+]?\d{1,18}", word) else float(word)
        return word if number in (math.inf, -math.inf) else number
    return word
