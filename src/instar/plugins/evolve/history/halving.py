"""Halving: finds the first bad one of a row by as few looks as possible. No input or output.

The law: positions 0 (good) to `last` (bad) are a row in which good ones come before bad ones; where that does not hold,
a bad one just after a good one is found all the same. Without skips a row of n = `last` candidates takes at most
ceil(log2 n) looks. A position that cannot be told is left out, and looked around.
"""

import math
from typing import Literal

Verdict = Literal["good", "bad", "unknown"]
"""What a look at one position says; unknown: it cannot be told there."""


class Halving:
    """One search in a row whose position 0 is good and whose position `last` (from 1) is bad."""

    def __init__(self, last: int) -> None:
        self._good, self._bad = 0, last
        self._skipped: set[int] = set()

    def ask(self) -> int | None:
        """Return the position to look at next, the nearest to the middle that is open; None at the end."""
        open_ones = [at for at in range(self._good + 1, self._bad) if at not in self._skipped]
        middle = (self._good + self._bad) / 2
        return min(open_ones, key=lambda at: (abs(at - middle), at), default=None)

    def tell(self, position: int, verdict: Verdict) -> None:
        """Take in what was seen at `position`, which `ask` gave."""
        if verdict == "unknown":
            self._skipped.add(position)
        elif verdict == "good":
            self._good = position
        else:
            self._bad = position

    @property
    def suspects(self) -> range:
        """The positions of which one is the first bad: at the end a single one, more only beside skipped ones."""
        return range(self._good + 1, self._bad + 1)

    @property
    def left(self) -> int:
        """About how many more looks it takes."""
        open_ones = [at for at in self.suspects if at not in self._skipped]
        return math.ceil(math.log2(len(open_ones))) if open_ones else 0
