"""The words of a shell command: as written, without their quotes, and what is known of their value."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, Literal, NamedTuple

DEEP: Final = 4
"""How often a variable's value may name another variable."""
MANY: Final = 32
"""Values of one word that are told apart; with more the word counts as unknown."""


def listed(names: str) -> frozenset[str]:
    """Return names that are written with blanks between them as a set."""
    return frozenset(names.split())


class Piece(NamedTuple):
    """A part of a word: text, the name of a variable, or what cannot be known before it runs."""

    kind: Literal["text", "name", "unknown"]
    text: str
    quoted: bool = False


NUMBER: Final = (Piece("unknown", "0"),)
"""The value of an expression: some whole number."""


class Word(NamedTuple):
    """A word: `raw` as written, `bare` without quotes and escapes (expansions stay), `pieces` of its value."""

    raw: str
    bare: str
    pieces: tuple[Piece, ...]

    def __add__(self, other: object) -> "Word":
        """Join two words that touch."""
        if not isinstance(other, Word):
            return NotImplemented
        return Word(self.raw + other.raw, self.bare + other.bare, self.pieces + other.pieces)

    @property
    def literal(self) -> str | None:
        """The word's value when nothing in it expands; None otherwise."""
        plain = "".join("'" if piece.quoted else piece.text for piece in self.pieces)
        if any(piece.kind != "text" for piece in self.pieces) or (plain != "[" and _SPECIAL(plain)):
            return None
        return "".join(piece.text for piece in self.pieces)

    @property
    def braced(self) -> bool:
        """Whether a brace expansion may make several words of it."""
        plain = "".join(" " if piece.quoted or piece.kind != "text" else piece.text for piece in self.pieces)
        opened, _, rest = plain.partition("{")
        return len(opened) < len(plain) and ("," in rest or ".." in rest)


Names = Mapping[str, Sequence[Word] | None]
"""The words that a script gives each variable; None for values that cannot be known."""


class Values:
    """What is known of the variables: what the script itself gives them, else what the environment holds."""

    def __init__(self, names: Names, environment: Mapping[str, str]) -> None:
        self._names = names
        self._environment = environment

    def of(self, word: Word, depth: int = 0) -> list[str] | None:
        """Return every value that the word may have, quotes taken away; None when that is not known."""
        choices: list[list[str]] = []
        for piece in word.pieces:
            found = [piece.text] if piece.kind == "text" else self._piece(piece, depth)
            if found is None:
                return None
            choices.append(found)
        if _size(choices) > MANY:
            return None
        return list(dict.fromkeys("".join(parts) for parts in product(*choices)))

    def number(self, name: str) -> bool:
        """Whether a variable can hold nothing but whole numbers: others are evaluated as expressions."""
        words = self._names.get(name)
        return bool(words) and all(
            word.pieces == NUMBER or re.fullmatch(r"-?\d+", word.literal or "") for word in words or ()
        )

    def _piece(self, piece: Piece, depth: int) -> list[str] | None:
        if piece.kind == "unknown" or depth > DEEP:
            return None
        if piece.text not in self._names:
            given = self._environment.get(piece.text)
            return None if given is None or _splits(given, piece.quoted) else [given]
        found: list[str] = []
        for word in self._names[piece.text] or ():
            values = self.of(word, depth + 1)
            if values is None or any(_splits(value, piece.quoted) for value in values):
                return None
            found += values
        return found or None


def text(value: str, quoted: bool = False) -> list[Piece]:
    """Return a text as pieces; none when it is empty and not quoted."""
    return [Piece("text", value, quoted)] if value or quoted else []


def unescaped(raw: str) -> Iterator[Piece]:
    """Yield an unquoted text's pieces: what a backslash stands before counts as quoted."""
    for plain, escaped in re.findall(r"([^\\]+)|\\(.)", raw, re.DOTALL):
        if plain or escaped != "\n":
            yield Piece("text", plain or escaped, not plain)


def ansi(raw: str) -> str | None:
    """Return what ``$'...'`` stands for; None with escapes beyond the simple ones."""
    inner = re.fullmatch(r"\$'((?:[^'\\]|\\.)*)'", raw, re.DOTALL)
    if inner is None or re.search(r"\\[^ntr\\'\"]", re.sub(r"\\\\", "", inner[1])):
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner[1])


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_SPECIAL: Final[Callable[[str], re.Match[str] | None]] = re.compile(r"[*?\[~]|\{(?!\})").search


def _splits(value: str, quoted: bool) -> bool:
    """Whether an unquoted variable's value would become several words, or a pattern of file names."""
    return not quoted and (not value or re.search(r"[\s*?\[\\]", value) is not None)


def _size(choices: Sequence[Sequence[str]]) -> int:
    size = 1
    for found in choices:
        size *= len(found)
    return size
