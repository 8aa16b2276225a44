from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import listing

TOOL = listing.TOOL


async def test_files_come_as_a_tree_folders_first(
    engine: str, ctx: Any, call: Any, project: Path, make: Any
) -> None:
    make(project, {"b.txt": "", "a/x.py": "", "a/deep/y.py": "", ".gitignore": "*.log\n", "noise.log": ""})
    result = await call(TOOL, ctx)
    assert result.output.splitlines() == [
        f"{project}/",
        "  a/",
        "    deep/",
        "      y.py",
        "    x.py",
        "  .gitignore",
        "  b.txt",
    ]
    assert result.metadata == {"count": 4, "truncated": False}


async def test_what_is_to_be_ignored_makes_room_for_the_rest(
    engine: str, ctx: Any, call: Any, project: Path, make: Any
) -> None:
    make(project, {**{f"skip/{number}.lock": "" for number in range(120)}, "old.py": ""})
    assert "(Showing 100 of 121" in (await call(TOOL, ctx)).output
    result = await call(TOOL, ctx, ignore=["*.lock"])
    assert result.output == f"{project}/\n  old.py"


async def test_an_empty_folder_and_a_missing_one(ctx: Any, call: Any, project: Path) -> None:
    (project / "empty").mkdir()
    (project / "file").touch()
    assert (await call(TOOL, ctx, path="empty")).output == "No files found"
    with pytest.raises(ToolFailure, match="File not found"):
        await call(TOOL, ctx, path="gone")
    with pytest.raises(ToolFailure, match="Not a folder"):
        await call(TOOL, ctx, path="file")
    with pytest.raises(ToolFailure, match="Not a glob"):
        await call(TOOL, ctx, ignore=["a//b"])


def test_listing_needs_list_on_the_folder(ctx: Any, project: Path, tmp_path: Path) -> None:
    (ask,) = listing.permissions({"path": "src"}, ctx)
    assert (ask.permission, list(ask.patterns)) == ("list", ["src"])
    assert listing.permissions({"path": str(tmp_path)}, ctx)[0].permission == "external_directory"
