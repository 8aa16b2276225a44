"""What changed since it was read is not overwritten."""

import os
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import apply_patch, edit, read, write

PATCH = "*** Begin Patch\n*** Update File: f\n-old\n+new\n*** End Patch"


def change(path: Path, text: str = "old\nby another\n") -> None:
    path.write_text(text)
    os.utime(path, (1, 1))


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (write.TOOL, {"filePath": "f", "content": "new\n"}),
        (edit.TOOL, {"filePath": "f", "oldString": "old", "newString": "new"}),
        (apply_patch.TOOL, {"patchText": PATCH}),
    ],
)
async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(
    ctx: Any, call: Any, project: Path, tool: Any, args: dict[str, str]
) -> None:
    path = project / "f"
    path.write_text("old\n")
    await call(read.TOOL, ctx, filePath="f")
    change(path)
    with pytest.raises(ToolFailure, match="f has changed since this session read it; read it again"):
        await call(tool, ctx, **args)
    assert path.read_text() == "old\nby another\n"
    await call(read.TOOL, ctx, filePath="f")
    await call(tool, ctx, **args)
    assert path.read_text().startswith("new\n")
    # What the session itself wrote it knows.
    await call(edit.TOOL, ctx, filePath="f", oldString="new", newString="newer")
    assert path.read_text().startswith("newer\n")


async def test_a_file_that_was_never_read_is_not_replaced_but_may_be_edited(
    ctx: Any, call: Any, project: Path
) -> None:
    (project / "f").write_text("old\n")
    with pytest.raises(ToolFailure, match="f exists and this session has not read it; read it first"):
        await call(write.TOOL, ctx, filePath="f", content="new")
    await call(edit.TOOL, ctx, filePath="f", oldString="old", newString="new")
    assert (project / "f").read_text() == "new\n"


async def test_each_session_has_seen_its_own(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("old\n")
    await call(read.TOOL, ctx, filePath="f")
    ctx.session_id = "ses_2"
    with pytest.raises(ToolFailure, match="has not read it"):
        await call(write.TOOL, ctx, filePath="f", content="new")


async def test_a_file_that_is_gone_may_be_written_anew(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("old\n")
    await call(read.TOOL, ctx, filePath="f")
    (project / "f").unlink()
    await call(write.TOOL, ctx, filePath="f", content="new")
    assert (project / "f").read_text() == "new"
