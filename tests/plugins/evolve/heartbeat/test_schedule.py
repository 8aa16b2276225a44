"""The schedule's rules, as pure functions."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.schedule import BeatEntry, BeatOutcome, ScheduleRefused, State, Tally

EVERY = 1000
moments = st.integers(0, 5 * EVERY)


def due_at(due, **fields):
    return State(every=EVERY, due=due, number=5, **fields)


acts = st.one_of(
    st.tuples(st.just("pass"), moments, st.sampled_from(["", "busy"])),
    st.tuples(st.just("end"), moments, st.sampled_from(["", "failed"])),
    st.tuples(st.just("open"), moments, st.integers(-20 * EVERY, 20 * EVERY)),
    st.tuples(st.just("every"), moments, st.sampled_from([-1, 0, 1, EVERY, 3 * EVERY])),
    st.tuples(st.sampled_from(["pause", "resume", "ask"]), moments, st.just("")),
)


def turn(state, now, act, given):
    if act == "pass":
        return schedule.passed(state, now, given)
    if act == "end":
        return schedule.ended(state, now, BeatOutcome("ses_1", 1, error=given))
    if act == "open":
        return schedule.opened(state, now)
    if act == "every":
        return schedule.set_every(state, given, now)
    if act == "pause":
        return schedule.pause(state, now, "a person")
    if act == "resume":
        return schedule.resume(state, now)
    try:
        return schedule.ask(state, now)
    except ScheduleRefused:
        return schedule.Turned(state, [])


@given(st.lists(acts, max_size=60))
def test_whatever_happens_each_occurrence_is_written_down_once_and_the_next_one_is_near(story):
    state, log, now = State(), list[BeatEntry](), 10**9
    state, _ = schedule.set_every(state, EVERY, now)
    for act, passes, given_ in story:
        now += passes + (given_ if act == "open" else 0)
        before = state
        state, entries = turn(state, now, act, given_)
        log += entries
        assert state.number >= before.number
        assert before.beat is None or state.beat in (None, before.beat)
        assert (state.due is None) == (state.every == 0)
        if act in ("open", "every"):
            assert state.due is None or state.due <= now + state.every
        if act == "pass":
            assert state.paused or state.due is None or state.beat is not None or state.due > now
        state = msgspec.json.decode(msgspec.json.encode(state), type=State)
    told = [number for entry in log for number in range(entry.number, entry.number + entry.times)]
    running = [state.beat.number] if state.beat else []
    assert sorted(told + running) == list(range(state.number))


@pytest.mark.parametrize(
    ("late", "due"),
    [(0, 2000), (100, 2000), (101, 2101), (999, 2999), (1000, 3000), (5500, 7500)],
)
def test_the_next_beat_keeps_its_time_unless_this_one_was_late(late, due):
    state, entries = schedule.passed(due_at(1000), 1000 + late)
    overdue = late // EVERY
    assert state.beat.number == 5 + overdue
    assert state.beat.at == 1000 + late
    assert state.beat.due == 1000 + overdue * EVERY
    assert [entry.times for entry in entries] == ([overdue] if overdue else [])
    # One that stands for several is as late as the last of them was.
    assert state.due == due


def test_nothing_begins_before_its_time_during_a_beat_or_during_a_pause():
    assert schedule.passed(due_at(1000), 999).state == due_at(1000)
    begun, _ = schedule.passed(due_at(1000), 1000)
    assert schedule.passed(begun, 10_000).state == begun
    paused, _ = schedule.pause(due_at(1000), 10, "a person")
    assert schedule.passed(paused, 10_000).state == paused


@pytest.mark.parametrize(
    ("state", "left"),
    [
        (due_at(1000), 400),
        (due_at(600), 0),
        (due_at(100), 0),
        (due_at(1000, asked=True), 0),
        (State(), None),
        (due_at(100, paused=schedule.Pause(0, "a person")), None),
        (due_at(100, beat=schedule.Begun(4, 50)), None),
    ],
)
def test_how_long_there_is_to_wait(state, left):
    assert schedule.wait(state, 600) == left


def test_what_came_due_during_a_pause_is_skipped_and_the_next_one_keeps_its_time():
    state, _ = schedule.pause(due_at(1000), 500, "a person")
    assert schedule.pause(state, 600, "another") == (state, [])
    state, entries = schedule.resume(state, 3300)
    assert [(one.kind, one.number, one.times, one.why) for one in entries] == [
        ("skipped", 5, 3, "paused: a person"),
        ("resumed", 8, 0, ""),
    ]
    assert state.due == 4000
    assert schedule.resume(state, 3400) == (state, [])


def test_a_beat_goes_on_through_a_pause_and_ends_as_it_would():
    begun, _ = schedule.passed(due_at(1000), 1000)
    paused, _ = schedule.pause(begun, 1100, "a person")
    ended, entries = schedule.ended(paused, 1200, BeatOutcome("ses_1", 7))
    assert [entry.kind for entry in entries] == ["ran"]
    assert (ended.beat, ended.paused) == (None, paused.paused)
    # What comes due meanwhile is skipped for the pause, once it ends.
    ended, entries = schedule.ended(paused, 5500, BeatOutcome("ses_1", 7))
    assert [entry.kind for entry in entries] == ["ran"]
    assert [entry.why for entry in schedule.resume(ended, 5600).entries] == ["paused: a person", ""]


def test_after_a_crash_what_is_overdue_becomes_one_beat():
    begun, _ = schedule.passed(due_at(1000), 1000)
    opened, entries = schedule.opened(begun, 5500)
    assert [(entry.kind, entry.number) for entry in entries] == [("interrupted", 5)]
    state, entries = schedule.passed(opened, 5500)
    assert [(entry.kind, entry.number, entry.times) for entry in entries] == [("skipped", 6, 3)]
    assert state.beat.number == 9


def test_a_beat_that_was_ended_on_its_way_is_interrupted_and_what_came_due_meanwhile_is_not_made_up_for():
    state = schedule.passed(due_at(0), 0).state
    state, entries = schedule.ended(state, 3 * EVERY, BeatOutcome("ses_1", 7, interrupted="aborted"))
    assert [(one.kind, one.times, one.why) for one in entries] == [
        ("interrupted", 1, "aborted"),
        ("skipped", 3, "beat 5 was still running"),
    ]
    assert (state.due, state.tally) == (4 * EVERY, Tally("ses_1", 1, 7))


def test_a_beat_that_sent_nothing_counts_for_nothing():
    state = schedule.passed(due_at(0, tally=Tally("ses_1", 2, 9)), 0).state
    state, (entry,) = schedule.ended(state, 1, BeatOutcome("ses_1", skipped="there is nothing to send"))
    assert (entry.kind, entry.why) == ("skipped", "there is nothing to send")
    assert state.tally == Tally("ses_1", 2, 9)


def test_nobody_may_ask_during_a_pause_or_a_beat():
    paused, _ = schedule.pause(due_at(1000, asked=True), 500, "instar stop")
    assert not paused.asked
    with pytest.raises(ScheduleRefused, match=r"instar stop.*instar heartbeat resume"):
        schedule.ask(paused, 600)
    begun, _ = schedule.passed(due_at(1000), 1000)
    with pytest.raises(ScheduleRefused, match="running already"):
        schedule.ask(begun, 1100)


def test_a_beat_that_is_asked_for_does_not_wait_for_busy_sessions():
    asked, _ = schedule.ask(due_at(1000), 400)
    begun, entries = schedule.passed(asked, 400, busy="session ses_2 is busy")
    assert begun.beat == schedule.Begun(5, 400, None, asked=True)
    assert (begun.due, begun.asked, entries) == (1400, False, [])


def test_a_new_interval_counts_from_the_last_beat_and_what_is_overdue_stays_so():
    assert schedule.set_every(due_at(1000), 3000, 500).state.due == 3000
    assert schedule.set_every(due_at(1000), 100, 500).state.due == 500
    assert schedule.set_every(due_at(1000), 100, 1500).state.due == 1000
    off = schedule.set_every(due_at(1000), -1, 500).state
    assert (off.due, off.every) == (None, 0)
    assert schedule.set_every(off, 1000, 9000).state.due == 10_000
    assert schedule.set_every(due_at(1000), EVERY, 500) == (due_at(1000), [])


def test_the_tally_counts_the_beats_of_one_session_and_begins_again_when_it_was_cleaned():
    def beat(state, outcome):
        begun, _ = schedule.passed(state, state.due)
        return schedule.ended(begun, begun.beat.at, outcome).state

    state = beat(beat(due_at(1000), BeatOutcome("ses_1", 10)), BeatOutcome("ses_1", 5, error="429"))
    assert state.tally == Tally("ses_1", 2, 15)
    assert beat(state, BeatOutcome(skipped="no prompt")).tally == Tally("ses_1", 2, 15)
    assert beat(state, BeatOutcome("ses_2", 3)).tally == Tally("ses_2", 1, 3)
    assert beat(state, BeatOutcome("ses_1", 3, cleaned="later")).tally == Tally("ses_1", 3, 18)
    assert beat(state, BeatOutcome("ses_1", 3, cleaned="compact")).tally == Tally("ses_1", 0, 0)
    for left in ("new", "archive"):
        assert beat(state, BeatOutcome("ses_1", 3, cleaned=left)).tally == Tally()


def test_a_reason_of_any_length_fits_into_a_line_of_the_log():
    begun, _ = schedule.passed(due_at(1000), 1000)
    _, (entry,) = schedule.ended(begun, 1001, BeatOutcome(error="x\n" * 100_000))
    assert len(entry.why) < 600
    assert "\n" not in entry.why
