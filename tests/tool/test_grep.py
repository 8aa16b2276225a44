import os
import re
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import Ask, PermissionDenied, ToolFailure
from instar.tool import grep, search, walk

pytestmark = pytest.mark.usefixtures("engine")


async def test_lines_that_match_come_by_file_newest_first(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {"b.py": "import os\nx = 1\n  import re\n", "a.py": "import sys\r\n", "c.md": "nothing"})
    result = await call(grep.TOOL, ctx, pattern=r"import \w+$")
    assert result.output == (
        f"Found 3 matches\n\n{project}/b.py:\n  Line 1: import os\n  Line 3:   import re\n\n"
        f"{project}/a.py:\n  Line 1: import sys"
    )
    assert result.title == r"import \w+$"
    assert result.metadata == {"matches": 3, "truncated": False}


@pytest.mark.parametrize(
    ("include", "names"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("*.{py,md}", ["a.py", "src/b.py", "c.md"]),
        ("src/*.py", ["src/b.py"]),
        ("[ac].*", ["a.py", "c.md"]),
        ("*.none", []),
    ],
)
async def test_include_chooses_files_and_ignored_ones_stay_out(
    ctx: Any, call: Any, make: Any, project: Path, include: str, names: list[str]
) -> None:
    make(
        project,
        {"a.py": "x", "src/b.py": "x", "c.md": "x", "out/d.py": "x", ".gitignore": "out/\n", "e.py": "y"},
    )
    result = await call(grep.TOOL, ctx, pattern="x", include=include)
    assert re.findall(rf"^{project}/(.*):$", result.output, re.MULTILINE) == names


async def test_one_file_can_be_searched(ctx: Any, call: Any, make: Any, project: Path) -> None:
    make(project, {"a.txt": "x\ny\nx\n", "b.txt": "x\n"})
    result = await call(grep.TOOL, ctx, pattern="x", path="a.txt")
    assert result.output == f"Found 2 matches\n\n{project}/a.txt:\n  Line 1: x\n  Line 3: x"
    read, ask = grep.permissions({"pattern": "x", "path": "a.txt"}, ctx)
    assert (read.permission, read.patterns) == ("read", ["a.txt"])
    assert (ask.permission, ask.patterns, ask.always) == ("grep", ["x"], ["*"])


async def test_binary_and_huge_files_are_left_out(ctx: Any, call: Any, make: Any, project: Path) -> None:
    make(project, {"bin": b"x\0x\n", "ok": "x\n"})
    with (project / "huge").open("wb") as file:
        file.write(b"x\n")
        file.truncate(walk.MAX_FILE_BYTES + 1)
    assert (await call(grep.TOOL, ctx, pattern="x")).output == f"Found 1 match\n\n{project}/ok:\n  Line 1: x"


async def test_nothing_found_says_so(ctx: Any, call: Any) -> None:
    result = await call(grep.TOOL, ctx, pattern="nothing")
    assert (result.output, result.metadata["matches"]) == ("No matches found", 0)


async def test_a_hundred_lines_of_the_newest_files_come(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {f"{number:03}": "x\n" * 30 for number in range(200)})
    result = await call(grep.TOOL, ctx, pattern="x")
    assert result.output.startswith("Found 6000 matches\n")
    names = re.findall(rf"^{project}/(.*):$", result.output, re.MULTILINE)
    assert names == ["000", "001", "002", "003"]
    assert result.output.count("  Line ") == 100
    assert result.output.endswith(
        "(Showing 100 of 6000, newest files first. Use a more specific pattern or path.)"
    )


@pytest.mark.slow
async def test_one_file_with_very_many_matches_stays_bounded(
    ctx: Any, call: Any, make: Any, project: Path
) -> None:
    make(project, {"many": "x\n" * 50_000})
    result = await call(grep.TOOL, ctx, pattern="x")
    assert result.output.startswith("Found 50000 matches\n")
    assert result.output.count("  Line ") == 100


async def test_a_long_line_is_cut(ctx: Any, call: Any, make: Any, project: Path) -> None:
    make(project, {"min.js": "x" * 1_000_000 + "\nx\n"})
    result = await call(grep.TOOL, ctx, pattern="x")
    assert f"  Line 1: {'x' * search.MAX_LINE}...\n  Line 2: x" in result.output


