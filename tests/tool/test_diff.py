import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.tool import files


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\n", "a\n", ""),
        ("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
        ("a\nb\n", "a\nb", "@@ only the newline at the end differs @@\n"),
        ("a\r\n", "a\n", "@@ -1 +1 @@\n-a\r\n+a\n"),
        ("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nx\n", "@@ -3,4 +3,4 @@\n 3\n 4\n 5\n-6\n+x\n"),
    ],
)
def test_a_change_is_a_unified_diff(before: str, after: str, expected: str) -> None:
    assert files.unified("f", before, after) == (f"--- f\n+++ f\n{expected}" if expected else "")


def test_lines_that_look_like_headers_are_counted_as_what_they_are() -> None:
    metadata = files.counted(Path("/at/f"), "f", "-- a\nb\n", "++ a\nb\nc\n")
    counted = {"patch": metadata["diff"], "additions": 2, "deletions": 1}
    assert metadata["filediff"] == {"file": "/at/f", **counted}


def test_a_large_change_is_given_as_a_whole() -> None:
    text = files.unified("f", "a\n" * 5000, "b\n" * 5000)
    assert text.splitlines()[2] == "@@ -1,5000 +1,5000 @@"
    assert (
        files.unified("f", "", "x" * (files.LARGEST_SHOWN + 1)).splitlines()[2] == "@@ too large to show @@"
    )


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), min_size=1, max_size=25).map(
    lambda it: "\n".join(it) + "\n"
)


@settings(deadline=None)
@given(LINES, LINES)
def test_a_diff_is_what_git_can_apply(before: str, after: str) -> None:
    # In memory: the hunks, applied by hand, turn the old text into the new one.
    out, at = [], 0
    old = before.removesuffix("\n").split("\n")
    for line in files.unified("f", before, after).removesuffix("\n").split("\n")[2:]:
        if line.startswith("@@"):
            start, _, count = line.split(" ")[1][1:].partition(",")
            begin = int(start) - (0 if count == "0" else 1)
            out += old[at:begin]
            at = begin
        elif line.startswith("+"):
            out.append(line[1:])
        else:
            assert old[at] == line[1:]
            out += [line[1:]] if line.startswith(" ") else []
            at += 1
    assert "\n".join(out + old[at:]) + "\n" == after


def test_git_applies_a_diff(tmp_path: Path) -> None:
    before = "".join(f"{number}\n" for number in range(50))
    after = before.replace("7\n", "seven\n").replace("40\n", "")
    (tmp_path / "f").write_text(before)
    subprocess.run(
        ["git", "apply", "-p0", "-"],
        input=files.unified("f", before, after).encode(),
        cwd=tmp_path,
        check=True,
    )
    assert (tmp_path / "f").read_text() == after
