"""Printed text: nothing that came from outside commands a terminal."""

import pytest

from instar.cli.text import harmless, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ntext\twith tab", "plain\ntext\twith tab"),
        ("a\x1b]0;title\x07b", "a]0;titleb"),
        ("a\x9b31mb", "a31mb"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("\u202egnp.exe", "gnp.exe"),
    ],
)
def test_control_characters_are_taken_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_line_is_one_line_and_harmless() -> None:
    assert one_line("a\n  b\x1b[2J\tc ") == "a b[2J c"
