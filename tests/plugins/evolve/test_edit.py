"""Text operations."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instar.plugins.evolve import edit


@pytest.mark.parametrize("new", ["$&", "$1$`", "\\1\\g<0>", "\\n", "%s{}"])
def test_new_text_is_taken_literally(new):
    assert edit.replace("a b c", "b", new) == (f"a {new} c", 1)


@pytest.mark.slow
@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_what_is_around_the_replaced_text_stays(head, old, new, tail):
    assume(old != new and (head + old + tail).count(old) == 1)
    assert edit.replace(head + old + tail, old, new) == (head + new + tail, 1)


def test_a_text_that_stands_twice_is_replaced_only_when_asked():
    with pytest.raises(edit.NoEdit, match="found 2 times"):
        edit.replace("a a", "a", "b")
    assert edit.replace("a a", "a", "b", everywhere=True) == ("b b", 2)


@pytest.mark.parametrize(
    ("old", "new", "says"), [("x", "y", "not found"), ("", "y", "empty"), ("a", "a", "same")]
)
def test_an_edit_that_changes_nothing_says_why(old, new, says):
    with pytest.raises(edit.NoEdit, match=says):
        edit.replace("a", old, new)


def test_a_text_with_crlf_is_edited_by_lines_written_with_lf():
    assert edit.replace("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz")[0] == "x\r\ny\r\nz\r\nc\r\n"


def test_a_window_says_what_it_leaves_out():
    text = "1\n2\n3\n4\n"
    assert edit.window(text) == text
    assert edit.window(text, 2, 2) == "2\n3\n\n(lines 2 to 3 of 4)"
    assert edit.window("") == "(empty)"
    with pytest.raises(edit.NoEdit, match="there are 4 lines"):
        edit.window(text, 5)


def test_a_diff_shows_a_missing_newline_at_the_end():
    assert (
        edit.diff("f", "a\n", "b") == "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
    )
