"""When the heartbeat session is cleaned."""

import pytest

from instar.plugins.evolve.heartbeat.schedule import Tally, clean


@pytest.mark.parametrize("cleanup", ["new", "archive", "compact"])
@pytest.mark.parametrize(
    ("count", "tokens", "acts"),
    [
        (None, None, False),
        (10, None, True),
        (11, None, False),
        (None, 500, True),
        (None, 501, False),
        (10, 501, True),
        (11, 500, True),
        (11, 501, False),
    ],
)
def test_the_first_threshold_that_is_reached_acts(cleanup, count, tokens, acts):
    tally = Tally("ses_1", 10, 500)
    assert clean(cleanup, count, tokens, tally, busy=False).decision == (cleanup if acts else "none")
    assert clean(cleanup, count, tokens, tally, busy=True).decision == ("later" if acts else "none")
    assert clean("none", count, tokens, tally, busy=False).decision == "none"


def test_the_reason_names_what_was_reached():
    assert clean("new", 3, 100, Tally("ses_1", 3, 120), busy=False).why == (
        "session ses_1 has had 3 heartbeats of 3 and 120 tokens of 100"
    )


def test_where_no_session_was_used_there_is_nothing_to_clean():
    assert clean("new", 1, 1, Tally(), busy=False).decision == "none"
