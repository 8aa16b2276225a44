"""What is kept of a terminal, and where in it a client goes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.terminal import Lost, Scrollback

TEXTS = st.lists(st.text(st.sampled_from("ab😀é\n"), max_size=8), max_size=12)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def read(kept: Scrollback, place: int, most: int) -> str:
    text = ""
    while place < kept.end:
        piece, after = kept.after(place, most)
        assert 0 < after - place <= most
        text, place = text + piece, after
    return text


@given(TEXTS, st.integers(2, 5))
def test_what_is_read_in_pieces_is_what_was_printed(texts: list[str], most: int) -> None:
    kept = Scrollback()
    for text in texts:
        kept.add(text)
    whole = "".join(texts)
    assert (kept.start, kept.end) == (0, units(whole))
    assert read(kept, 0, most) == whole


@pytest.mark.slow
@given(TEXTS, st.integers(1, 10))
def test_the_newest_is_kept_and_who_is_further_behind_is_told(texts: list[str], limit: int) -> None:
    kept = Scrollback(limit)
    for text in texts:
        kept.add(text)
    whole = "".join(texts).encode("utf-16-le")
    assert kept.end == len(whole) // 2
    assert kept.start == max(0, kept.end - limit)
    assert read(kept, kept.start, 4) == whole[kept.start * 2 :].decode("utf-16-le", "replace")
    if kept.start:
        with pytest.raises(Lost):
            kept.after(kept.start - 1, 4)


def test_a_place_that_is_not_reached_yet_is_the_end() -> None:
    kept = Scrollback()
    kept.add("abc")
    assert kept.after(99, 4) == ("", 3)
