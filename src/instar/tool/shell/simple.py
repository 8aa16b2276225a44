"""A simple command: its words and redirections in the order written."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from instar.tool.shell.word import Word

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


class Simple(NamedTuple):
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
