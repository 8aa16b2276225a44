"""The words of a shell command and the simple commands that they make, and what of their text is not in doubt.

A word is kept as written, without its quotes, and with what is known of its value. tree-sitter-bash takes more for a
word, a string or a comment than bash does (it ends words at other blanks, and reads no backticks in a heredoc): the
expressions here say what a shell reads as one, and text in which the two could differ is in doubt.

`inner_commands` finds the commands and scripts that a command runs: those of ``sudo``, ``xargs``, ``find -exec``,
``sh -c`` … What is not understood there is in doubt: then a command may begin at each of the words.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, Literal, NamedTuple

DEEP: Final = 4
"""How often a variable's value may name another variable."""
MANY: Final = 32
"""VariableValues of one word that are told apart; with more the word counts as unknown."""


def listed(names: str) -> frozenset[str]:
    """Return names that are written with blanks between them as a set."""
    return frozenset(names.split())


class WordPiece(NamedTuple):
    """A part of a word: text, the name of a variable, or what cannot be known before it runs."""

    kind: Literal["text", "name", "unknown"]
    text: str
    quoted: bool = False


NUMBER: Final = (WordPiece("unknown", "0"),)
"""The value of an expression: some whole number."""


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
        if any(piece.kind != "text" for piece in self.pieces) or (plain != "[" and _SPECIAL(plain)):
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
_SPECIAL: Final[Callable[[str], re.Match[str] | None]] = re.compile(r"[*?\[~]|\{(?!\})").search


def _splits(value: str, quoted: bool) -> bool:
    """True if an unquoted variable's value would become several words, or a pattern of file names."""
    return not quoted and (not value or re.search(r"[\s*?\[\\]", value) is not None)


