"""The words of a shell command and the simple commands that they make, and what of their text is not in doubt.

A word is kept as written, without its quotes, and with what is known of its value. tree-sitter-bash takes more for a
word, a string or a comment than bash does (it ends words at other blanks, and reads no backticks in a heredoc): the
expressions here say what a shell reads as one, and text in which the two could differ is in doubt.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, Literal, NamedTuple

from instar.wire.pattern import late_pattern

DEEP: Final = 4
"""How often a variable's value may name another variable."""
MANY: Final = 32
"""VariableValues of one word that are told apart; with more the word counts as unknown."""


def listed(names: str) -> frozenset[str]:
    """Return names that are written with blanks between them as a set."""
    return frozenset(names.split())


class WordPiece(NamedTuple):
    """A part of a word: text, the name of a variable, or what cannot be known before it runs.

    The text of what cannot be known names the programs that print it, ``?`` for one that may make up anything, and
    ``$NAME`` for what is taken out of a variable.
    """

    kind: Literal["text", "name", "unknown"]
    text: str
    quoted: bool = False


NUMBER: Final = (WordPiece("unknown", "0"),)
"""The value of an expression: some whole number."""
MADE: Final = (WordPiece("unknown", "?"),)
"""A value of which nothing is known."""


class Word(NamedTuple):
    """A word: `raw` as written, `bare` without quotes and escapes (expansions stay), `pieces` of its value."""

    raw: str
    bare: str
    pieces: tuple[WordPiece, ...]

    def __add__(self, other: object) -> "Word":
        """Join two words that touch."""
        if not isinstance(other, Word):
            return NotImplemented
        return Word(self.raw + other.raw, self.bare + other.bare, self.pieces + other.pieces)

    @property
    def literal(self) -> str | None:
        """The word's value when nothing in it expands; None otherwise."""
        plain = "".join("'" if piece.quoted else piece.text for piece in self.pieces)
        if any(piece.kind != "text" for piece in self.pieces) or (plain != "[" and _SPECIAL.search(plain)):
            return None
        return "".join(piece.text for piece in self.pieces)

    @property
    def braced(self) -> bool:
        """True if a brace expansion may make several words of it."""
        plain = "".join(" " if piece.quoted or piece.kind != "text" else piece.text for piece in self.pieces)
        opened, _, rest = plain.partition("{")
        return len(opened) < len(plain) and ("," in rest or ".." in rest)


Names = Mapping[str, Sequence[Word] | None]
"""The words that a script gives each variable; None for values that cannot be known."""


class VariableValues:
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
        if prod(map(len, choices)) > MANY:
            return None
        return list(dict.fromkeys("".join(parts) for parts in product(*choices)))

    def sources(self, word: Word, depth: int = 0) -> set[str]:
        """Return the programs that print what is not known of a word (`WordPiece`); ``?`` where it may be anything."""
        found: set[str] = set()
        for piece in word.pieces:
            if piece.kind == "unknown" and not piece.text.startswith("$"):
                found |= set(piece.text.split())
            elif piece.kind != "text" and (piece.text in self._names or piece.text not in self._environment):
                words = self._names.get(piece.text.removeprefix("$")) if depth <= DEEP else None
                if not words or (piece.kind == "unknown" and any(one.bare[:1] in "/~." for one in words)):
                    found.add("?")
                found.update(*(self.sources(one, depth + 1) for one in words or ()))
        return found

    def number(self, name: str) -> bool:
        """True if a variable can hold nothing but whole numbers: others are evaluated as expressions."""
        words = self._names.get(name)
        return bool(words) and all(
            word.pieces == NUMBER or re.fullmatch(r"-?\d+", word.literal or "") for word in words or ()
        )

    def _piece(self, piece: WordPiece, depth: int) -> list[str] | None:
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


def text(value: str, quoted: bool = False) -> list[WordPiece]:
    """Return a text as pieces; none when it is empty and not quoted."""
    return [WordPiece("text", value, quoted)] if value or quoted else []


def unescaped(raw: str) -> Iterator[WordPiece]:
    """Yield an unquoted text's pieces: what a backslash stands before counts as quoted."""
    for plain, escaped in re.findall(r"([^\\]+)|\\(.)", raw, re.DOTALL):
        if plain or escaped != "\n":
            yield WordPiece("text", plain or escaped, not plain)


