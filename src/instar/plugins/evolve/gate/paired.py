"""A paired sequential test: what scores say of a candidate beside a reference, at any number of pairs.

A pair is one score of each on the same input. Its difference d, the candidate's less the reference's in units of the
width of the range that scores lie in, is between -1 and 1. To test the hypothesis "the mean of d is at most m" it is
bet against: a wealth that begins at 1 is multiplied by 1 + b * (d - m) for each pair, with a bet b from 0 to
1 / (1 + m), so that it never falls below 0. Where the hypothesis holds, the wealth grows for nobody: the probability
that it ever comes to 1 / a is at most a (Ville's inequality), however often one looks and whenever one stops. This
asks nothing of how scores are distributed but their range. It is the test of Waudby-Smith and Ramdas, "Estimating means
of bounded random variables by betting" (2024, arXiv 2010.09686), with a fixed grid of bets.

A candidate is *no worse* when the hypothesis that it is worse by more than the margin is rejected, and *better* when
the one that it is not better is. Both may be wrong with the probability `risk`. It is *worse* when the opposite of
the first is rejected; that is wrong with the probability `_FUTILE`, and costs a good candidate and no harm.

The risks of all candidates that are tried sum up to `BUDGET` (`risk_of`). So the probability that any of them was
installed though it is worse than the reference by more than the margin is at most that, whatever was proposed, and
by the union bound also where one was proposed for what came of another.
"""

from typing import Final, Literal

Verdict = Literal["better", "no worse", "worse", "undecided"]

BUDGET: Final = 0.01
"""The probability that a worse candidate is ever installed, over all that are tried since a person accepted last."""
_FUTILE: Final = 0.05
_BETS: Final = ((0.98, 0.5), (0.5, 0.1), (0.25, 0.1), (0.12, 0.1), (0.06, 0.1), (0.03, 0.1))
"""The bets, as parts of the largest one, with the wealth that is put on each.

Which is best depends on how the differences spread: the largest one where that is little beside the range.
"""
_OFFSET: Final = 9
_SCALE: Final = 1.5
"""The sum of `_SCALE` / (n + `_OFFSET`) ** 1.5 over n = 1, 2, … is 0.973."""


def risk_of(number: int) -> float:
    """Return what part of `BUDGET` the candidate of this number may take: 1 for the first since a person accepted.

    It falls slowly: the 100th one has to show itself with 1.5 times the logarithm of the evidence of the first.
    """
    return float(BUDGET * _SCALE / (number + _OFFSET) ** 1.5)


class _Wealth:
    """Bets against "the mean is at most `mean`" (-1 to 1); `total` is the wealth of all together, 1 at first."""

    def __init__(self, mean: float) -> None:
        self._mean = mean
        self._bets = [fraction / (1 + mean) for fraction, _ in _BETS]
        self._parts = [part for _, part in _BETS]
        self.total = 1.0

    def add(self, difference: float) -> None:
        gain = difference - self._mean
        # What comes to nothing is lost for good: that shows less than the test might, never more.
        self._parts = [part * (1 + bet * gain) for part, bet in zip(self._parts, self._bets, strict=True)]
        self.total = sum(self._parts)


class PairedTest:
    """What the pairs so far say. `margin` (above 0, below 1) and differences are in units of the range's width.

    `risk` is the probability with which "no worse" and "better" may each be wrong.
    """

    def __init__(self, margin: float, risk: float) -> None:
        self._no_worse = _Wealth(-margin)
        self._better = _Wealth(0.0)
        self._worse = _Wealth(margin)
        self._shown = 1 / risk
        # Whoever is no better than by the margin need not be looked at until they prove to be better.
        self._no_better = _Wealth(-margin)
        self._found: Verdict = "undecided"
        self.done = False

    def add(self, difference: float) -> None:
        """Add a pair, unless it is decided. Raises `ValueError` for a difference that is not between -1 and 1."""
        if not -1 <= difference <= 1:
            raise ValueError(f"a difference of {difference} is not in the range")
        if self.done:
            return
        self._better.add(difference)
        self._no_better.add(-difference)
        if self._found == "undecided":
            self._no_worse.add(difference)
            self._worse.add(-difference)
        self._look()

    @property
    def verdict(self) -> Verdict:
        """What is shown so far."""
        return self._found

    def _look(self) -> None:
        if self._better.total >= self._shown:
            self._found, self.done = "better", True
        elif self._found == "no worse" or self._no_worse.total >= self._shown:
            self._found, self.done = "no worse", self._no_better.total >= 1 / _FUTILE
        elif self._worse.total >= 1 / _FUTILE:
            self._found, self.done = "worse", True
