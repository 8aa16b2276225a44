import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.wire import sse
from instar.wire.sse import EventParser, EventTooLongError

STREAM = (
    b"\xef\xbb\xbf: hello\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\n\nid: 3\nretry: 9\n\n"
    b"data: caf\xc3\xa9 \xe2\x80\xa8 x\r\rdata:\n\ndata: last"
)
EVENTS = [b"one", b"two\nlines", "café \u2028 x".encode(), b"", b"last"]


def read(pieces):
    stream = EventParser()
    return [event for piece in pieces for event in stream.feed(piece)] + stream.close()


def test_a_stream_gives_the_data_of_its_events_and_nothing_else():
    assert read([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_of_the_bytes_gives_the_same_events(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in itertools.pairwise(edges)]) == EVENTS


def test_one_byte_at_a_time_gives_the_same_events():
    assert read([STREAM[at : at + 1] for at in range(len(STREAM))]) == EVENTS


def test_an_event_is_given_as_soon_as_its_blank_line_came():
    stream = EventParser()
    assert stream.feed(b"data: a\n") == []
    assert stream.feed(b"\ndata: b") == [b"a"]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 60, b"x" * 30])
def test_an_event_without_an_end_is_refused(monkeypatch, piece):
    monkeypatch.setattr(sse, "MAX_EVENT", 50)
    stream = EventParser()
    with pytest.raises(EventTooLongError):
        [stream.feed(part) for part in (piece, piece)]


@pytest.mark.parametrize("line", [b"data: 0123456789\n", b"data:\n"])
def test_lines_that_never_become_an_event_are_refused(monkeypatch, line):
    monkeypatch.setattr(sse, "MAX_EVENT", 50)
    stream = EventParser()
    with pytest.raises(EventTooLongError):
        [stream.feed(line) for _ in range(100)]
