import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.tool.call import MAX_BYTES, MAX_LINES, cut, truncate


@pytest.mark.parametrize(
    "text", ["", "a\n", "x\n" * (MAX_LINES - 1) + "x", "y" * MAX_BYTES, "é" * (MAX_BYTES // 2)]
)
def test_what_fits_stays_as_it_is_and_leaves_no_file(tmp_path: Path, text: str) -> None:
    assert truncate(text, tmp_path / "out", "call_1") == (text, {"truncated": False})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "lines", "size"),
    [
        ("x\n" * 3000, 2000, 3999),
        (("y" * 99 + "\n") * 1000, 512, 512 * 100 - 1),
        ("z" * 100_000, 1, MAX_BYTES),
        ("é" * 100_000, 1, MAX_BYTES),
        ("a" + "é" * 100_000, 1, MAX_BYTES - 1),
    ],
)
def test_what_is_too_long_is_cut_and_saved_whole(tmp_path: Path, text: str, lines: int, size: int) -> None:
    short, metadata = truncate(text, tmp_path / "data" / "tool-output", "call_1")
    head, note = short.split("\n\n(The output was cut: ")
    assert text.startswith(head)
    assert (head.count("\n") + 1, len(head.encode())) == (lines, size)
    path = Path(metadata["outputPath"])
    assert metadata["truncated"] is True
    assert path.read_text() == text
    assert str(path) in note
    assert f"{lines} line" in note
    assert path.name.startswith("tool_")
    assert path.name.endswith("-call_1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_calls_id_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    for call_id in ("../../evil", "/etc/x", "a\0b", "", "x" * 500):
        _, metadata = truncate("x\n" * 3000, tmp_path, call_id)
        assert Path(metadata["outputPath"]).parent == tmp_path
    assert len(list(tmp_path.iterdir())) == 5


def test_the_same_call_twice_keeps_both_outputs(tmp_path: Path) -> None:
    paths = {truncate("x\n" * 3000, tmp_path, "call_1")[1]["outputPath"] for _ in range(2)}
    assert len(paths) == 2


def test_when_it_cannot_be_saved_the_model_is_told_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    short, metadata = truncate("x\n" * 3000, tmp_path / "file" / "below", "call_1")
    assert metadata == {"truncated": True}
    assert "The rest could not be saved: Not a directory." in short


def test_halves_of_characters_are_no_obstacle(tmp_path: Path) -> None:
    _, metadata = truncate("\ud800" * 60_000, tmp_path, "call_1")
    assert os.path.getsize(metadata["outputPath"]) == 180_000


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(1, 2000))
def test_a_cut_text_is_a_beginning_within_the_limits(text: str, times: int) -> None:
    whole = text * times
    head = cut(whole)
    assert whole.startswith(head)
    assert len(head.encode()) <= MAX_BYTES
    assert head.count("\n") < MAX_LINES
