"""The recording that the README begins with is of the program as it is: `make recording` makes it anew."""

import re

import pytest
from examples import record

VARIES = (
    (r"\b\d+\.\d s\b", "0.0 s"),
    (r"\b(?=[a-f]*\d)[0-9a-f]{7,12}\b", "COMMIT"),
    (r"\b\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r"shield \w+", "shield LEVEL"),
)
"""What another day, another machine and another commit say otherwise."""


def seen(events):
    return [
        (event.text, sorted(said(row) for row in screen.rows())) for event, screen in record.moments(events)
    ]


def said(row):
    for pattern, word in VARIES:
        row = re.sub(pattern, word, row)
    return row


@pytest.mark.slow
def test_the_recording_shows_what_a_person_sees_today(tmp_path):
    kept = record.read(record.CAST.read_text())
    assert seen(record.play(tmp_path)) == seen(kept), "the screen has changed since: `make recording`"


def test_the_picture_is_of_the_recording_and_small():
    shown = record.picture(record.read(record.CAST.read_text()))
    assert shown == record.PICTURE.read_text(), "`make recording` draws it anew"
    assert len(shown) < 60_000
