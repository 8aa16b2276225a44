import os
from pathlib import Path

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import files


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (b"", False),
        (b"plain text\n\ttab\x1b[0m", False),
        ("ünïcode".encode(), False),
        (b"caf\xe9", False),
        (b"a\0b", True),
        (b"\x01\x02\x03abc", True),
        ("text".encode("utf-16"), True),
    ],
)
def test_binary_is_told_from_text(sample: bytes, expected: bool) -> None:
    assert files.is_binary(sample) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reamde.md", ["readme.md"]),
        ("README.md", ["readme.md"]),
        ("main", ["main.py", "main_test.py"]),
        ("zzz", []),
    ],
)
def test_a_missing_file_is_named_with_its_nearest(tmp_path: Path, name: str, expected: list[str]) -> None:
    for other in ("readme.md", "main.py", "main_test.py", "x"):
        (tmp_path / other).touch()
    said = files.missing(tmp_path / name)
    assert said.startswith(f"File not found: {tmp_path / name}")
    assert said.splitlines()[3:] == [str(tmp_path / one) for one in expected]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"Its folder {tmp_path}/no does not exist either." in files.missing(tmp_path / "no" / "f")


def test_refusing_a_folder_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ToolFailure, match="it is a folder"), files.opened(tmp_path):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_preview_of_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert files.preview(tmp_path / "no") == files.preview(tmp_path) == ""
    (tmp_path / "f").write_bytes(b"a\xff")
    assert files.preview(tmp_path / "f") == "a\ufffd"


def test_a_write_that_fails_leaves_the_old_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("kept")
    with pytest.raises(ToolFailure, match="not a folder"):
        files.replace(tmp_path / "f" / "g", b"x")
    assert (tmp_path / "f").read_text() == "kept"
    assert files.replace(tmp_path / "f", b"new") is True
    assert files.replace(tmp_path / "d" / "g", b"new") is False
