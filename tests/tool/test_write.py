import os
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import read, write


async def test_a_new_file_is_made_with_its_folders(ctx: Any, call: Any, project: Path) -> None:
    result = await call(write.TOOL, ctx, filePath="a/b/c.txt", content="one\ntwo\n")
    path = project / "a/b/c.txt"
    assert path.read_bytes() == b"one\ntwo\n"
    assert (result.output, result.title) == ("Wrote file successfully.", "a/b/c.txt")
    assert result.metadata == {
        "filepath": str(path),
        "exists": False,
        "diff": "--- a/b/c.txt\n+++ a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        "diagnostics": {},
    }
    assert ctx.edited == [str(path)]


async def test_a_file_is_replaced_and_keeps_its_mode(ctx: Any, call: Any, project: Path) -> None:
    path = project / "run.sh"
    path.write_text("old\n")
    path.chmod(0o755)
    await call(read.TOOL, ctx, filePath=str(path))
    result = await call(write.TOOL, ctx, filePath=str(path), content="new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert result.metadata["exists"] is True
    assert "-old\n+new\n" in result.metadata["diff"]
    assert sorted(os.listdir(project)) == [".git", "run.sh"]


async def test_a_link_stays_and_its_target_is_written(ctx: Any, call: Any, project: Path) -> None:
    (project / "target").write_text("old")
    (project / "link").symlink_to("target")
    await call(read.TOOL, ctx, filePath="target")
    await call(write.TOOL, ctx, filePath="link", content="new")
    assert (project / "link").is_symlink()
    assert (project / "target").read_text() == "new"


async def test_content_is_written_as_it_is(ctx: Any, call: Any, project: Path) -> None:
    text = "a\r\nb $& \\1 \u2028 é\ufeff"
    await call(write.TOOL, ctx, filePath="f", content=text)
    assert (project / "f").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("folder", "it is a folder"),
        ("file/below", "a part of its path is a file"),
        ("pipe", "pipe or device"),
        ("loop", "Cannot"),
        ("", "Not a path"),
        ("a\0b", "Not a path"),
    ],
)
async def test_a_place_that_cannot_hold_the_file_is_named(
    ctx: Any, call: Any, project: Path, path: str, said: str
) -> None:
    (project / "folder").mkdir()
    (project / "file").write_text("kept")
    os.mkfifo(project / "pipe")
    (project / "loop").symlink_to("loop")
    with pytest.raises(ToolFailure, match=said):
        await call(write.TOOL, ctx, filePath=path, content="x")
    assert (project / "file").read_text() == "kept"
    assert ctx.edited == []


async def test_half_a_character_is_refused(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("kept")
    with pytest.raises(ToolFailure, match=r"half of a character \(U\+D83D at 1\)"):
        await write.execute({"filePath": "f", "content": "a\ud83d"}, ctx)
    assert (project / "f").read_text() == "kept"


def test_writing_needs_the_permission_edit_and_shows_the_change(
    ctx: Any, project: Path, tmp_path: Path
) -> None:
    (project / "f").write_text("old\n")
    (ask,) = write.permissions({"filePath": "f", "content": "new\n"}, ctx)
    assert (ask.permission, ask.patterns, ask.always) == ("edit", ["f"], ["*"])
    assert "-old\n+new\n" in ask.metadata["diff"]
    outside, _ = write.permissions({"filePath": "../g", "content": ""}, ctx)
    assert (outside.permission, outside.patterns) == ("external_directory", [f"{tmp_path}/*"])
    assert write.TOOL.permission == "edit"
