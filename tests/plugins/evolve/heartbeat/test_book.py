"""The heartbeat's book: a state and a log that are changed together."""

import pytest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.book import SCHEDULE, HeartbeatBook
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, State

EVERY = 1000


def beat(book, now):
    """One occurrence, with its end."""
    if book.state.every == 0:
        book.change(lambda state: schedule.set_every(state, EVERY, now - EVERY))
    book.change(lambda state: schedule.passed(state, now))
    return book.change(lambda state: schedule.ended(state, now, BeatOutcome("ses_1", 3, 0.25)))


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path)


@pytest.fixture
def book(database):
    return HeartbeatBook(database)


def test_what_was_written_is_there_for_the_next_process(book, tmp_path):
    assert book.state == State()
    assert book.entries() == []
    state = beat(book, 10_000)
    again = HeartbeatBook(Database(tmp_path))
    assert again.state == state
    assert [(one.kind, one.tokens, one.cost) for one in again.entries()] == [("ran", 3, 0.25)]


def test_another_process_sees_a_change_at_once(book, tmp_path):
    beat(book, 10_000)
    there = HeartbeatBook(Database(tmp_path))
    there.change(lambda state: schedule.pause(state, 10_500, "a person"))
    assert book.state.paused is not None
    book.change(lambda state: schedule.resume(state, 10_600))
    assert there.state.paused is None
    assert [one.kind for one in there.entries(2)] == ["paused", "resumed"]


def test_nothing_is_written_where_nothing_changed(book):
    before = beat(book, 10_000)
    assert book.change(lambda state: schedule.Turned(state, [])) == before


def test_a_change_that_fails_in_the_middle_never_happened(book):
    before = beat(book, 10_000)

    def pause(state):
        return schedule.Turned(schedule.pause(state, 11_000, "a person").state, [object()])

    with pytest.raises(TypeError):
        book.change(pause)
    assert book.state == before
    assert [one.kind for one in book.entries()] == ["ran"]


def test_the_log_is_bounded_and_keeps_its_newest_part(tmp_path):
    book = HeartbeatBook(Database(tmp_path, durable=False), most=50)
    for number in range(200):
        state = beat(book, 10_000 + EVERY * number)
    kept = [one.number for one in HeartbeatBook(Database(tmp_path)).entries()]
    assert kept == list(range(kept[0], 200))
    assert len(kept) == 50
    assert HeartbeatBook(Database(tmp_path)).state == state


@pytest.mark.parametrize("value", [b'{"every": "x"}', b"\0" * 100, b"", b"\xff"])
def test_a_state_that_is_damaged_begins_the_schedule_anew_and_the_log_says_so(database, book, caplog, value):
    beat(book, 10_000)
    database.keep(SCHEDULE, value)
    assert book.state == State()
    assert "the schedule is damaged" in caplog.text
    book.change(lambda state: schedule.set_every(state, EVERY, 5000))
    assert book.state.due == 6000
    assert len(book.entries()) == 1


def test_entries_that_rotted_in_the_middle_are_passed_over(database, book):
    for number in range(3):
        beat(book, 10_000 + EVERY * number)
    database.change(lambda connection: connection.execute("UPDATE beat SET value = x'FF' WHERE number = 2"))
    assert [one.number for one in book.entries()] == [0, 2]
