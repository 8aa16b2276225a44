"""Finds the commands and scripts that a command runs: those of ``sudo``, ``xargs``, ``find -exec``, ``sh -c`` …

What is not understood here is in doubt: then a command may begin at each of the words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from instar.tool.shell.word import ASSIGNMENT, Word, listed

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
    """A text that the command hands to a shell; `sure` False when more of it comes from elsewhere."""

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
