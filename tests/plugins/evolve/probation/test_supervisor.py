"""Too many failures in a short time stop the retrying."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.probation.supervisor import (
    LONGEST_FREEZE,
    MOST,
    WINDOW,
    Attempts,
    Pauses,
    answered,
    failed,
    faltered,
    frozen,
    resting,
    settled,
)

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def fail(state: Attempts, *times: int) -> Attempts:
    for time in times:
        state = failed(state, time, "hooks/x.py was rolled back")
    return state


@given(
    steps=st.lists(st.integers(0, 400_000), max_size=200),
    restarts=st.booleans(),
)
def test_no_window_ever_holds_more_failed_attempts_than_are_borne(steps: list[int], restarts: bool) -> None:
    now, state, made = 0, Attempts(), list[int]()
    for step in steps:
        now += step
        if restarts:
            state = settled(msgspec.json.decode(msgspec.json.encode(state), type=Attempts), now)
        if frozen(state, now) is None:
            made.append(now)
            state = fail(state, now)
    for time in made:
        assert sum(time <= other < time + WINDOW for other in made) <= MOST


@given(st.lists(st.integers(0, 5 * DAY), min_size=1, max_size=50))
def test_a_freeze_always_ends_by_itself(steps: list[int]) -> None:
    now, state = 0, Attempts()
    for step in steps:
        now += step
        state = fail(state, now)
        assert frozen(state, now + LONGEST_FREEZE) is None


def test_it_is_frozen_at_the_fifth_failure_and_says_why_and_what_to_do() -> None:
    state = fail(Attempts(), 0, 1, 2, 3)
    assert frozen(state, 3) is None
    said = frozen(fail(state, 4), 4)
    assert said is not None
    assert "5 changes failed within 10 min, the last one: hooks/x.py was rolled back" in said
    assert "instar evolve thaw" in said


def test_failures_that_are_far_apart_never_freeze() -> None:
    state = fail(Attempts(), *(time * 3 * MINUTE for time in range(100)))
    assert frozen(state, 300 * MINUTE) is None


def test_each_freeze_is_twice_as_long_as_the_one_before_up_to_a_day() -> None:
    now, state, lengths = 0, Attempts(), []
    for _ in range(10):
        state = fail(state, *[now] * 5)
        lengths.append((state.until - now) // MINUTE)
        now = state.until
    assert lengths == [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440]


def test_a_day_without_a_freeze_begins_again_with_the_short_one() -> None:
    state = fail(Attempts(), *[0] * 5)
    state = fail(state, *[state.until] * 5)
    later = state.until + DAY
    assert fail(state, *[later] * 5).until - later == 10 * MINUTE


def test_what_was_under_way_when_it_froze_does_not_freeze_it_for_longer() -> None:
    state = fail(Attempts(), *[0] * 5)
    assert fail(state, 1, 2, 3, 4, 5, 6).until == state.until


def test_a_clock_that_is_put_back_does_not_freeze_for_longer_than_the_pause() -> None:
    state = settled(fail(Attempts(), *[DAY] * 5), 1000)
    assert frozen(state, 1000) is not None
    assert frozen(state, 1000 + 10 * MINUTE) is None


def test_times_of_a_clock_that_was_put_back_still_count() -> None:
    assert frozen(fail(Attempts(), DAY, DAY, DAY, DAY, 5), 6) is not None


def falter(state: Pauses, now: int, times: int = 1, version: str = "v1") -> tuple[Pauses, list[str]]:
    said = []
    for _ in range(times):
        now += resting(state, "x.py", "idle", version, now)
        state, text = faltered(state, "x.py", "idle", version, now)
        said += [text] if text else []
    return state, said


def test_a_script_that_always_fails_rests_for_a_growing_pause_and_that_is_said_once() -> None:
    state, now, pauses, said = Pauses(), 0, list[int](), list[str]()
    for _ in range(20):
        state, text = faltered(state, "x.py", "idle", "v1", now)
        said += [text] if text else []
        pauses.append(resting(state, "x.py", "idle", "v1", now))
        now += pauses[-1]
    assert pauses[:9] == [0, 0, 0, 0, 1000, 2000, 4000, 8000, 16000]
    assert pauses[-1] == 600_000
    assert said == [
        "x.py failed 5 times in a row at idle: it is now called for it only after pauses, which grow from 1 s to "
        "10 min, until it succeeds or is changed"
    ]


def test_one_success_ends_the_pauses_and_a_new_failure_is_said_again() -> None:
    state, _ = falter(Pauses(), 0, 7)
    state = answered(state, "x.py", "idle", "v1")
    assert state == Pauses()
    assert len(falter(state, 0, 5)[1]) == 1


def test_another_hook_and_a_new_version_are_called_at_once() -> None:
    state, _ = falter(Pauses(), 0, 5)
    assert resting(state, "x.py", "idle", "v1", 0)
    assert not resting(state, "x.py", "tool_before", "v1", 0)
    assert not resting(state, "y.py", "idle", "v1", 0)
    assert not resting(state, "x.py", "idle", "v2", 0)
    assert not resting(falter(state, 0, 1, "v2")[0], "x.py", "idle", "v2", 0)


def test_a_success_of_an_old_version_says_nothing_about_the_new_one() -> None:
    state, _ = falter(Pauses(), 0, 7)
    assert answered(state, "x.py", "idle", "v0") == state


def test_calls_that_fail_side_by_side_lengthen_the_pause_once() -> None:
    state, _ = falter(Pauses(), 0, 5)
    for _ in range(10):
        state, said = faltered(state, "x.py", "idle", "v1", 1)
        assert said is None
    assert resting(state, "x.py", "idle", "v1", 0) == 1000


def test_a_pause_survives_a_restart() -> None:
    state, _ = falter(Pauses(), 0, 6)
    assert msgspec.json.decode(msgspec.json.encode(state), type=Pauses) == state


def test_a_clock_that_is_put_back_ends_a_pause() -> None:
    state, _ = falter(Pauses(), DAY, 5)
    assert resting(state, "x.py", "idle", "v1", 5) == 0
