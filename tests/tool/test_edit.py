import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.plugin.tool import ToolFailure
from instar.tool import edit


async def test_one_place_is_replaced(ctx: Any, call: Any, project: Path) -> None:
    path = project / "a.py"
    path.write_text("one\ntwo\nthree\n")
    path.chmod(0o700)
    result = await call(edit.TOOL, ctx, filePath="a.py", oldString="two", newString="2")
    assert path.read_text() == "one\n2\nthree\n"
    assert path.stat().st_mode & 0o777 == 0o700
    assert (result.output, result.title) == ("Edit applied successfully.", "a.py")
    assert result.metadata["diff"] == "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    counted = {"patch": result.metadata["diff"], "additions": 1, "deletions": 1}
    assert result.metadata["filediff"] == {"file": str(path), **counted}
    assert ctx.edited == [str(path)]


@pytest.mark.parametrize(
    ("text", "old", "new", "everywhere", "expected"),
    [
        ("a b a", "a", "c", True, "c b c"),
        ("aaa", "aa", "b", True, "ba"),
        ("price", "price", "$& $1 \\1 \\g<0> $$ {0} %s", False, "$& $1 \\1 \\g<0> $$ {0} %s"),
        ("a.c abc", "a.c", "x", False, "x abc"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", False, "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "a", "x\ny", False, "x\r\ny\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny", False, "x\r\ny\r\n"),
        ("a\nb\n", "a\r\nb", "x", False, "x\n"),
        ("a\nb\n", "a", "x\r\ny", False, "x\r\ny\nb\n"),
        ("\ufeffa\n", "a", "b", False, "\ufeffb\n"),
        ("a\n", "a\n", "", False, ""),
        ("", "", "new", False, "new"),
    ],
)
def test_text_is_replaced_literally(text: str, old: str, new: str, everywhere: bool, expected: str) -> None:
    assert edit.changed(text, old, new, everywhere=everywhere) == expected


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("a\nb\na\n", "a", r"stands in 2 places \(lines 1, 3\)"),
        ("aaa", "aa", r"stands in 2 places \(lines 1, 1\)"),
        ("a\n" * 12, "a", r"12 places \(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …\)"),
        ("x\n  if a:\n  b\n", "if a:\n b", "same text stands at line 2, but indented otherwise"),
        ("  a( 1 )\n\n\ta( 1 )\n", "a( 1 ) \n", r"stands in 2 places \(lines 1, 3\)"),
        ("first\nsecond thing\n", "second thin!", "nearest to its first line is line 2: 'second thing'"),
        ("abc\n", "12345", "Nothing in it is like its first line"),
        ("abc\n", "\n", None),
        ("", "a", "Could not find oldString"),
    ],
)
def test_what_to_replace_is_never_guessed(text: str, old: str, said: str | None) -> None:
    if said is None:
        assert edit.changed(text, old, "x") == "abcx"
        return
    with pytest.raises(ToolFailure, match=said):
        edit.changed(text, old, "x")


async def test_a_refused_edit_leaves_the_file_as_it_was(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("a a")
    for args in ({"oldString": "a", "newString": "b"}, {"oldString": "x", "newString": "y"}):
        with pytest.raises(ToolFailure):
            await call(edit.TOOL, ctx, filePath="f", **args)
    assert (project / "f").read_text() == "a a"
    assert ctx.edited == []


async def test_equal_texts_are_refused(ctx: Any, call: Any) -> None:
    with pytest.raises(ToolFailure, match="nothing to change"):
        await call(edit.TOOL, ctx, filePath="f", oldString="a", newString="a")


async def test_an_empty_old_text_creates_a_file_and_never_replaces_one(
    ctx: Any, call: Any, project: Path
) -> None:
    await call(edit.TOOL, ctx, filePath="d/f", oldString="", newString="new\n")
    assert (project / "d/f").read_text() == "new\n"
    with pytest.raises(ToolFailure, match="exists: an empty oldString only creates"):
        await call(edit.TOOL, ctx, filePath="d/f", oldString="", newString="other")
    assert (project / "d/f").read_text() == "new\n"


async def test_a_missing_file_is_named(ctx: Any, call: Any, project: Path) -> None:
    (project / "main.py").touch()
    with pytest.raises(ToolFailure, match=r"(?s)File not found: .*Did you mean one of these\?\n.*main.py"):
        await call(edit.TOOL, ctx, filePath="mian.py", oldString="a", newString="b")


async def test_a_binary_or_too_large_file_is_refused(ctx: Any, call: Any, project: Path) -> None:
    (project / "b").write_bytes(b"a\0")
    with pytest.raises(ToolFailure, match="binary"):
        await call(edit.TOOL, ctx, filePath="b", oldString="a", newString="b")
    with (project / "huge").open("wb") as file:
        file.truncate(33 << 20)
    with pytest.raises(ToolFailure, match="larger than 32 MiB"):
        await call(edit.TOOL, ctx, filePath="huge", oldString="a", newString="b")


async def test_bytes_that_are_no_utf_8_survive(ctx: Any, call: Any, project: Path) -> None:
    (project / "latin").write_bytes(b"caf\xe9 one\n")
    await call(edit.TOOL, ctx, filePath="latin", oldString="one", newString="two")
    assert (project / "latin").read_bytes() == b"caf\xe9 two\n"


async def test_edits_of_one_file_that_run_together_are_all_kept(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("".join(f"<{number}>\n" for number in range(20)))
    (project / "link").symlink_to("f")
    await asyncio.gather(
        *(
            call(
                edit.TOOL, ctx, filePath="f" if number % 2 else "link", oldString=f"<{number}>", newString="x"
            )
            for number in range(20)
        )
    )
    assert (project / "f").read_text() == "x\n" * 20


def test_editing_needs_the_permission_edit_and_shows_the_change(ctx: Any, project: Path) -> None:
    (project / "f").write_text("old\n")
    (ask,) = edit.permissions({"filePath": "f", "oldString": "old", "newString": "new"}, ctx)
    assert (ask.permission, ask.patterns, ask.always) == ("edit", ["f"], ["*"])
    assert "-old\n+new\n" in ask.metadata["diff"]
    (ask,) = edit.permissions({"filePath": "f", "oldString": "gone", "newString": "new"}, ctx)
    assert ask.metadata["diff"] == ""


@settings(deadline=None)
@given(
    st.text(max_size=30),
    st.text(alphabet="ab\n", min_size=1, max_size=3),
    st.text(max_size=10),
    st.text(max_size=30),
)
def test_a_replaced_part_leaves_what_is_around_it(before: str, old: str, new: str, after: str) -> None:
    text = f"{before}{old}{after}"
    if "\r" in text + new or text.startswith("\ufeff"):
        return
    places = sum(text.startswith(old, at) for at in range(len(text)))
    if places > 1:
        with pytest.raises(ToolFailure, match=f"stands in {places} places"):
            edit.changed(text, old, new)
    else:
        assert edit.changed(text, old, new) == f"{before}{new}{after}"