GAP: Final = re.compile(r"(?:[ \t]|\\\n)*")
"""What may stand between two words of one command."""
BREAK: Final = re.compile(r"(?:[ \t\n]|\\\n)*")
"""What may stand between two commands."""
DASH: Final = re.compile(r"[ \t]+-[ \t]+")
"""A word that the grammar loses in front of a redirection: ``python - <<EOF``."""
DASHED: Final = re.compile(rf"{BREAK.pattern}|{DASH.pattern}")
"""What may stand in front of a redirection."""
WORD: Final = re.compile(r"(?:[^\s\\'\"`$|&;()<>\x00-\x1f\x7f]|\\[^\r\x00])+", re.DOTALL)
"""Unquoted text of a word."""
PATTERN: Final = re.compile(r"(?:[^\\'\"`$&;<>\n\x00-\x08\x0b-\x1f]|\\.|\$(?=[)|\s]|$))+", re.DOTALL)
"""A pattern of `case` or ``[[ =~ ]]``: it may hold brackets."""
RAW: Final = re.compile(r"'[^']*'")
"""A text in single quotes."""
PLAIN: Final = re.compile(r"(?:[^\\\"`$]|\\.|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Text in double quotes in which nothing expands."""
HEREDOC: Final = re.compile(r"(?:[^\\`$]|\\[^\n]|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Lines of a heredoc in which nothing expands."""
DELIMITER: Final = re.compile(
    r"(?P<plain>[\w.-]+)|'(?P<single>[\w .-]+)'|\"(?P<double>[\w .-]+)\"|\\(?P<escaped>\w+)"
)
"""What ends a heredoc, as it is named."""
VARIABLE: Final = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|[0-9@*#?$!-])")
"""A variable without braces."""
BRACED: Final = re.compile(
    r"\$\{(?:#?[@*#?$!-]|#?(?P<name>\w+)(?:\[(?:[@*]|\d+)\])?"
    r"(?P<rest>(?::?[-+?=]|##?|%%?|//?[#%]?|\^\^?|,,?)(?:[^`$\"'\\{}()<>]|\\[^\n])*|:-?\d+(?::\d+)?)?)\}"
)
"""A variable in braces, nothing else expanding in it. Others run what a variable holds: ``${x@P}``, ``${!x}``."""
OPENED: Final = re.compile(r"\$\{#?\w+(?:\[(?:[@*]|\d+)\])?(?::?[-+?=]|##?|%%?|//?|\^\^?|,,?)")
"""How a variable in braces begins in whose default or pattern something expands."""
DEFAULT: Final = re.compile(r"[^`$\"'\\{}()<>]*")
"""Text of such a default or pattern in which nothing expands."""
ARITHMETIC: Final = re.compile(r"[\w\s+*/%()<>=!&|^~?:;,-]*")
"""An expression without subscripts and expansions; each name in it is to hold a number."""
NAME: Final = re.compile(r"\b[A-Za-z_]\w*")
"""A variable in an expression."""
COMPARED: Final = re.compile(r"(?<!\S)-(?:eq|ne|lt|le|gt|ge|v|R)(?!\S)")
"""Tests whose operands are evaluated as expressions, or as a variable's name with its subscript."""
EVALUATED: Final = re.compile(r"-[A-Za-z]*[ivn]|(?=[^\[]*\[)[^$`]*[$`].*", re.DOTALL)
"""Words of `declare`, `read`, `unset`, `test` and `printf` by which a subscript or a value is evaluated."""
COMPOUND: Final = re.compile(r"\w+\+?=\(.*[$`<>]", re.DOTALL)
"""A quoted text that `declare` reads as an array, so that what stands in it expands."""
EVALUATING: Final = listed("declare typeset local export readonly unset read printf test [ wait getopts")
"""Builtins that evaluate a subscript in a name that they are given."""
NAMING: Final = listed("declare typeset local export readonly unset read getopts")
"""Builtins that take names: one that is not known may bring a subscript."""
INTEGERS: Final = listed("RANDOM SRANDOM SECONDS HISTCMD OPTIND LINENO")
"""Variables of bash whose value is evaluated as an expression when they are given one."""
RULING: Final = listed(
    "PATH CDPATH IFS PS4 ENV BASH_ENV LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT SHELLOPTS BASHOPTS"
)
"""Variables that decide what later commands run: no rule sees them set, but by an assignment."""
SETTING: Final = listed("read printf wait getopts mapfile readarray")
"""Builtins that give a variable that they are named a value which cannot be known."""


ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
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
    are redirections behind a compound command.
    """

    items: tuple[Word | Redirect, ...]
    chains: Chains
    plain: bool = True
    silent: bool = False

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


MAX_SUFFIXES: Final = 40
"""Words of a command in doubt at which what it runs is looked for."""


MAX_WRAPPERS: Final = 16
"""Wrappers inside one another that are followed."""


class InnerCommand(NamedTuple):
    """A command inside of another: words `start` to `stop`; `sure` False when it may begin elsewhere."""

    start: int
    stop: int
    sure: bool = True


class InnerScript(NamedTuple):
    """A text that the command passes to a shell; `sure` is False when more of it comes from elsewhere."""

    text: str
    sure: bool = True


class _Options(NamedTuple):
    """Which options a wrapper may have: letters without a value, with one, long names; then `skip` words."""

    flags: str = ""
    values: str = ""
    long: frozenset[str] = frozenset()
    skip: int = 0


_WRAPPERS: Final = {
    "sudo": _Options("AbEHknPS", "ugpCT"),
    "doas": _Options("nL", "uC"),
    "env": _Options("iv0", "u", frozenset(["ignore-environment", "unset"])),
    "command": _Options("p"),
    "builtin": _Options(),
    "exec": _Options("cl", "a"),
    "nohup": _Options(),
    "nice": _Options("", "n", frozenset(["adjustment"])),
    "ionice": _Options("t", "cn"),
    "stdbuf": _Options("", "ioe", frozenset(["input", "output", "error"])),
    "xargs": _Options(
        "0rtx", "aEIndLPs", frozenset(["null", "no-run-if-empty", "max-args", "max-procs", "verbose"])
    ),
    "timeout": _Options("v", "ks", frozenset(["foreground", "preserve-status", "signal", "kill-after"]), 1),
    "setsid": _Options("cfw", "", frozenset(["wait", "fork", "ctty"])),
    "time": _Options("p"),
    "busybox": _Options(),
}
_SHELLS: Final = frozenset(["sh", "bash", "dash"])
_OPAQUE: Final = listed("""
    zsh ksh fish ash csh tcsh source . alias trap coproc function case select mapfile readarray let shopt
    enable complete compgen bind hash fc ssh su runuser chroot unshare nsenter parallel watch script flock
    strace ltrace gdb taskset chrt setpriv prlimit numactl systemd-run pkexec fakeroot firejail bwrap
    if then elif else do done fi while until for in esac ! { }
    """)
"""Commands whose words are run in ways that are not followed, and keywords that cannot stand here."""
SPECIAL: Final = frozenset(_WRAPPERS) | _SHELLS | _OPAQUE | {"eval", "cd", "pushd", "popd", "find"}
"""Names that mean more than themselves: a function of that name is in doubt."""

_SHELL_FLAGS: Final = re.compile(r"-[eluxf]*[eluxfo]")
_SCRIPT_FLAGS: Final = re.compile(r"-[eluxf]*c[eluxf]*")
_EXECUTES: Final = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_EXPANDED: Final = re.compile(r"[*?\[{~]")


def program_name(word: Word) -> str:
    """Return the name of the program that a command word starts, without its folder."""
    return word.bare.rpartition("/")[2]


def inner_commands(
    words: Sequence[Word], start: int = 0, stop: int | None = None, depth: int = 0
) -> Iterator[InnerCommand | InnerScript]:
    """Yield a command, what it wraps, what that wraps, and the scripts that they hand to a shell."""
    stop = len(words) if stop is None else stop
    if start >= stop:
        return
    name = program_name(words[start])
    yield InnerCommand(start, stop, not _is_expanded(words[start]) and name not in _OPAQUE)
    if name in _SHELLS or name == "eval":
        yield from _script(words, start, stop)
    elif name in _OPAQUE or depth > MAX_WRAPPERS:
        yield from _anywhere(start + 1, stop)
    elif name == "find":
        yield from _executed(words, start, stop, depth)
    elif name in _WRAPPERS:
        if name == "command" and start + 1 < stop and words[start + 1].bare in ("-v", "-V"):
            return
        if name == "env" and any(word.bare == "-" for word in words[start + 1 : stop]):
            # A dash alone is an option of it, and of nothing else here.
            yield from _anywhere(start + 1, stop)
            return
        begin = _after_options(_WRAPPERS[name], words, start + 1, stop)
        if begin is None:
            yield from _anywhere(start + 1, stop)
        else:
            supplied = name == "xargs"
            yield from (
                _supplied(words, begin, stop, depth)
                if supplied
                else inner_commands(words, begin, stop, depth + 1)
            )


def _after_options(options: _Options, words: Sequence[Word], at: int, stop: int) -> int | None:
    """Where the wrapped command begins; None when an option is not understood."""
    while at < stop and words[at].bare.startswith("-") and words[at].bare != "-":
        option = words[at].literal
        if option is None:
            return None
        at += 1
        if option == "--":
            break
        if option.startswith("--"):
            name, _, value = option[2:].partition("=")
            if name not in options.long or (not value and name in _LONG_VALUES):
                return None
        elif not re.fullmatch(r"-\d+", option):
            taken = _letters(options, option[1:])
            # xargs -I with a name of its own may put what it read where the command stands.
            if taken is None or (
                option.startswith("-I")
                and "{}" not in (option[2:], *(word.bare for word in words[at : at + 1]))
            ):
                return None
            at += taken
    at += options.skip
    while at < stop and ASSIGNMENT.match(words[at].raw):
        at += 1
    return at


_LONG_VALUES: Final = listed("unset adjustment input output error max-args max-procs signal kill-after")


def _letters(options: _Options, letters: str) -> int | None:
    """How many more words short options take: 0 or 1; None for a letter that is not known."""
    for index, letter in enumerate(letters):
        if letter in options.values:
            return int(index == len(letters) - 1)
        if letter not in options.flags:
            return None
    return 0


def _script(words: Sequence[Word], start: int, stop: int) -> Iterator[InnerCommand | InnerScript]:
    """``sh -c 'text'`` and ``eval text``: the text where it is literal, else doubt."""
    if program_name(words[start]) == "eval":
        literals = [word.literal for word in words[start + 1 : stop]]
        if None not in literals:
            script = " ".join(one or "" for one in literals)
            # It runs in this very shell: the folder and variables that it sets stay.
            yield InnerScript(script, not re.search(r"\b(?:cd|pushd|popd)\b|[=(]", script))
            return
    else:
        at = start + 1
        while at + 1 < stop and _SHELL_FLAGS.fullmatch(words[at].raw):
            if words[at].raw.endswith("o"):
                at += 1
                if words[at].raw != "pipefail":
                    break
            at += 1
        text = words[at + 1].literal if at + 1 < stop and _SCRIPT_FLAGS.fullmatch(words[at].raw) else None
        # Options may follow -c too; then the text stands behind them.
        if text is not None and text[:1] not in ("-", "+"):
            yield InnerScript(text, program_name(words[start]) == "bash" or is_posix(text))
            return
        if start + 1 == stop:
            yield InnerCommand(start, stop, False)  # its commands come from a pipe or a file
    yield from _anywhere(start + 1, stop)


_POSIX: Final = re.compile(
    r"&>|>&(?![\d-])|\|&|[<>]\(|\$['\"]|\[\[|\(\(|<<<|;;?&|\b(?:function|select|coproc|time|alias)\b"
).search
"""What bash reads in another way than a plain `sh` does."""


def is_posix(text: str) -> bool:
    """True if a plain `sh` reads a text as bash does."""
    return _POSIX(text) is None


def _executed(
    words: Sequence[Word], start: int, stop: int, depth: int
) -> Iterator[InnerCommand | InnerScript]:
    """What ``find -exec`` runs."""
    for at in range(start + 1, stop):
        if words[at].literal not in _EXECUTES:
            continue
        end = next((one for one in range(at + 1, stop) if words[one].literal in (";", "+")), stop)
        yield from _supplied(words, at + 1, end, depth)


def _supplied(
    words: Sequence[Word], start: int, stop: int, depth: int
) -> Iterator[InnerCommand | InnerScript]:
    """A command that is given further words from elsewhere: in doubt when those may be a command."""
    found = list(inner_commands(words, start, stop, depth + 1))
    last = next((one for one in reversed(found) if isinstance(one, InnerCommand)), None)
    doubt = any(program_name(word) in _SHELLS for word in words[start:stop])
    if doubt or (last is not None and program_name(words[last.start]) in SPECIAL):
        found = [one._replace(sure=False) for one in found]
    yield from found


def _anywhere(start: int, stop: int) -> Iterator[InnerCommand]:
    """With no certainty, a command may begin at each word."""
    yield from (InnerCommand(at, stop, False) for at in range(start, min(stop, start + MAX_SUFFIXES)))


def _is_expanded(word: Word) -> bool:
    return word.bare != "[" and any(
        piece.kind != "text" or (not piece.quoted and _EXPANDED.search(piece.text)) for piece in word.pieces
    )
