"""Halving a row: always found, in few looks."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.plugins.evolve.history.bisect import Halving


def search(last, verdict):
    """Search a row; the looks that were made and the suspects at the end."""
    halving, looks = Halving(last), []
    while (at := halving.ask()) is not None:
        looks.append(at)
        assert 0 < at < last
        halving.tell(at, verdict(at))
    return looks, list(halving.suspects)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_planted_culprit_is_found_in_log_n_looks(data):
    last = data.draw(st.integers(1, 3000))
    culprit = data.draw(st.integers(1, last))
    looks, suspects = search(last, lambda at: "bad" if at >= culprit else "good")
    assert suspects == [culprit]
    assert len(looks) <= math.ceil(math.log2(last))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_with_skips_the_culprit_is_among_the_suspects_and_all_others_of_them_could_not_be_told(data):
    last = data.draw(st.integers(1, 80))
    culprit = data.draw(st.integers(1, last))
    skipped = data.draw(st.sets(st.integers(1, max(1, last - 1))))
    looks, suspects = search(
        last, lambda at: "unknown" if at in skipped else "bad" if at >= culprit else "good"
    )
    assert culprit in suspects
    assert len(looks) == len(set(looks))
    assert set(suspects[:-1]) <= skipped
    assert suspects[-1] == last or suspects[-1] not in skipped


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), max_size=60))
def test_in_a_row_that_goes_to_and_fro_what_is_found_is_a_bad_one_after_a_good_one(middle):
    row = [True, *middle, False]
    _, (found,) = search(len(row) - 1, lambda at: "good" if row[at] else "bad")
    assert row[found - 1]
    assert not row[found]


def test_it_says_about_how_many_looks_are_left():
    halving = Halving(16)
    assert halving.left == 4
    halving.tell(8, "bad")
    assert halving.left == 3
    assert Halving(1).left == 0