def ansi(raw: str) -> str | None:
    """Return what ``$'...'`` stands for; None with escapes beyond the simple ones."""
    inner = re.fullmatch(r"\$'((?:[^'\\]|\\.)*)'", raw, re.DOTALL)
    if inner is None or re.search(r"\\[^ntr\\'\"]", re.sub(r"\\\\", "", inner[1])):
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner[1])


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_SPECIAL: Final = late_pattern(r"[*?\[~]|\{(?!\})")


def _splits(value: str, quoted: bool) -> bool:
    """True if an unquoted variable's value would become several words, or a pattern of file names."""
    return not quoted and (not value or re.search(r"[\s*?\[\\]", value) is not None)


GAP: Final = late_pattern(r"(?:[ \t]|\\\n)*")
"""What may stand between two words of one command."""
BREAK: Final = late_pattern(r"(?:[ \t\n]|\\\n)*")
"""What may stand between two commands."""
DASH: Final = late_pattern(r"[ \t]+-[ \t]+")
"""A word that the grammar loses in front of a redirection: ``python - <<EOF``."""
DASHED: Final = late_pattern(rf"{BREAK.pattern}|{DASH.pattern}")
"""What may stand in front of a redirection."""
WORD: Final = late_pattern(r"(?:[^\s\\'\"`$|&;()<>\x00-\x1f\x7f]|\\[^\r\x00])+", re.DOTALL)
"""Unquoted text of a word."""
PATTERN: Final = late_pattern(r"(?:[^\\'\"`$&;<>\n\x00-\x08\x0b-\x1f]|\\.|\$(?=[)|\s]|$))+", re.DOTALL)
"""A pattern of `case` or ``[[ =~ ]]``: it may hold brackets."""
RAW: Final = late_pattern(r"'[^']*'")
"""A text in single quotes."""
PLAIN: Final = late_pattern(r"(?:[^\\\"`$]|\\.|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Text in double quotes in which nothing expands."""
HEREDOC: Final = late_pattern(r"(?:[^\\`$]|\\[^\n]|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Lines of a heredoc in which nothing expands."""
DELIMITER: Final = late_pattern(
    r"(?P<plain>[\w.-]+)|'(?P<single>[\w .-]+)'|\"(?P<double>[\w .-]+)\"|\\(?P<escaped>\w+)"
)
"""What ends a heredoc, as it is named."""
VARIABLE: Final = late_pattern(r"\$(?:(?P<name>[A-Za-z_]\w*)|[0-9@*#?$!-])")
"""A variable without braces."""
BRACED: Final = late_pattern(
    r"\$\{(?:#?[@*#?$!-]|#?(?P<name>\w+)(?:\[(?:[@*]|\d+)\])?"
    r"(?P<rest>(?::?[-+?=]|##?|%%?|//?[#%]?|\^\^?|,,?)(?:[^`$\"'\\{}()<>]|\\[^\n])*|:-?\d+(?::\d+)?)?)\}"
)
"""A variable in braces, nothing else expanding in it. Others run what a variable holds: ``${x@P}``, ``${!x}``."""
CUT: Final = late_pattern(r"\$\{([A-Za-z_]\w*)(?:%|##\*/)")
"""How a variable in braces begins that loses its end, or all in front of its last slash."""
OPENED: Final = late_pattern(r"\$\{#?\w+(?:\[(?:[@*]|\d+)\])?(?::?[-+?=]|##?|%%?|//?|\^\^?|,,?)")
"""How a variable in braces begins in whose default or pattern something expands."""
DEFAULT: Final = late_pattern(r"[^`$\"'\\{}()<>]*")
"""Text of such a default or pattern in which nothing expands."""
ARITHMETIC: Final = late_pattern(r"[\w\s+*/%()<>=!&|^~?:;,-]*")
"""An expression without subscripts and expansions; each name in it is to hold a number."""
NAME: Final = late_pattern(r"\b[A-Za-z_]\w*")
"""A variable in an expression."""
COMPARED: Final = late_pattern(r"(?<!\S)-(?:eq|ne|lt|le|gt|ge|v|R)(?!\S)")
"""Tests whose operands are evaluated as expressions, or as a variable's name with its subscript."""
SUBSCRIPT: Final = late_pattern(r"[A-Za-z_]\w*\[(?!(?:\d+|[@*])\])")
"""How a name begins whose subscript is evaluated as an expression."""
COMPOUND: Final = late_pattern(r"\w+\+?=\(.*[$`<>]", re.DOTALL)
"""A quoted text that `declare` reads as an array, so that what stands in it expands."""
EVALUATING: Final = listed(
    "declare typeset local export readonly unset read wait getopts time mapfile readarray"
)
"""Builtins that evaluate a subscript in a name that they are given."""
EVALUATED_OPTIONS: Final = {
    **dict.fromkeys(listed("declare typeset local export readonly"), "in"),
    **dict.fromkeys(listed("test [ printf"), "v"),
}
"""The options by which builtins evaluate what they are given: a number, a reference, a name with its subscript."""
NAMING: Final = listed("declare typeset local export readonly unset read getopts")
"""Builtins that take names: one that is not known may bring a subscript."""
INTEGERS: Final = listed("RANDOM SRANDOM SECONDS HISTCMD OPTIND LINENO")
"""Variables of bash whose value is evaluated as an expression when they are given one."""
STEERING: Final = late_pattern(
    r"CDPATH|PS[0124]|(?:BASH_)?ENV|PROMPT_COMMAND|LD_\w+|LESSOPEN|LESSCLOSE|BASH_(?:ALIASES|CMDS|LOADABLES_PATH)|BASH_FUNC\w*"
    r"|SHELLOPTS|BASHOPTS|(?:GIT_|SSH_)ASKPASS|GIT_(?:CONFIG\w*|EXEC_PATH|SSH\w*|EXTERNAL_DIFF|PROXY_COMMAND|TEMPLATE_DIR)"
    r"|PERL5(?:OPT|DB|LIB)|RUBYOPT|PYTHONSTARTUP|TAR_OPTIONS|MAKEFLAGS|MAKEFILES|RSYNC_RSH|ZDOTDIR"
)
"""Variables that run what they hold, or make programs run something else."""
CHOOSING: Final = late_pattern(r"(?:\w+_)?(?:PAGER|EDITOR)|VISUAL|BROWSER|SHELL")
"""Variables that name a program to run."""
HARMLESS: Final = listed("cat true : less more false /bin/sh /bin/bash sh bash") | {""}
"""What they may name without doubt."""
RULING: Final = listed("PATH IFS")
"""Variables that decide what later commands run: no rule sees them set, but by an assignment."""
SETTING: Final = listed("read printf wait getopts mapfile readarray")
"""Builtins that give a variable that they are named a value which cannot be known."""


ASSIGNMENT: Final = late_pattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
"""How a word begins that gives a variable a value."""


class Redirect(NamedTuple):
    """A redirection: its operator, the file it names (None for a heredoc or a descriptor), and as written."""

    operator: str
    target: Word | None
    raw: str
    bare: str


class Atom(NamedTuple):
    """A word or redirection, and where it stands, in bytes."""

    start: int
    end: int
    item: Word | Redirect


Chains = frozenset[tuple[Word, ...]]
"""Ways in which the folder may have been changed before: the words given to each `cd`, in order."""


class SimpleCommand(NamedTuple):
    """A simple command, and the folders it may run in.

    `plain` is False for what only looks like one: assignments, the head of a `for`, a test. `silent` ones
    are redirections behind a compound command. `fed` names the programs whose output it reads (`WordPiece`).
    """

    items: tuple[Word | Redirect, ...]
    chains: Chains
    plain: bool = True
    silent: bool = False
    fed: str = ""

    @property
    def words(self) -> tuple[Word, ...]:
        """The words from the command's name on: without the assignments in front of it."""
        words = [item for item in self.items if isinstance(item, Word)]
        first = 0
        while self.plain and first < len(words) and ASSIGNMENT.match(words[first].raw):
            first += 1
        return tuple(words[first:])

    @property
    def redirects(self) -> tuple[Redirect, ...]:
        """The redirections, wherever they stand."""
        return tuple(item for item in self.items if isinstance(item, Redirect))

    def at(self, word: int) -> tuple[Word | Redirect, ...]:
        """Return what stands from the given word (counted in `words`) on."""
        skipped = len(self.items) - len(self.redirects) - len(self.words) + word
        for index, item in enumerate(self.items):
            if isinstance(item, Word):
                if not skipped:
                    return self.items[index:]
                skipped -= 1
        return ()


def written(items: Sequence[Word | Redirect]) -> str:
    """Return items as written, with one blank between them."""
    return " ".join(item.raw for item in items)


def unquoted(items: Sequence[Word | Redirect]) -> str:
    """Return items without their quotes, with one blank between them."""
    return " ".join(item.bare for item in items)
