import threading

import pytest

from instar.wire import ids


@pytest.fixture(autouse=True)
def _leave_the_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of the tests after these go on from where they were, not from a time far ahead."""
    monkeypatch.setattr(ids, "_last", ids._last)


@pytest.mark.parametrize("prefix", ids.PREFIXES)
def test_an_id_is_its_prefix_then_twelve_hex_digits_then_fourteen_characters(prefix: str) -> None:
    made = ids.new(prefix)
    head, _, tail = made.partition("_")
    assert head == prefix
    assert len(tail) == 26
    int(tail[:12], 16)
    assert tail[:12] == tail[:12].lower()
    assert tail.isalnum()
    assert tail.isascii()
    assert ids.is_id(made, prefix)


def test_ids_sort_in_the_order_they_were_made() -> None:
    made = [ids.new("msg") for _ in range(10_000)]
    assert made == sorted(made)


def test_the_newest_session_sorts_first() -> None:
    made = [ids.new("ses") for _ in range(10_000)]
    assert made == sorted(made, reverse=True)


def test_ids_hold_the_low_48_bits_of_the_time_and_a_counter() -> None:
    now = 2**44  # after any real clock, so that the counter begins anew; the bits above 36 are cut off
    stamps = [int(ids.new("prt", now=now)[4:16], 16) for _ in range(3)]
    assert stamps == [stamps[0], stamps[0] + 1, stamps[0] + 2]
    later = int(ids.new("prt", now=now + 7)[4:16], 16)
    assert later == 7 * 4096
    assert int(ids.new("ses", now=now + 9)[4:16], 16) == (1 << 48) - 1 - 9 * 4096


def test_a_clock_that_goes_back_does_not_disturb_the_order() -> None:
    times = [2**45, 2**45 - 60_000, 0, 2**45 - 1, 2**45 + 1]
    made = [ids.new("evt", now=now) for now in times]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_never_make_the_same_stamp() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    ready = threading.Barrier(8)

    def run(mine: list[str]) -> None:
        ready.wait()
        mine.extend(ids.new("prt") for _ in range(2000))

    threads = [threading.Thread(target=run, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stamps = [one[4:16] for mine in made for one in mine]
    assert len(set(stamps)) == 16_000
    assert all(mine == sorted(mine) for mine in made)


def test_an_unknown_prefix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'foo'.*ses, msg, prt"):
        ids.new("foo")


@pytest.mark.parametrize("text", ["ses", "sess_1", "msg_1", "", None, 3, b"ses_1"])
def test_what_is_no_session_id_is_told_apart(text: object) -> None:
    assert not ids.is_id(text, "ses")
