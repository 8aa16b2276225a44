"""A line of a comparison: what was measured of instar and of opencode, and what instar's may be."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Budget(NamedTuple):
    """What a figure may be: `limit` of opencode's own (`ratio`) or in the figure's unit, at most or at least."""

    limit: float
    ratio: bool = True
    least: bool = False

    def holds(self, ours: float, theirs: float | None) -> bool:
        """Judge a figure of instar's beside opencode's. A ratio to what was not measured does not hold."""
        if self.ratio and not theirs:
            return False
        value = ours / theirs if self.ratio and theirs else ours
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.limit:g}{' ×' if self.ratio else ''}"


class Row(NamedTuple):
    """One line of the table: what was measured in which unit, of both, and what instar's may be.

    `opencode` is None where it has no such thing. All of `budgets` have to hold: the ratio, and the absolute figure as
    a sanity bound. `aim` is what is worth trying for.
    """

    what: str
    unit: str
    instar: float
    opencode: float | None = None
    budgets: tuple[Budget, ...] = ()
    aim: Budget | None = None

    @property
    def held(self) -> bool | None:
        """Whether every budget holds; None without one."""
        return all(one.holds(self.instar, self.opencode) for one in self.budgets) if self.budgets else None

    @property
    def ratio(self) -> float | None:
        """What instar's figure is of opencode's; None where there is none of opencode's."""
        return self.instar / self.opencode if self.opencode else None

    def line(self) -> str:
        """The line as it is printed."""
        said = {None: "", True: "holds", False: "MISSED"}[self.held]
        theirs = "-" if self.opencode is None else f"{self.opencode:.2f}"
        ratio = "-" if self.ratio is None else f"{self.ratio:.3f} ×"
        limit, aim = ", ".join(map(str, self.budgets)), str(self.aim or "")
        return (
            f"{self.what:<56}{self.instar:>9.2f}{theirs:>10} {self.unit:<8}{ratio:>10}  {limit:<16}{said:<7}{aim}"
        ).rstrip()

    def said(self) -> dict[str, Any]:
        """The row as JSON: its figures, its budgets and its aim in words, and whether it holds."""
        figures = {"what": self.what, "unit": self.unit, "instar": self.instar, "opencode": self.opencode}
        words = {"budgets": [*map(str, self.budgets)], "aim": str(self.aim) if self.aim else None}
        return {**figures, **words, "holds": self.held}


HEAD = f"{'':<56}{'instar':>9}{'opencode':>10} {'':<8}{'ratio':>10}  {'budget':<16}{'':<7}aim"

Show = Callable[[Row], None]
"""Where a row goes as soon as it is known."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed. Raises `ValueError` of none."""
    if not values:
        raise ValueError("a percentile of nothing")
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def empty() -> tuple[list[float], list[float]]:
    """Figures of both, none yet."""
    return [], []


def both(
    found: Sequence[Sequence[float]], reckon: Callable[[Sequence[float]], float] = statistics.median
) -> tuple[float, float]:
    """What `reckon` makes of the figures of instar, and of those of opencode."""
    return reckon(found[0]), reckon(found[1])
