"""The forgiving ways to find what an edit means, met through `edit.changed`."""

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import edit

PYTHON = """\
class A:
    def one(self):
        total = 0
        for x in self.items:
            total += x
        return total

    def two(self):
        return 2
"""


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        # blanks at the ends of lines, and between words
        ("a = 1  \nb = 2\n", "a = 1\nb = 2", "c", "c\n"),
        ("a  =  1\nb = 2\n", "a = 1", "c", "c\nb = 2\n"),
        # one shift of the whole block, out and in
        ("    if a:\n        b\nc\n", "if a:\n    b", "if x:\n    y", "    if x:\n        y\nc\n"),
        ("if a:\n    b\n", "    if a:\n        b\n", "    if x:\n        y\n", "if x:\n    y\n"),
        # tabs for blanks, level by level; a deeper level goes on from the deepest that is known
        ("\tif a:\n\t\tb\n", "  if a:\n    b", "  if a:\n    b\n  c", "\tif a:\n\t\tb\n\tc\n"),
        # a blank line within stays blank
        ("  a\n\n  b\n", "a\n\nb", "a\n\nc", "  a\n\n  c\n"),
        # line ends of the file are kept
        ("  a\r\n  b\r\nc\r\n", "a\nb", "x\ny", "  x\r\n  y\r\nc\r\n"),
        # a block that goes takes its line end with it, when that was given
        ("  a \n  b\nc\n", "a\nb\n", "", "c\n"),
        # the file's last line has no line end
        ("x\n  a \n  b", "a\nb", "y", "x\n  y"),
    ],
)
def test_lines_that_differ_in_blanks_are_found(text: str, old: str, new: str, expected: str) -> None:
    assert edit.changed(text, old, new) == expected


def test_a_block_is_found_by_its_first_and_last_line_when_it_is_much_like_it() -> None:
    old = "def one(self):\n    total = 0\n    for x in self.item:\n        total += x\n    return total"
    found = edit.changed(PYTHON, old, "def one(self):\n    return sum(self.items)")
    assert found == PYTHON.replace(
        PYTHON[PYTHON.index("        total = 0") : PYTHON.index("\n\n    def two")],
        "        return sum(self.items)",
    )


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("  a b\nx\n\ta b\n", "a b \n", r"stands in 2 places \(lines 1, 3\)"),
        # anchors with something else in between
        ("begin\none thing\nanother\nend\n", "begin\ncompletely\ndifferent\nend", "Could not find"),
        # two blocks that are alike
        ("begin\naaaa b\nend\nbegin\naaaa c\nend\n", "begin\naaaa\nend", r"2 places \(lines 1, 4\)"),
        # an anchor alone is no block
        ("begin\nend\n", "begin\nxxx", "Could not find"),
        # two indentations cannot become one
        ("if a:\nb\n", "if a:\n    b", "indented otherwise"),
        # one indentation cannot become two
        ("a\n  b\n", "a\nb", "indented otherwise"),
    ],
)
def test_between_two_places_nothing_is_guessed(text: str, old: str, said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        edit.changed(text, old, "new")


def test_every_place_that_differs_in_blanks_is_replaced_on_demand_but_never_a_likeness() -> None:
    assert edit.changed("  a b\nx\n\ta b\n", "a  b", "c", everywhere=True) == "  c\nx\n\tc\n"
    twice = "begin\naaaa b\nend\nbegin\naaaa c\nend\n"
    with pytest.raises(ToolFailure, match="2 places"):
        edit.changed(twice, "begin\naaaa\nend", "new", everywhere=True)


def test_places_that_overlap_are_refused() -> None:
    with pytest.raises(ToolFailure, match="overlap"):
        edit.changed(" a\n a\n a\n", "a\na", "b", everywhere=True)


def test_what_stands_exactly_is_preferred_to_what_is_alike() -> None:
    assert edit.changed("  a\na\n", "\na\n", "\nb\n") == "  a\nb\n"
