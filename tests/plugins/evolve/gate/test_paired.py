"""The paired test: what it decides, and how often it may be wrong whoever looks and stops."""

import math
import random
from collections.abc import Iterator

import pytest

from instar.plugins.evolve.gate.paired import BUDGET, PairedTest, risk_of


def decided(
    differences: Iterator[float], margin: float = 0.05, risk: float = 0.001, most: int = 4000
) -> PairedTest:
    test = PairedTest(margin, risk)
    for _ in range(most):
        if test.done:
            break
        test.add(next(differences))
    return test


def drawn(mean: float, spread: float, seed: int) -> Iterator[float]:
    chance = random.Random(seed)
    while True:
        yield mean + chance.uniform(-spread, spread)


def flips(mean: float, seed: int) -> Iterator[float]:
    """Pass or fail, of each side: the differences are -1, 0 and 1."""
    chance = random.Random(seed)
    while True:
        yield (chance.random() < 0.5 + mean) - (chance.random() < 0.5)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.2, "better"), (0.05, "better"), (0.0, "no worse"), (-0.1, "worse"), (-0.3, "worse")],
)
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5])
def test_enough_pairs_decide(mean: float, verdict: str, spread: float) -> None:
    test = decided(drawn(mean, spread, 1))
    assert (test.verdict, test.done) == (verdict, True)


def test_nothing_is_decided_by_few_pairs() -> None:
    assert decided(drawn(1.0, 0.0, 1), most=4).verdict == "undecided"
    assert decided(drawn(0.0, 0.0, 1), most=100).verdict == "undecided"


def test_what_is_decided_stays() -> None:
    test = decided(drawn(-0.5, 0.0, 1))
    for _ in range(1000):
        test.add(1.0)
    assert test.verdict == "worse"


@pytest.mark.parametrize("difference", [1.0001, -1.0001, math.nan, math.inf])
def test_a_difference_out_of_the_range_is_refused(difference: float) -> None:
    with pytest.raises(ValueError, match="is not in the range"):
        PairedTest(0.05, 0.001).add(difference)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["drawn", "flips", "rare"])
def test_worse_by_the_margin_is_installed_no_more_often_than_the_risk_says(shape: str) -> None:
    """The least favourable candidate: worse by exactly the margin, looked at after each pair, for long."""
    risk, wrong, runs = 0.05, 0, 600
    for seed in range(runs):
        chance = random.Random(seed)
        # All well but for one pair in twenty, which is lost: few pairs show nothing of it.
        rare = (-1.0 if chance.random() < 0.05 else 0.0 for _ in iter(int, 1))
        pairs = {"drawn": drawn(-0.05, 0.3, seed), "flips": flips(-0.05, seed), "rare": rare}[shape]
        wrong += decided(pairs, margin=0.05, risk=risk, most=1500).verdict in ("better", "no worse")
    # Three standard deviations above what Ville's inequality allows.
    assert wrong / runs <= risk + 3 * math.sqrt(risk * (1 - risk) / runs)


def test_the_risks_of_all_candidates_together_are_the_budget() -> None:
    first = 100_000
    rest = 2 * BUDGET * 1.5 / math.sqrt(first + 9)
    assert 0.9 * BUDGET < sum(map(risk_of, range(1, first))) + rest <= BUDGET
    assert risk_of(1) > risk_of(2) > risk_of(1000) > 0
