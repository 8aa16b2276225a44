"""Splits a shell command into the simple commands that it runs, for permission rules.

Only a shell understands shell; where this reading is in doubt it says so. The rules then also see the
text cut at every place where a command could begin, and the text behind `DOUBT`, which nothing but a rule
for everything (``*``) fits: ``git *`` allowed does not let a heredoc through, ``rm *`` denied is found in
it. Wrappers (``sudo``, ``xargs``) count as themselves and as what they run; what an interpreter is handed
(``sh -c``, ``eval``) is in doubt. Which files a command touches is not looked at.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

DOUBT: Final = "(not understood) "
"""Stands in front of a text that could not be split with certainty."""
MAX_DEPTH: Final = 16
"""Substitutions inside one another that are followed."""
MAX_SUFFIXES: Final = 40
"""Words of a wrapped command at which what it runs is looked for."""

MAX_TEXT: Final = 131072
"""Characters of a command that are read: Linux starts none with a longer argument."""


def patterns(text: str) -> list[str]:
    """Return what permission rules see of a command: each simple command in it; with any doubt the whole too.

    The words of a simple command are joined by one space, as written and also without their quotes; one
    with assignments or redirections in front counts with them and without.
    """
    text = text.strip()
    found, doubt = _read(text)
    if doubt:
        found = [text, *found, DOUBT + text, *(" ".join(piece.split()) for piece in _CUTS.split(text))]
    return [pattern for pattern in dict.fromkeys(found) if pattern] or [text]


def always(text: str) -> list[str]:
    """Return what an `always` answer to this command covers: ``<first word> *`` of each simple command.

    A command that is in doubt is not covered: it is asked about each time.
    """
    text = text.strip()
    found = [command for words in _Scan(text[:MAX_TEXT]).found for command in _unwrapped(_stripped(words))]
    firsts = dict.fromkeys(f"{words[0].bare} *" for words, sure in found if sure)
    return list(firsts) or [text]


class _Word(NamedTuple):
    """A word as it was written, and as it is without its quotes."""

    raw: str
    bare: str


_Words = Sequence[_Word]

_CUTS: Final = re.compile(r"[;&|()\n`{}'\"]+")
_KEYWORDS: Final = frozenset(
    ["if", "then", "elif", "else", "do", "done", "fi", "while", "until", "!", "{", "}"]
)
_WRAPPERS: Final = frozenset(
    [
        "sudo",
        "doas",
        "env",
        "command",
        "builtin",
        "exec",
        "nohup",
        "nice",
        "xargs",
        "timeout",
        "setsid",
        "time",
    ]
)
_OPAQUE: Final = frozenset(
    [
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "fish",
        "eval",
        "source",
        ".",
        "alias",
        "trap",
        "function",
        "case",
        "coproc",
    ]
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_NUMBER: Final = re.compile(r"[\d.]+[smhd]?")
_REDIRECT: Final = re.compile(r"\d*(?:&>>?|>>|>&|<&|>\||<>|<<<|<|>)")
_EXPANDED: Final = re.compile(r"[$`*?\[{~]")


def _read(text: str) -> tuple[list[str], bool]:
    """The patterns of each simple command, and whether there is any doubt."""
    if len(text) > MAX_TEXT:
        return [], True
    scan = _Scan(text)
    found: list[str] = []
    doubt = scan.doubt
    for words in scan.found:
        bare = _stripped(words)
        if len(bare) < len(words) and bare and words[0].raw not in _KEYWORDS:
            found.append(" ".join(word.raw for word in words))
        for command, sure in _unwrapped(bare):
            found += [" ".join(word.raw for word in command), " ".join(word.bare for word in command)]
            doubt = doubt or not sure
    return [command for command in dict.fromkeys(found) if command], doubt


def _stripped(words: _Words) -> _Words:
    """The command without the keywords, assignments and redirections in front of it."""
    while words:
        redirect = _REDIRECT.match(words[0].raw)
        if redirect:
            words = words[1 if redirect.end() < len(words[0].raw) else 2 :]
        elif words[0].raw in _KEYWORDS or _ASSIGNMENT.match(words[0].raw):
            words = words[1:]
        else:
            break
    return words


def _unwrapped(words: _Words) -> Iterator[tuple[_Words, bool]]:
    """A command, what it wraps, what that wraps; with each whether it is certain."""
    while words:
        first = words[0].bare.rpartition("/")[2]
        yield words, not _EXPANDED.search(words[0].bare)
        if first not in _WRAPPERS and first not in _OPAQUE:
            return
        words = words[1:]
        while (
            words
            and first in _WRAPPERS
            and (_NUMBER.fullmatch(words[0].raw) or _ASSIGNMENT.match(words[0].raw))
        ):
            words = words[1:]
        if words and (first in _OPAQUE or words[0].raw.startswith("-")):
            for start in range(min(len(words), MAX_SUFFIXES)):
                yield words[start:], False
            return


class _Scan:
    """One reading of a command from left to right; `found` are the words of each simple command."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.found: list[_Words] = []
        self.doubt = depth > MAX_DEPTH
        self._text = text
        self._depth = depth
        self._at = 0 if depth <= MAX_DEPTH else len(text)
        self._words: list[_Word] = []
        self._word: _Word | None = None
        while self._at < len(text):
            char = text[self._at]
            self._STEPS.get(char, _Scan._plain)(self, char)
        self._end_command()

    def _add(self, raw: str, bare: str) -> None:
        before = self._word or _Word("", "")
        self._word = _Word(before.raw + raw, before.bare + bare)
        self._at += len(raw)

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append(self._word)
        self._word = None

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self.found.append(self._words)
        self._words = []

    def _plain(self, char: str) -> None:
        end = self._at + 1
        while end < len(self._text) and self._text[end] not in self._STEPS:
            end += 1
        piece = self._text[self._at : end]
        self._add(piece, piece)

    def _blank(self, char: str) -> None:
        self._end_word()
        self._at += 1

    def _separator(self, char: str) -> None:
        redirects = self._word is not None and self._word.raw.endswith((">", "<"))
        if char == "&" and (redirects or self._text.startswith("&>", self._at)):
            self._add("&", "&")  # >&1, &>file
            return
        self._end_command()
        self._at += 1

    def _escape(self, char: str) -> None:
        taken = self._text[self._at : self._at + 2]
        if taken == "\\\n":
            self._at += 2
        else:
            self._add(taken, taken[1:])

    def _single(self, char: str) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            self._give_up()
        else:
            self._add(self._text[self._at : end + 1], self._text[self._at + 1 : end])

    def _double(self, char: str) -> None:
        raw, at = '"', self._at + 1
        while at < len(self._text) and self._text[at] != '"':
            end = self._inside(at)
            if end is None:
                break
            raw += self._text[at:end]
            at = end
        else:
            if at < len(self._text):
                self._add(raw + '"', re.sub(r'\\(["\\$`\n])', r"\1", raw[1:]))
                return
        self._give_up()

    def _inside(self, at: int) -> int | None:
        """The end of the next piece of a double-quoted text; a substitution in it is read. None: no end."""
        if self._text[at] == "\\":
            return at + 2
        if self._text[at] == "`":
            return self._nested(at, self._backtick_end(at))
        if self._text.startswith("$(", at):
            return self._nested(at + 1, self._paren_end(at + 1))
        return at + 1

    def _backtick(self, char: str) -> None:
        self._substitute(self._at, self._backtick_end(self._at))

    def _dollar(self, char: str) -> None:
        if self._text.startswith("$(", self._at):
            self._substitute(self._at + 1, self._paren_end(self._at + 1))
            return
        self.doubt = self.doubt or self._text.startswith("$'", self._at)
        self._add("$", "$")

    def _open(self, char: str) -> None:
        self.doubt = self.doubt or self._word is not None  # a function or an array
        end = self._nested(self._at, self._paren_end(self._at))
        if end is None:
            self._give_up()
        else:
            self._at = end

    def _close(self, char: str) -> None:
        self.doubt = True
        self._end_command()
        self._at += 1

    def _angle(self, char: str) -> None:
        if self._text.startswith("<<", self._at) and not self._text.startswith("<<<", self._at):
            self.doubt = True
        if self._text.startswith("(", self._at + 1):
            self._substitute(self._at + 1, self._paren_end(self._at + 1))
            return
        if self._word is not None and not re.fullmatch(r"\d+|.*[<>&]", self._word.raw, re.DOTALL):
            self._end_word()
        self._add(char, char)

    def _comment(self, char: str) -> None:
        if self._word is not None:
            self._add("#", "#")
            return
        end = self._text.find("\n", self._at)
        self._at = end if end >= 0 else len(self._text)

    def _substitute(self, start: int, end: int | None) -> None:
        """Read the commands between `start` and `end`; as text they are part of the word."""
        after = self._nested(start, end)
        if after is None:
            self._give_up()
        else:
            piece = self._text[self._at : after]
            self._add(piece, piece)

    def _nested(self, start: int, end: int | None) -> int | None:
        """Read what stands between two brackets and return where it goes on, None without a second one."""
        if end is None:
            return None
        inner = _Scan(self._text[start + 1 : end], self._depth + 1)
        self.found += inner.found
        self.doubt = self.doubt or inner.doubt
        return end + 1

    def _backtick_end(self, start: int) -> int | None:
        found = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL).match(self._text, start + 1)
        if found and "\\" in found[0]:
            self.doubt = True
        return found.end() - 1 if found else None

    def _paren_end(self, start: int) -> int | None:
        """The bracket that closes the one at `start`; quotes are skipped, in doubt if they hold more."""
        level = 0
        for token in _TOKENS.finditer(self._text, start):
            if token[0] in "()":
                level += 1 if token[0] == "(" else -1
                if not level:
                    return token.start()
            elif token[0][0] == '"' and ("$(" in token[0] or "`" in token[0]):
                self.doubt = True
        return None

    def _give_up(self) -> None:
        """The rest cannot be read: a quote or bracket has no end."""
        self.doubt = True
        rest = self._text[self._at :]
        self._add(rest, rest)

    _STEPS: Final[Mapping[str, Callable[["_Scan", str], None]]] = {
        " ": _blank,
        "\t": _blank,
        ";": _separator,
        "&": _separator,
        "|": _separator,
        "\n": _separator,
        "\\": _escape,
        "'": _single,
        '"': _double,
        "`": _backtick,
        "$": _dollar,
        "(": _open,
        ")": _close,
        "<": _angle,
        ">": _angle,
        "#": _comment,
    }


_TOKENS: Final = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*"|[()]""", re.DOTALL)
