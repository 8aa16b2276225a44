import os
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import search
from instar.tool.search import RecordSplitter, _Newest


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_stream_is_cut_into_records_however_it_comes(size: int) -> None:
    taken: list[bytes] = []
    records = RecordSplitter(b"\n", taken.append)
    data = b"one\n\ntwo three\nunfinished"
    for start in range(0, len(data), size):
        records(data[start : start + size])
    assert taken == [b"one", b"", b"two three"]


def test_a_record_without_end_takes_bounded_memory() -> None:
    taken: list[bytes] = []
    records = RecordSplitter(b"\n", taken.append)
    for _ in range(100):
        records(b"x" * 10_000)
    records(b"\nnext\n")
    assert [len(record) for record in taken] == [search.MAX_RECORD, 4]


def test_what_is_held_stays_bounded(make: Any, tmp_path: Path) -> None:
    make(tmp_path, {"old": "", "new": ""})
    os.utime(tmp_path / "new", (2e9, 2e9))
    kept = _Newest()
    for number in range(30 * search.LIMIT):
        kept.add(f"{tmp_path}/gone{number}", None)
    kept.add(f"{tmp_path}/old", None)
    kept.add(f"{tmp_path}/new", None)
    found = kept.found(complete=True)
    assert [Path(path).name for path, _ in found.files[:2]] == ["new", "old"]
    assert (len(found.files), found.total) == (search.LIMIT, 30 * search.LIMIT + 2)


async def test_a_search_that_cannot_start_says_why(ctx: Any) -> None:
    ctx.directory = ctx.directory / "gone"
    with pytest.raises(ToolFailure, match=r"The search could not be started: .*does not exist"):
        await search.files(ctx.worktree, "*", ctx)


async def test_a_pattern_with_a_nul_is_refused(ctx: Any) -> None:
    with pytest.raises(ToolFailure, match="could not be started"):
        await search.lines(ctx.worktree, "a\0b", None, ctx)


def test_ripgrep_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rg").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert search.ripgrep() == str(tmp_path / "rg")
