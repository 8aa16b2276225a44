"""The heartbeat's book: a state and a log in one file that a crash cannot leave half written."""

import os

import pytest

from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.book import FILE, HeartbeatBook
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, State

EVERY = 1000


def beat(book, now):
    """One occurrence, with its end."""
    if book.state.every == 0:
        book.change(lambda state: schedule.set_every(state, EVERY, now - EVERY), now)
    book.change(lambda state: schedule.passed(state, now), now)
    return book.change(lambda state: schedule.ended(state, now, BeatOutcome("ses_1", 3, 0.25)), now)


@pytest.fixture
def book(tmp_path):
    return HeartbeatBook(tmp_path / "beats")


def test_what_was_written_is_there_for_the_next_process(book, tmp_path):
    assert book.state == State()
    assert book.entries() == []
    state = beat(book, 10_000)
    again = HeartbeatBook(tmp_path / "beats")
    assert again.state == state
    assert [(one.kind, one.tokens, one.cost) for one in again.entries()] == [("ran", 3, 0.25)]
    assert (tmp_path / "beats" / FILE).stat().st_mode & 0o777 == 0o600


def test_another_process_sees_a_change_at_once(book, tmp_path):
    beat(book, 10_000)
    there = HeartbeatBook(tmp_path / "beats")
    there.change(lambda state: schedule.pause(state, 10_500, "a person"), 10_500)
    assert book.state.paused is not None
    book.change(lambda state: schedule.resume(state, 10_600), 10_600)
    assert there.state.paused is None
    assert [one.kind for one in there.entries(2)] == ["paused", "resumed"]


def test_nothing_is_written_where_nothing_changed(book, tmp_path):
    beat(book, 10_000)
    before = (tmp_path / "beats" / FILE).read_bytes()
    book.change(lambda state: schedule.Turned(state, []), 99_000)
    assert (tmp_path / "beats" / FILE).read_bytes() == before


def test_a_line_that_was_cut_short_anywhere_never_happened(book, tmp_path):
    beat(book, 10_000)
    path = tmp_path / "beats" / FILE
    whole = path.read_bytes()
    before = book.state
    book.change(lambda state: schedule.passed(state, 11_000), 11_000)
    after, longer = book.state, path.read_bytes()
    for cut in range(len(whole), len(longer) + 1):
        path.write_bytes(longer[:cut])
        fresh = HeartbeatBook(tmp_path / "beats")
        state = fresh.state
        # A line that lacks only its newline is whole.
        assert state == (after if cut >= len(longer) - 1 else before)
        fresh.change(lambda state: schedule.pause(state, 12_000, "a person"), 12_000)
        assert HeartbeatBook(tmp_path / "beats").state.paused is not None
        numbers = [one.number for one in HeartbeatBook(tmp_path / "beats").entries() if one.times]
        assert numbers == [0]


def test_the_log_is_bounded_and_keeps_its_newest_part(tmp_path):
    book = HeartbeatBook(tmp_path / "beats", largest=8 << 10)
    for number in range(200):
        state = beat(book, 10_000 + EVERY * number)
    assert (tmp_path / "beats" / FILE).stat().st_size <= 17 << 10
    kept = [one.number for one in HeartbeatBook(tmp_path / "beats").entries()]
    assert kept == list(range(kept[0], 200))
    assert 10 < len(kept) < 200
    assert HeartbeatBook(tmp_path / "beats").state == state


@pytest.mark.parametrize("what", ["nonsense", "folder", "link", "pipe", "zeros"])
def test_what_is_no_book_is_put_aside_and_the_schedule_begins_anew(tmp_path, what):
    folder = tmp_path / "beats"
    folder.mkdir()
    path, elsewhere = folder / FILE, tmp_path / "elsewhere"
    elsewhere.write_text("precious\n")
    if what in ("nonsense", "zeros"):
        path.write_bytes(b'{"state": 3}\nx\n' if what == "nonsense" else b"\0" * 100 + b"\n")
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(elsewhere)
    else:
        os.mkfifo(path)
    book = HeartbeatBook(folder)
    assert book.state == State()
    assert book.entries() == []
    book.change(lambda state: schedule.set_every(state, EVERY, 5000), 5000)
    assert HeartbeatBook(folder).state.due == 6000
    assert "put aside" in book.problem
    assert [one.name for one in folder.iterdir() if "broken" in one.name] == [f"{FILE}.broken-1"]
    assert elsewhere.read_text() == "precious\n"


def test_a_book_whose_very_first_line_was_cut_short_is_no_lost_book(tmp_path):
    folder = tmp_path / "beats"
    folder.mkdir()
    (folder / FILE).write_bytes(b'{"state": {"ev')
    book = HeartbeatBook(folder)
    book.change(lambda state: schedule.set_every(state, EVERY, 5000), 5000)
    assert (HeartbeatBook(folder).state.due, book.problem) == (6000, "")


def test_lines_that_rotted_in_the_middle_are_passed_over(book, tmp_path):
    for number in range(3):
        beat(book, 10_000 + EVERY * number)
    path = tmp_path / "beats" / FILE
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"\xff" * 20
    path.write_bytes(b"\n".join(lines))
    again = HeartbeatBook(tmp_path / "beats")
    assert again.state == book.state
    assert [one.number for one in again.entries()] == [0, 1, 2]
