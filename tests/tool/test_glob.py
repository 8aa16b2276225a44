import os
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import glob

pytestmark = pytest.mark.usefixtures("engine")

TREE = {
    "src/b.py": "",
    "src/a.py": "",
    "src/deep/c.py": "",
    "readme.md": "",
    ".hidden/d.py": "",
    "a.py": "",
    "build/out.py": "",
    "debug.log": "",
    "keep.log": "",
    ".gitignore": "build/\n*.log\n!keep.log\n/a.py\n",
    "src/.gitignore": "a.py\n",
    ".git/config.py": "",
}


def listed(output: str, root: Path) -> list[str]:
    return [str(Path(line).relative_to(root)) for line in output.split("\n\n")[0].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["src/b.py", "src/deep/c.py", ".hidden/d.py"]),
        ("**/*.py", ["src/b.py", "src/deep/c.py", ".hidden/d.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/", ["src/b.py", "src/deep/c.py", "src/.gitignore"]),
        ("src/deep/c.py", ["src/deep/c.py"]),
        ("./src/**/c.py", ["src/deep/c.py"]),
        ("*.{md,log}", ["readme.md", "keep.log"]),
        ("[cr]*.??", ["src/deep/c.py", "readme.md"]),
        ("build/*.py", ["build/out.py"]),
    ],
)
async def test_a_pattern_finds_files_newest_first(
    ctx: Any, call: Any, make: Any, project: Path, pattern: str, expected: list[str]
) -> None:
    make(project, TREE)
    result = await call(glob.TOOL, ctx, pattern=pattern)
    assert listed(result.output, project) == expected
    assert result.metadata == {"count": len(expected), "truncated": False}


async def test_an_absolute_pattern_starts_where_it_says(
    ctx: Any, call: Any, make: Any, tmp_path: Path
) -> None:
    make(tmp_path / "other", {"x/one.txt": "", "two.txt": ""})
    result = await call(glob.TOOL, ctx, pattern=f"{tmp_path}/other/**/*.txt")
    assert listed(result.output, tmp_path) == ["other/x/one.txt", "other/two.txt"]
    outside, ask = glob.permissions({"pattern": f"{tmp_path}/other/**/*.txt"}, ctx)
    assert (outside.permission, outside.patterns) == ("external_directory", [f"{tmp_path}/other/*"])
    assert (ask.permission, ask.patterns) == ("glob", [f"{tmp_path}/other/**/*.txt"])


async def test_a_pattern_may_lead_upwards_and_is_asked_about(ctx: Any, tmp_path: Path) -> None:
    outside, _ = glob.permissions({"pattern": "../*.txt"}, ctx)
    assert outside.patterns == [f"{tmp_path}/*"]
    (ask,) = glob.permissions({"pattern": "*.txt", "path": "src"}, ctx)
    assert ask.metadata["path"] == str(ctx.directory / "src")


async def test_nothing_found_says_so(ctx: Any, call: Any) -> None:
    assert (await call(glob.TOOL, ctx, pattern="*.nothing")).output == "No files found"
    assert (await call(glob.TOOL, ctx, pattern="no/such/*")).output == "No files found"


async def test_a_hundred_files_come_and_the_rest_is_counted(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {f"{number:04}.txt": "" for number in range(150)})
    result = await call(glob.TOOL, ctx, pattern="*.txt")
    lines = result.output.splitlines()
    assert [Path(line).name for line in lines[:100]] == [f"{number:04}.txt" for number in range(100)]
    assert lines[100:] == [
        "",
        "(Showing 100 of 150, newest files first. Use a more specific pattern or path.)",
    ]
    assert result.metadata == {"count": 100, "truncated": True}


async def test_links_are_not_followed_so_that_a_loop_ends(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {"a/x.txt": ""})
    (project / "a/loop").symlink_to("..")
    (project / "link.txt").symlink_to("a/x.txt")
    assert listed((await call(glob.TOOL, ctx, pattern="*.txt")).output, project) == ["a/x.txt"]


async def test_a_folder_that_may_not_be_read_costs_itself_only(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {"ok/x.txt": "", "shut/y.txt": ""})
    (project / "shut").chmod(0)
    found = listed((await call(glob.TOOL, ctx, pattern="*.txt")).output, project)
    (project / "shut").chmod(0o755)
    assert found == (["ok/x.txt", "shut/y.txt"] if os.geteuid() == 0 else ["ok/x.txt"])


async def test_ignore_files_count_only_inside_a_repository(
    ctx: Any, call: Any, make: Any, tmp_path: Path
) -> None:
    ctx.directory = tmp_path / "plain"
    make(ctx.directory, {"a.log": "", ".gitignore": "*.log\n"})
    assert listed((await call(glob.TOOL, ctx, pattern="*.log")).output, ctx.directory) == ["a.log"]
    make(ctx.directory, {"inner/b.log": "", "inner/.gitignore": "*.log\n", "inner/.git/HEAD": ""})
    assert listed((await call(glob.TOOL, ctx, pattern="*.log")).output, ctx.directory) == ["a.log"]


async def test_the_repositorys_rules_hold_when_the_search_starts_below(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {"src/x.log": "", "src/y.txt": "", ".gitignore": "*.log\n/src/y.txt\n", "src/z.md": ""})
    result = await call(glob.TOOL, ctx, pattern="*", path="src")
    assert listed(result.output, project) == ["src/z.md"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pattern": "*", "path": "nowhere"}, "File not found"),
        ({"pattern": "*", "path": "file"}, "Not a folder"),
        ({"pattern": "*//b"}, "Not a glob pattern"),
        ({"pattern": "{a,b}" * 9}, "more than 256"),
    ],
)
async def test_a_mistake_is_named(
    ctx: Any, call: Any, project: Path, args: dict[str, str], said: str
) -> None:
    (project / "file").touch()
    with pytest.raises(ToolFailure, match=said):
        await call(glob.TOOL, ctx, **args)
