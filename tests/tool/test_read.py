import os
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import read


async def test_a_file_comes_with_its_path_line_numbers_and_end(ctx: Any, call: Any, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n")
    result = await call(read.TOOL, ctx, filePath="a.txt")
    assert result.output == (
        f"<path>{project}/a.txt</path>\n<type>file</type>\n<content>\n1: one\n2: two\n\n"
        "(End of file - total 2 lines)\n</content>"
    )
    assert result.title == "a.txt"
    display = {"type": "file", "path": str(ctx.directory / "a.txt"), "text": "one\ntwo", "truncated": False}
    lines = {"lineStart": 1, "lineEnd": 2, "totalLines": 2}
    shown = {"loaded": [], "display": {**display, **lines}}
    assert result.metadata == {"preview": "one\ntwo", "truncated": False, **shown}
    assert result.truncate is False


@pytest.mark.parametrize(
    ("data", "args", "expected"),
    [
        (b"", {}, "\n(End of file - total 0 lines)"),
        (b"a", {}, "1: a\n\n(End of file - total 1 lines)"),
        (b"\n", {}, "1: \n\n(End of file - total 1 lines)"),
        (b"a\r\nb\r\n", {}, "1: a\n2: b\n\n(End of file - total 2 lines)"),
        (b"\xef\xbb\xbfa\n", {}, "1: a\n\n(End of file - total 1 lines)"),
        (b"a\xffb\n", {}, "1: a\ufffdb\n\n(End of file - total 1 lines)"),
        (b"a\nb\nc", {"offset": 2}, "2: b\n3: c\n\n(End of file - total 3 lines)"),
        (b"a\nb\nc", {"offset": 0}, "1: a\n2: b\n3: c\n\n(End of file - total 3 lines)"),
        (b"a\nb\nc", {"limit": 0}, "1: a\n2: b\n3: c\n\n(End of file - total 3 lines)"),
        (b"a\nb\nc", {"limit": 2}, "1: a\n2: b\n\n(Showing 1-2 of 3. Use offset=3 to continue.)"),
        (b"a\nb\nc\n", {"offset": 2, "limit": 1}, "2: b\n\n(Showing 2-2 of 3. Use offset=3 to continue.)"),
        (b"a\nb\nc\n", {"offset": 3, "limit": 1}, "3: c\n\n(End of file - total 3 lines)"),
    ],
)
async def test_a_part_of_a_file_says_what_is_left(
    ctx: Any, call: Any, project: Path, data: bytes, args: dict[str, int], expected: str
) -> None:
    (project / "f").write_bytes(data)
    result = await call(read.TOOL, ctx, filePath="f", **args)
    assert result.output.split("<content>\n")[1].removesuffix("\n</content>") == expected
    assert result.metadata["truncated"] == ("Showing" in expected)


async def test_two_thousand_lines_come_by_default(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text("x\n" * 2500)
    result = await call(read.TOOL, ctx, filePath="f")
    assert "\n2000: x\n\n(Showing 1-2000 of 2500. Use offset=2001 to continue.)" in result.output


async def test_fifty_kib_come_at_most(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_text(("y" * 999 + "\n") * 100)
    result = await call(read.TOOL, ctx, filePath="f")
    assert "(Output capped at 50 KiB. Showing 1-51 of 100. Use offset=52 to continue.)" in result.output


async def test_a_long_line_is_cut_and_the_next_one_still_has_its_number(
    ctx: Any, call: Any, project: Path
) -> None:
    (project / "f").write_text("é" * 3_000_000 + "\nnext\n")
    result = await call(read.TOOL, ctx, filePath="f")
    assert "1: " + "é" * 2000 + "... (line cut to 2000 characters)\n2: next\n" in result.output


async def test_a_file_of_gigabytes_is_not_loaded(ctx: Any, call: Any, project: Path) -> None:
    with (project / "huge").open("wb") as file:
        file.write(b"head\n" * 2000)
        file.truncate(3 << 30)
    result = await call(read.TOOL, ctx, filePath="huge", limit=3)
    assert "3: head\n\n(Showing 1-3. Use offset=4 to continue.)" in result.output


async def test_reading_far_into_a_file_counts_its_lines_without_keeping_them(
    ctx: Any, call: Any, project: Path
) -> None:
    (project / "f").write_bytes(b"".join(b"%d\n" % number for number in range(1, 400_001)))
    result = await call(read.TOOL, ctx, filePath="f", offset=399_999)
    assert "399999: 399999\n400000: 400000\n\n(End of file - total 400000 lines)" in result.output


@pytest.mark.parametrize(("data", "lines"), [(b"a\nb\nc", 3), (b"a\nb\nc\n", 3), (b"a", 1)])
async def test_an_offset_beyond_the_end_names_the_length(
    ctx: Any, call: Any, project: Path, data: bytes, lines: int
) -> None:
    (project / "f").write_bytes(data)
    with pytest.raises(ToolFailure, match=f"Offset 9 is beyond the end of .*, which has {lines} lines"):
        await call(read.TOOL, ctx, filePath="f", offset=9)
    with pytest.raises(ToolFailure, match=f"which has {lines} lines"):
        await call(read.TOOL, ctx, filePath="f", offset=lines + 1)


async def test_a_missing_file_is_named_with_what_is_near(ctx: Any, call: Any, project: Path) -> None:
    (project / "settings.json").touch()
    (project / "other").touch()
    with pytest.raises(ToolFailure) as failure:
        await call(read.TOOL, ctx, filePath="setings.json")
    assert str(failure.value) == (
        f"File not found: {project}/setings.json\n\nDid you mean one of these?\n{project}/settings.json"
    )


async def test_a_binary_file_is_refused(ctx: Any, call: Any, project: Path) -> None:
    (project / "f").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ToolFailure, match="Cannot read binary file"):
        await call(read.TOOL, ctx, filePath="f")


async def test_a_pipe_is_refused_and_not_waited_for(ctx: Any, call: Any, project: Path) -> None:
    os.mkfifo(project / "pipe")
    with pytest.raises(ToolFailure, match="pipe or device"):
        await call(read.TOOL, ctx, filePath="pipe")


async def test_a_folder_is_listed(ctx: Any, call: Any, project: Path) -> None:
    (project / "src").mkdir()
    (project / "b").touch()
    result = await call(read.TOOL, ctx, filePath=".")
    assert result.output == (
        f"<path>{project}</path>\n<type>directory</type>\n<entries>\n.git/\nb\nsrc/\n\n(3 entries)\n</entries>"
    )
    result = await call(read.TOOL, ctx, filePath=".", offset=2, limit=1)
    assert "<entries>\nb\n\n(Showing 2-2 of 3. Use offset=3 to continue.)" in result.output
    with pytest.raises(ToolFailure, match="which has 3 entries"):
        await call(read.TOOL, ctx, filePath=".", offset=4)


def test_reading_needs_the_path_relative_to_the_worktree(ctx: Any, project: Path, tmp_path: Path) -> None:
    ctx.directory = project / "sub"
    (ask,) = read.permissions({"filePath": "../.env"}, ctx)
    assert (ask.permission, ask.patterns, ask.always) == ("read", [".env"], ["*"])
    outside, ask = read.permissions({"filePath": str(tmp_path / "x" / "y")}, ctx)
    assert (outside.permission, outside.patterns) == ("external_directory", [f"{tmp_path}/x/*"])
    assert ask.patterns == [str(tmp_path / "x" / "y")]
