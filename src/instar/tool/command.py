"""What permission rules see of a shell command: each simple command in it, and the places that it names.

Only a shell understands shell, so `instar.tool.shell` says when it is in doubt. The rules then also see the text cut
at every place where a command could begin, and the text behind `DOUBT`. That matches only a rule for everything
(``*``), and only where no narrower rule restricts: ``git *`` allowed does not let through what was not understood,
``rm *`` denied is found in it, or it is asked about. Wrappers (``sudo``, ``xargs``) count as themselves and as what
they run.

Any word of any command may be a path. Words count that lead out of the folder; of what is not known to be a command
that works on files, only those that name something that could be there. What a file name's pattern (``*``) or a
program finds beyond its words is not followed.

Beside that stands what a command may come to (`JudgedCommand.possible`): a program by its name alone, without the
options in front of its subcommand, with a hole for each value that is known only when it runs. Where a command hands
texts to programs that may run them, its words are looked through for what a rule names (`JudgedCommand.texts`).
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Final, NamedTuple

from instar.settings.permission import DOUBT, HOLE, WORD_HOLE
from instar.tool.shell.programs import (
    OPTIONS,
    WRAPPERS,
    InnerCommand,
    InnerScript,
    Options,
    inner_commands,
    is_inert,
    is_posix,
    named_in,
    program_name,
    same,
    starts_hidden,
)
from instar.tool.shell.tree import ScriptReading
from instar.tool.shell.word import (
    ASSIGNMENT,
    COMPOUND,
    EVALUATED_OPTIONS,
    EVALUATING,
    MANY,
    NAMING,
    STEERING,
    SUBSCRIPT,
    Chains,
    Names,
    Redirect,
    SimpleCommand,
    VariableValues,
    Word,
    listed,
    unquoted,
    written,
)
from instar.wire.pattern import late_pattern

MAX_FOLDERS: Final = 16
"""Folders that a command may run in that are told apart."""

_WRITES: Final = listed("""
    rm mv cp mkdir rmdir touch chmod chown chgrp ln tee dd install rsync truncate unlink shred mkfifo mknod
    """)
"""Commands whose words are what they change: one that cannot be known is in doubt."""
_FILES: Final = _WRITES | listed("""
    cat ls head tail less more find stat source . tar zip unzip sort uniq wc diff cmp file xxd od hexdump strings
    base64 nl tac rev paste join md5sum sha1sum sha256sum
    """)
"""Commands whose words count as paths whether or not something is there."""
_TEXTS: Final = listed("""
    echo printf true false : exit return kill sleep seq set shift basename dirname expr test [ [[ wait read
    export unset declare typeset local readonly umask ulimit getopts type which hash break continue tr
    """)
"""Commands whose words are no files that they open."""
_PROGRAMS: Final = listed("grep egrep fgrep rg ag sed gsed awk gawk mawk nawk jq yq perl python python3")
"""Commands whose first word is a pattern or a program."""
_LISTING: Final = listed("""
    ls find fd git grep egrep fgrep rg ag cat head tail sort uniq wc basename dirname pwd cd date seq nproc uname
    whoami id hostname tr cut xargs while read true : 0
    """)
"""Programs that print what is in the folder, or nothing that is a path."""
_READING: Final = frozenset(["<", "<&"])
_GLOB: Final = late_pattern(r"[*?\[]")
_ATTACHED: Final = late_pattern(r"-(?![dFt]/$)[A-Za-z](?=[/~@]|\.\.(?:/|$))")
_DEVICES: Final = late_pattern(
    r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)|/proc/self/fd/\d+"
)
_DOTS: Final = late_pattern(r"^\.{1,2}(?:/|$)|(?:^|/)\.{1,2}$")
"""Where braces may put two dots together."""
_LONGEST: Final = 4096


class _Reach:
    """The places that one script's commands name; `doubt` when one that is written to cannot be known."""

    def __init__(self, folder: Path, values: VariableValues) -> None:
        self.doubt = False
        self.places: list[Path] = []
        self.unknown: list[str] = []
        self._folder = str(folder)
        self._values = values
        self._folders: dict[Chains, list[str]] = {}

    def add(self, command: SimpleCommand) -> None:
        """Look at a command."""
        folders = self._starts(command.chains)
        for redirect in command.redirects:
            if redirect.target is None:
                continue
            values = self._known(redirect.target, write=redirect.operator not in _READING, opened=True)
            for value in values:
                self._place(value, folders)
        if not command.silent:
            self._words(command, folders)
        if not command.plain and [word.raw for word in command.words[:1]] == ["for"]:
            self._looped(command.words[3:], folders)

    def _words(self, command: SimpleCommand, folders: Sequence[str]) -> None:
        words = command.words
        found = (
            [one for one in inner_commands(words) if isinstance(one, InnerCommand)] if command.plain else []
        )
        starts = {one.start for one in found}
        names = {program_name(words[one.start]) for one in found if one.sure or one is found[0]}
        if not found or (len(names) == 1 and names & _TEXTS):
            return
        write = bool(names & _WRITES)
        given = (
            {"?"}
            if any(one.operator in ("<<<", "<<") for one in command.redirects)
            else {*command.fed.split()}
        )
        if names & _FILES and found[-1].more == "xargs" and not given <= _LISTING:
            self.unknown.append(HOLE)
        program = bool(names & _PROGRAMS)
        for index, word in enumerate(words):
            if index in starts or (index < max(starts) and ASSIGNMENT.match(word.raw)):
                continue
            optional = word.bare.startswith("-")
            must = bool(names & _FILES) and not optional
            for value in self._known(word, write=write, opened=must):
                for text in _candidates(value):
                    if (
                        must
                        or text.startswith("~")
                        or self._is_there(text, folders, pattern=program and not optional)
                    ):
                        self._place(text, folders)
            program = program and optional

    def _looped(self, words: Sequence[Word], folders: Sequence[str]) -> None:
        """The words behind ``for NAME in``: the loop's commands are handed them by a name."""
        for word in words:
            for value in self._known(word, write=False):
                if self._is_there(value, folders, pattern=False):
                    self._place(value, folders)

    def _known(self, word: Word, *, write: bool, opened: bool = False) -> list[str]:
        """The values of a word, its braces taken apart; none, and doubt where it matters, when not known.

        One that names a file to be `opened` is in doubt unless programs print it that name what is in the folder.
        """
        values = self._values.of(word)
        if values is None:
            if not self._values.sources(word) <= _LISTING:
                self.doubt = self.doubt or write
                if opened:
                    self.unknown.append(
                        "".join(one.text if one.kind == "text" else HOLE for one in word.pieces)
                    )
            # What stands in front of the part that is not known may lead out already.
            head = next((one.text for one in word.pieces if one.kind == "text"), "")
            return [head] if word.pieces and word.pieces[0].kind == "text" and "/" in head else []
        if not word.braced:
            return values
        parts = [part for value in values for part in _braces(value)]
        self.doubt = self.doubt or (write and any(_DOTS.search(part) for part in parts))
        return parts

    def _starts(self, chains: Chains) -> list[str]:
        """The folders that a command may run in; in doubt when one of them cannot be known."""
        if chains not in self._folders:
            found: dict[str, None] = {}
            for chain in chains:
                found.update(dict.fromkeys(self._followed(chain)))
            self.doubt = self.doubt or len(found) > MAX_FOLDERS
            self._folders[chains] = list(found)[:MAX_FOLDERS]
        return self._folders[chains]

    def _followed(self, chain: Sequence[Word]) -> list[str]:
        folders = [self._folder]
        for target in chain:
            values = self._values.of(target)
            if values is None or len(values) * len(folders) > MAX_FOLDERS or target.braced or not all(values):
                self.doubt = True
                return folders
            # `cd` folds `..` as written; with -P, and for every other program, links are followed first.
            joined = [str(Path(folder, _home(value))) for folder in folders for value in values]
            self.doubt = self.doubt or any(_GLOB.search(value) for value in values)
            folders = [resolve(path) for path in joined for resolve in (os.path.normpath, os.path.realpath)]
            folders = list(dict.fromkeys(folders))
        return folders

    def _is_there(self, text: str, folders: Sequence[str], *, pattern: bool) -> bool:
        """True if a word names something, or (unless it may be a pattern) a place where something may be made."""
        if len(text) > _LONGEST:
            return False
        for folder in folders:
            path = Path(folder, _home(_fixed(text)))
            if os.path.lexists(path) or (not pattern and len(path.parts) > 2 and path.parent.is_dir()):
                return True
        return False

    def _place(self, text: str, folders: Sequence[str]) -> None:
        if len(text) > _LONGEST:
            self.doubt = True
            return
        if not text or _DEVICES.fullmatch(os.path.normpath(text)):
            return
        self.doubt = self.doubt or re.match(r"~[^/]", text) is not None
        for folder in folders:
            self.places.append(Path(folder, _home(_fixed(text))))


def _candidates(value: str) -> Iterator[str]:
    """The parts of a word that may be a path: all of it, what follows ``=``, what touches a short option."""
    if re.match(r"[A-Za-z][\w+.-]+://", value) and not value.startswith("file:"):
        return
    attached = _ATTACHED.match(value)
    named = re.match(r"(?:-[A-Za-z]|[\w.-]+=)?@(?=[/~.])", value)
    if named:
        yield value[named.end() :]  # a file whose content is sent: curl -d @file
    elif attached:
        yield value[attached.end() :]
    elif not value.startswith("-"):
        yield value
    if value.startswith(("/", "~")) and ":" in value:
        yield value.partition(":")[0]  # a volume to mount, the head of a list of folders
    if "=" in value:
        yield value.partition("=")[2]
    if value.startswith("file://"):
        yield value.removeprefix("file://")


def _fixed(text: str) -> str:
    """The part of a path in front of the first pattern of file names."""
    found = _GLOB.search(text)
    return text if found is None else text[: text.rfind("/", 0, found.start()) + 1] or "."


def _home(text: str) -> str:
    return str(Path.home()) + text[1:] if text == "~" or text.startswith("~/") else text


def _braces(value: str) -> Iterator[str]:
    """The parts of a word in braces, each alone and behind what stands in front of them."""
    front, *parts = re.split(r"[{},]", value)
    yield front
    for part in parts:
        yield from (part, front + part)


MAX_SCRIPTS: Final = 8
"""Scripts inside one another (``sh -c "sh -c ..."``) that are read."""


class JudgedCommand(NamedTuple):
    """A command as rules see it.

    `patterns` are each simple command, its words joined by one blank, as written and also without their
    quotes; one with assignments or redirections in front counts with them and without; with any doubt the
    whole too. `always` is what an `always` answer covers: each as it is written,
    or nothing where one is in doubt or would be a wildcard. `places` are
    the absolute paths that the words and redirections name, links not resolved, `unknown` the words that name one
    which is known only when it runs. `possible` and `texts` are those of an `Ask`.
    """

    patterns: list[str]
    always: list[str]
    places: list[Path]
    unknown: list[str]
    possible: list[str]
    texts: list[str]


def judge(
    text: str, folder: Path, environment: Mapping[str, str], *, bash: bool = True, options: Options = OPTIONS
) -> JudgedCommand:
    """Read a command that is to run in `folder`; `bash` False when a plain `sh` will run it.

    `environment` holds the variables that it can count on.
    """
    text = text.strip(" \t\n")
    # A `cd` out of it asks by itself, so that where the command began is enough to see what leads out.
    script = _Script(text, folder, {**environment, "PWD": str(folder)}, options)
    doubt = script.doubt or not (bash or is_posix(text))
    doubt = doubt or starts_hidden(script.programs, text)
    found = script.patterns
    if doubt:
        cut = [" ".join(piece.split()) for piece in _CUTS.split(text)]
        found = [text, *found, DOUBT + text, *cut, *(_FRONT.sub("", piece) for piece in cut)]
    known = [pattern for pattern in dict.fromkeys(found) if pattern] or [text]
    possible = [one for one in dict.fromkeys(script.possible) if one not in known]
    runs = not all(is_inert(name, words, options) for name, *words in script.programs)
    return JudgedCommand(
        known,
        # In doubt it may be another command the next time.
        [] if doubt or any(map(_WILD.search, script.written)) else list(dict.fromkeys(script.written)),
        list(dict.fromkeys(script.places)),
        list(dict.fromkeys(script.unknown)),
        possible,
        named_in(text, options) if runs else [],
    )


_CUTS: Final = late_pattern(r"[;&|()\n`{}'\"]+")
_FRONT: Final = late_pattern(
    r"^(?:(?:\d?[<>]{1,2} ?[^ <>]+|[A-Za-z_]\w*=[^ ]*|!|if|then|elif|else|do|while|until|time|coproc) )+"
)
"""What may stand in front of a command's name."""


class _Script:
    """A script and those that it hands to shells. `programs` are the commands in it, each as its name and words."""

    def __init__(
        self,
        text: str,
        folder: Path,
        environment: Mapping[str, str],
        options: Options,
        *,
        names: Names | None = None,
        chains: Chains = frozenset([()]),
        depth: int = 0,
    ) -> None:
        reading = ScriptReading(text, chains)
        self.patterns: list[str] = []
        self.written: list[str] = []
        self.possible: list[str] = []
        self.programs: list[list[str]] = []
        self.doubt = reading.doubt
        self._known = (folder, environment, options)
        self._depth = depth
        self._names = {**(names or {}), **dict.fromkeys(set(names or {}) & set(reading.names))}
        self._names = {**reading.names, **self._names}
        self._values = VariableValues(self._names, environment)
        self._reach = _Reach(folder, self._values)
        self.places, self.unknown = self._reach.places, self._reach.unknown
        self.doubt = self.doubt or not all(map(self._values.number, reading.evaluated))
        for command in reading.found:
            self._add(command)
        self.doubt = self.doubt or self._reach.doubt

    def _add(self, command: SimpleCommand) -> None:
        self._reach.add(command)
        if command.silent:
            return
        words = command.words
        whole = written(command.items)
        self.written.append(whole)
        if not command.plain or not words:
            self.patterns.append(whole)
            return
        if written(command.at(0)) != whole:
            self.patterns.append(whole)
        for one in inner_commands(words):
            if isinstance(one, InnerScript):
                self._script(one, command.chains)
            else:
                self._inner(command, words, one)

    def _inner(self, command: SimpleCommand, words: Sequence[Word], one: InnerCommand) -> None:
        taken = words[one.start : one.stop]
        forms = [taken, command.at(one.start)] if one.stop == len(words) else [taken]
        for items in reversed(forms):
            if items is not taken or _parted(forms) or len(forms) == 1:
                self.patterns += [written(items), unquoted(items)]
        self.doubt = self.doubt or not one.sure or _evaluates(taken)
        self.programs.append([program_name(taken[0]), *(word.bare for word in taken[1:])])
        self.possible += self._meanings(taken, one.more)

    def _meanings(self, words: Sequence[Word], more: str) -> Iterator[str]:
        """What a command may come to: with the values of its variables, and by its program's name alone."""
        choices = [self._choices(word, more) for word in words] + [[HOLE]] * (more == "xargs")
        if prod(map(len, choices)) > MANY:
            choices = [one if len(one) == 1 else [HOLE] for one in choices]
        for chosen in product(*choices):
            yield " ".join(chosen)
            # A name that is not known may be any: the command is in doubt.
            if HOLE not in chosen[0]:
                yield from (" ".join(one) for one in same(chosen, self._known[2]))

    def _choices(self, word: Word, more: str) -> list[str]:
        """The texts that a word may be, with holes for what is not known of it."""
        if more == "find" and "{}" in word.bare:
            return [word.bare.replace("{}", f"./{HOLE}")]
        found = [""]
        for piece in word.pieces:
            if piece.kind == "text":
                values = [piece.text if piece.quoted else _GLOBS.sub(WORD_HOLE, piece.text)]
            else:
                values = self._values.of(Word("", "", (piece,))) or [HOLE]
            found = [front + value for front in found for value in values][: MANY + 1]
        return [one.partition("{")[0] + HOLE for one in found] if word.braced else found

    def _script(self, one: InnerScript, chains: Chains) -> None:
        if self._depth >= MAX_SCRIPTS:
            self.doubt = True
            return
        inner = _Script(one.text, *self._known, names=self._names, chains=chains, depth=self._depth + 1)
        self.patterns += inner.patterns
        self.written += inner.written
        self.possible += inner.possible
        self.programs += inner.programs
        self.places += inner.places
        self.unknown += inner.unknown
        self.doubt = self.doubt or inner.doubt or not one.sure


_GLOBS: Final = late_pattern(r"[*?]+|\[[^\]]*\]")
"""Patterns of file names in a word."""


def _parted(forms: Sequence[Sequence[Word | Redirect]]) -> bool:
    """True if a redirection stands in front of a command's last word, where it would hide that from a rule."""
    items = forms[-1]
    return any(
        isinstance(item, Redirect) and any(isinstance(later, Word) for later in items[at:])
        for at, item in enumerate(items)
    )


def _evaluates(words: Sequence[Word]) -> bool:
    """True if a builtin is handed something that it evaluates, a subscript among it, or a variable that runs things."""
    name = program_name(words[0])
    letters = EVALUATED_OPTIONS.get(name)
    if letters and any(re.match(rf"-[A-Za-z]*[{letters}]", word.bare) for word in words[1:]):
        return True
    if name in WRAPPERS or name in EVALUATING:
        given = (ASSIGNMENT.match(word.bare) for word in words[1:])
        if any(one and STEERING.fullmatch(one[0].rstrip("+=")) for one in given):
            return True
    return name in EVALUATING and any(
        SUBSCRIPT.match(word.bare)
        or COMPOUND.match(shape := _shape(word))
        or ("$" in shape.partition("=")[0] and (name in NAMING or _has_name(words)))
        for word in words[1:]
    )


def _has_name(words: Sequence[Word]) -> bool:
    """True if `wait` is given the name of a variable."""
    return program_name(words[0]) == "wait" and any(re.match(r"-[A-Za-z]*p", word.bare) for word in words[1:])


def _shape(word: Word) -> str:
    """A word's text with a ``$`` for each part that is not known before it runs."""
    return "".join(piece.text if piece.kind == "text" else "$" for piece in word.pieces)


_WILD: Final = late_pattern(r"[*?\\]")
"""What makes of a text a rule that matches others too."""
