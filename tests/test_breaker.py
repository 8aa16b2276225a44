"""The breaker: when it pauses what nobody asked for, for how long, and what ends that."""

import pytest

from instar import breaker
from instar.breaker import FIRST, LONGEST, Breaker, answered, failed, left, tried


def after(failures, most=3, now=0.0):
    state = Breaker()
    for _ in range(failures):
        state = failed(state, now, most)
    return state


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 0), (1, 0), (2, 0), (3, FIRST), (4, 2 * FIRST), (5, 4 * FIRST), (99, LONGEST), (5000, LONGEST)],
)
def test_a_pause_begins_with_the_last_failure_in_a_row_and_doubles(failures, pause):
    assert left(after(failures), 0.0) == pause


def test_an_answer_ends_it():
    assert left(answered(), 0.0) == 0
    assert left(failed(answered(), 0.0, 3), 0.0) == 0


def test_after_a_pause_one_call_is_tried_and_the_others_wait():
    state = after(3)
    assert left(state, FIRST - 1) == 1
    assert left(state, FIRST) == 0
    trying = tried(state, FIRST)
    assert left(trying, FIRST + 1) > 0
    again = failed(trying, FIRST + 2, 3)
    assert left(again, FIRST + 2) == 2 * FIRST


def test_nothing_is_tried_where_nothing_failed():
    assert tried(Breaker(), 5.0) == Breaker()
    assert breaker.failed(Breaker(), 0.0, 1).pauses == 1