async def test_odd_file_names_come_whole(ctx: Any, call: Any, make: Any, project: Path) -> None:
    make(project, {"a:1:b c.txt": "x:y\n", "-e": "x\n"})
    result = await call(grep.TOOL, ctx, pattern="x")
    assert f"{project}/a:1:b c.txt:\n  Line 1: x:y" in result.output
    assert f"{project}/-e:\n  Line 1: x" in result.output


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "a{2,1}"])
async def test_a_pattern_that_is_no_expression_is_a_clear_failure(ctx: Any, call: Any, pattern: str) -> None:
    with pytest.raises(ToolFailure, match="not a valid regular expression") as failure:
        await call(grep.TOOL, ctx, pattern=pattern)
    assert "Traceback" not in str(failure.value)


@pytest.mark.parametrize("pattern", ["-x", "--files", "-e"])
async def test_a_pattern_is_never_taken_for_an_option(
    ctx: Any, call: Any, make: Any, project: Path, pattern: str
) -> None:
    make(project, {"f": f"a {pattern} b\n"})
    assert "Found 1 match\n" in (await call(grep.TOOL, ctx, pattern=pattern)).output


async def test_a_search_that_takes_too_long_is_ended(
    ctx: Any, call: Any, make: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "ripgrep", lambda: None)
    monkeypatch.setattr(search, "SECONDS", 0.3)
    make(project, {"0": "aaa!\n", "1": "a" * 40 + "!\n"})
    result = await call(grep.TOOL, ctx, pattern="^(a+)+$")
    assert "(The search was ended after 0.3 s; there may be more. Narrow it down.)" in result.output


async def test_a_missing_path_is_named(ctx: Any, call: Any, project: Path) -> None:
    (project / "source").mkdir()
    with pytest.raises(ToolFailure, match=r"(?s)File not found: .*Did you mean.*/source"):
        await call(grep.TOOL, ctx, pattern="x", path="sorce")


def test_a_folder_outside_needs_its_own_permission(ctx: Any, tmp_path: Path) -> None:
    outside, ask = grep.permissions({"pattern": "x", "path": str(tmp_path)}, ctx)
    assert (outside.permission, outside.patterns) == ("external_directory", [f"{tmp_path}/*"])
    assert ask.permission == "grep"


async def test_a_line_of_a_file_that_may_not_be_read_is_not_shown(
    ctx: Any, call: Any, make: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(project, {".env": "KEY=1\n", "a.txt": "KEY=2\n"})
    (project / "b.txt").symlink_to(".env")

    async def ask(ask: Ask) -> None:
        if ".env" in ask.patterns:
            raise PermissionDenied("no")

    monkeypatch.setattr(ctx, "ask", ask)
    result = await call(grep.TOOL, ctx, pattern="KEY")
    assert result.output == (
        f"Found 1 match\n\n{project}/a.txt:\n  Line 1: KEY=2\n\n"
        "(Files with matches that may not be read were left out: 1.)"
    )
    assert result.metadata == {"matches": 1, "truncated": False}
    result = await call(grep.TOOL, ctx, pattern="KEY=1")
    assert result.output.startswith("No matches found")


async def test_a_person_who_ends_the_turn_over_a_file_ends_the_search(
    ctx: Any, call: Any, make: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(project, {".env": "KEY=1\n"})

    async def ask(ask: Ask) -> None:
        raise PermissionDenied("enough", stop=True)

    monkeypatch.setattr(ctx, "ask", ask)
    with pytest.raises(PermissionDenied, match="enough"):
        await call(grep.TOOL, ctx, pattern="KEY")


async def test_an_ignore_file_without_an_end_does_not_eat_the_memory(
    ctx: Any, call: Any, make: Any, project: Path, engine: str
) -> None:
    make(project, {"a.txt": "x\n"})
    (project / ".gitignore").symlink_to("/dev/zero")
    if engine == "walk":
        assert "a.txt" in (await call(grep.TOOL, ctx, pattern="x")).output
        return
    with pytest.raises(ToolFailure, match="The search was ended by signal"):
        await call(grep.TOOL, ctx, pattern="x")


async def test_a_pipe_is_refused_instead_of_waited_for(ctx: Any, call: Any, project: Path) -> None:
    os.mkfifo(project / "pipe")
    with pytest.raises(ToolFailure, match="it is a pipe or device"):
        await call(grep.TOOL, ctx, pattern="x", path="pipe")
