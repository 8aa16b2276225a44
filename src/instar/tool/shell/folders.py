"""Follows `cd` through a script: the folders that each of its commands may run in."""

from collections.abc import Sequence
from typing import Final

from instar.tool.shell.simple import Chains
from instar.tool.shell.word import Word, text

MAX_CHAINS: Final = 16
"""Ways of changing the folder that are told apart."""
MOVING: Final = frozenset(["cd", "pushd", "popd"])
"""Builtins that change the folder."""
START: Final[Chains] = frozenset([()])
"""The folder that the script starts in."""


class Folders:
    """The folders that the next command may run in.

    `loops` counts the loops around it, `moved` says whether any `cd` was seen.
    """

    def __init__(self, chains: Chains = START) -> None:
        self.chains = chains
        self.loops = 0
        self.moved = False

    def move(self, words: Sequence[Word]) -> tuple[Chains, bool]:
        """Follow a `cd`: afterwards the folder is the old or the new one.

        Return the new one, and whether it is sure.
        """
        operands = [word for word in words[1:] if word.raw not in ("-L", "-P", "--")]
        home = Word("~", "~", tuple(text("~")))
        target = operands[0] if operands else home
        self.moved = True
        known = words[0].bare == "cd" and len(operands) <= 1 and not target.bare.startswith("-")
        new = frozenset((*chain, target) for chain in self.chains)
        self.chains |= new
        if len(self.chains) > MAX_CHAINS:
            self.chains = START
            return START, False
        return new, known and not self.loops
