"""What permission rules see of a shell command: each simple command in it, and the places that it names.

Only a shell understands shell; where the reading (`instar.tool.shell`) is in doubt it says so. The rules
then also see the text cut at every place where a command could begin, and the text behind `DOUBT`, which
nothing but a rule for everything (``*``) fits, and that only where no narrower one restricts: ``git *`` allowed
does not let through what was not understood, ``rm *`` denied is found in it, or it is asked about. Wrappers
(``sudo``, ``xargs``) count as themselves and as what they run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from instar.permission import DOUBT
from instar.tool.shell import leaf, wrapper
from instar.tool.shell.reach import Reach
from instar.tool.shell.simple import Chains, Redirect, Simple, unquoted, written
from instar.tool.shell.tree import MAX_TEXT, Reading
from instar.tool.shell.word import Names, Values, Word

MAX_SCRIPTS: Final = 8
"""Scripts inside one another (``sh -c "sh -c ..."``) that are read."""

__all__ = ["DOUBT", "MAX_SCRIPTS", "MAX_TEXT", "Judged", "always", "judge", "patterns"]


class Judged(NamedTuple):
    """A command as rules see it.

    `patterns` are each simple command, its words joined by one blank, as written and also without their
    quotes; one with assignments or redirections in front counts with them and without; with any doubt the
    whole too. `always` is what an `always` answer covers: ``<first word> *`` of each simple command that is
    not in doubt. `places` are the absolute paths that the words and redirections name, links not resolved.
    """

    patterns: list[str]
    always: list[str]
    places: list[Path]


def judge(text: str, folder: Path, environment: Mapping[str, str], *, bash: bool = True) -> Judged:
    """Read a command that is to run in `folder`; `bash` False when a plain `sh` will run it.

    `environment` holds the variables that it can count on.
    """
    text = text.strip(" \t\n")
    # A `cd` out of it asks by itself, so that where the command began is enough to see what leads out.
    script = _Script(text, folder, {**environment, "PWD": str(folder)})
    doubt = script.doubt or not (bash or wrapper.posix(text))
    found = script.patterns
    if doubt:
        cut = [" ".join(piece.split()) for piece in _CUTS.split(text)]
        found = [text, *found, DOUBT + text, *cut, *(_FRONT.sub("", piece) for piece in cut)]
    known = [pattern for pattern in dict.fromkeys(found) if pattern] or [text]
    lasting = list(dict.fromkeys(script.always)) or [*_exact(text)]
    return Judged(known, lasting, list(dict.fromkeys(script.places)))


def patterns(text: str) -> list[str]:
    """Return what rules see of a command (`Judged.patterns`) when nothing is known of where it runs."""
    return judge(text, Path("/"), {}).patterns


def always(text: str) -> list[str]:
    """Return what an `always` answer to a command covers (`Judged.always`)."""
    return judge(text, Path("/"), {}).always


_CUTS: Final = re.compile(r"[;&|()\n`{}'\"]+")
_FRONT: Final = re.compile(
    r"^(?:(?:\d?[<>]{1,2} ?[^ <>]+|[A-Za-z_]\w*=[^ ]*|!|if|then|elif|else|do|while|until|time|coproc) )+"
)
"""What may stand in front of a command's name."""


class _Script:
    """A script and those that it hands to shells."""

    def __init__(
        self,
        text: str,
        folder: Path,
        environment: Mapping[str, str],
        *,
        names: Names | None = None,
        chains: Chains = frozenset([()]),
        depth: int = 0,
    ) -> None:
        reading = Reading(text, chains)
        self.patterns: list[str] = []
        self.always: list[str] = []
        self.doubt = reading.doubt
        self._known = (folder, environment, depth)
        self._names = {**(names or {}), **dict.fromkeys(set(names or {}) & set(reading.names))}
        self._names = {**reading.names, **self._names}
        self._values = Values(self._names, environment)
        self._reach = Reach(folder, self._values)
        self.places = self._reach.places
        self.doubt = self.doubt or not all(map(self._values.number, reading.evaluated))
        for command in reading.found:
            self._add(command)
        self.doubt = self.doubt or self._reach.doubt

    def _add(self, command: Simple) -> None:
        self._reach.add(command)
        if command.silent:
            return
        words = command.words
        whole = written(command.items)
        if not command.plain or not words:
            self.patterns.append(whole)
            self.always += _exact(whole)
            return
        if written(command.at(0)) != whole:
            self.patterns.append(whole)
        for one in wrapper.inner(words):
            if isinstance(one, wrapper.Script):
                self._script(one, command.chains)
            else:
                self._inner(command, words, one)

    def _inner(self, command: Simple, words: Sequence[Word], one: wrapper.Inner) -> None:
        taken = words[one.start : one.stop]
        forms = [taken, command.at(one.start)] if one.stop == len(words) else [taken]
        first = taken[0]
        for items in reversed(forms):
            if items is not taken or _parted(forms) or len(forms) == 1:
                self.patterns += [written(items), unquoted(items)]
        sure = one.sure and not _evaluates(taken)
        self.doubt = self.doubt or not sure
        self.always += [f"{first.bare} *"] if sure and not _STRANGE(first.bare) else []
        if not one.sure:
            self.patterns += self._expanded(taken)

    def _expanded(self, words: Sequence[Word]) -> Iterator[str]:
        """The command with the values of its variables, where its name is one that is known."""
        for name in self._values.of(words[0]) or ():
            yield " ".join([name, *(word.bare for word in words[1:])])

    def _script(self, one: wrapper.Script, chains: Chains) -> None:
        folder, environment, depth = self._known
        if depth >= MAX_SCRIPTS:
            self.doubt = True
            return
        inner = _Script(one.text, folder, environment, names=self._names, chains=chains, depth=depth + 1)
        self.patterns += inner.patterns
        self.always += inner.always if one.sure and not inner.doubt else []
        self.places += inner.places
        self.doubt = self.doubt or inner.doubt or not one.sure


def _parted(forms: Sequence[Sequence[Word | Redirect]]) -> bool:
    """Whether a redirection stands in front of a command's last word, where it would hide that from a rule."""
    items = forms[-1]
    return any(
        isinstance(item, Redirect) and any(isinstance(later, Word) for later in items[at:])
        for at, item in enumerate(items)
    )


def _evaluates(words: Sequence[Word]) -> bool:
    """Whether a builtin is handed something that it evaluates: a subscript may run a command."""
    name = wrapper.program(words[0])
    return name in leaf.EVALUATING and any(
        leaf.EVALUATED.fullmatch(word.bare)
        or leaf.COMPOUND.match(shape := _shape(word))
        or ("$" in shape.partition("=")[0] and (name in leaf.NAMING or _has_name(words)))
        for word in words[1:]
    )


def _has_name(words: Sequence[Word]) -> bool:
    """Whether `wait` is given the name of a variable."""
    return wrapper.program(words[0]) == "wait" and any(
        re.match(r"-[A-Za-z]*p", word.bare) for word in words[1:]
    )


def _shape(word: Word) -> str:
    """A word's text with a ``$`` for each part that is not known before it runs."""
    return "".join(piece.text if piece.kind == "text" else "$" for piece in word.pieces)


_STRANGE: Final = re.compile(r"[*?\s\\]").search
"""What makes of a command's name a wildcard, or another command with its first words."""


def _exact(text: str) -> list[str]:
    """A text as a rule that fits nothing else; none where it would be a wildcard."""
    return [] if set("*?") & set(text) else [text]
