"""Which places a simple command names: its redirections, and the words that look like paths.

Any word of any command may be a path. Words count that lead out of the folder; of what is not known
to be a command that works on files, only those that name something that could be there. What a file name's
pattern (``*``) or a program finds beyond its words is not followed.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from instar.tool.shell import wrapper
from instar.tool.shell.simple import ASSIGNMENT, Chains, Simple
from instar.tool.shell.word import Values, Word, listed

MAX_FOLDERS: Final = 16
"""Folders that a command may run in that are told apart."""

_WRITES: Final = listed("""
    rm mv cp mkdir rmdir touch chmod chown chgrp ln tee dd install rsync truncate unlink shred mkfifo mknod
    """)
"""Commands whose words are what they change: one that cannot be known is in doubt."""
_FILES: Final = _WRITES | listed("cat ls head tail less more find stat source . tar zip unzip")
"""Commands whose words count as paths whether or not something is there."""
_TEXTS: Final = listed("""
    echo printf true false : exit return kill sleep seq set shift basename dirname expr test [ [[ wait read
    export unset declare typeset local readonly umask ulimit getopts type which hash break continue
    """)
"""Commands whose words are no files that they open."""
_PROGRAMS: Final = listed("grep egrep fgrep rg ag sed gsed awk gawk mawk nawk jq yq perl python python3")
"""Commands whose first word is a pattern or a program."""
_READING: Final = frozenset(["<", "<&"])
_GLOB: Final = re.compile(r"[*?\[]")
_ATTACHED: Final = re.compile(r"-[A-Za-z](?=[/~@]|\.\.(?:/|$))")
_DEVICES: Final = re.compile(
    r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)|/proc/self/fd/\d+"
)
_DOTS: Final = re.compile(r"^\.{1,2}(?:/|$)|(?:^|/)\.{1,2}$")
"""Where braces may put two dots together."""
_LONGEST: Final = 4096


class Reach:
    """The places that one script's commands name; `doubt` when one that is written to cannot be known."""

    def __init__(self, folder: Path, values: Values) -> None:
        self.doubt = False
        self.places: list[Path] = []
        self._folder = str(folder)
        self._values = values
        self._folders: dict[Chains, list[str]] = {}

    def add(self, command: Simple) -> None:
        """Look at a command."""
        folders = self._starts(command.chains)
        for redirect in command.redirects:
            if redirect.target is None:
                continue
            values = self._known(redirect.target, write=redirect.operator not in _READING)
            for value in values:
                self._place(value, folders)
        if not command.silent:
            self._words(command, folders)
        if not command.plain and [word.raw for word in command.words[:1]] == ["for"]:
            self._looped(command.words[3:], folders)

    def _words(self, command: Simple, folders: Sequence[str]) -> None:
        words = command.words
        found = (
            [one for one in wrapper.inner(words) if isinstance(one, wrapper.Inner)] if command.plain else []
        )
        starts = {one.start for one in found}
        names = {wrapper.program(words[one.start]) for one in found if one.sure or one is found[0]}
        if not found or (len(names) == 1 and names & _TEXTS):
            return
        write = bool(names & _WRITES)
        program = bool(names & _PROGRAMS)
        for index, word in enumerate(words):
            if index in starts or (index < max(starts) and ASSIGNMENT.match(word.raw)):
                continue
            optional = word.bare.startswith("-")
            must = bool(names & _FILES) and not optional
            for value in self._known(word, write=write):
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

    def _known(self, word: Word, *, write: bool) -> list[str]:
        """The values of a word, its braces taken apart; none, and doubt where it matters, when not known."""
        values = self._values.of(word)
        if values is None:
            self.doubt = self.doubt or write
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
            folders = [way(path) for path in joined for way in (os.path.normpath, os.path.realpath)]
            folders = list(dict.fromkeys(folders))
        return folders

    def _is_there(self, text: str, folders: Sequence[str], *, pattern: bool) -> bool:
        """Whether a word names something, or (unless it may be a pattern) a place where something may be made."""
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
    """What of a word may be a path: all of it, what follows ``=``, what touches a short option."""
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
