"""A directory's files: the ranking of paths, searching without ripgrep, links that appear while a file is opened."""

import asyncio
from pathlib import Path

import pytest

from instar.api.session import Invalid
from instar.process import Processes
from instar.project import files
from instar.project.files import best, locate, whole
from instar.tool import search

NEARER = [
    ("main", ["src/main.py", "src/maintain.py", "src/domain.py", "main/x.py", "m/a/i/n.py"]),
    ("main.py", ["src/main.py", "a/domain.py"]),
    ("sm", ["sm/a.py", "src/main.py"]),
    ("", ["a", "bb", "ccc"]),
]


@pytest.mark.parametrize(("query", "order"), NEARER)
def test_a_name_is_nearer_than_a_path_and_that_nearer_than_scattered_letters(
    query: str, order: list[str]
) -> None:
    assert best(reversed(order), query, 10) == order


def test_letters_that_are_missing_or_in_another_order_do_not_fit() -> None:
    assert best(["abc"], "cb", 10) == []
    assert best(["abc"], "abd", 10) == []


async def test_a_python_program_finds_the_same_where_there_is_no_ripgrep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes("zwölf Boxkämpfer\r\njagen Eva\n".encode())
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_text("Eva und Eva\n")
    (tmp_path / "d.bin").write_bytes(b"Eva\0")
    processes = Processes()
    answers = []
    for there in (True, False):
        if not there:
            monkeypatch.setattr(search, "ripgrep", lambda: None)
        found = (
            files.fuzzy(processes, tmp_path, "c", None, 10),
            files.lines(processes, tmp_path, "Ev.|ämp", 10),
        )
        answers.append(await asyncio.gather(*found))
        with pytest.raises(Invalid, match="no regular expression"):
            await files.lines(processes, tmp_path, "(", 10)
    await processes.close()
    assert answers[0] == answers[1]
    assert [(match.path.text, match.line_number, match.absolute_offset) for match in answers[1][1]] == [
        ("a.txt", 1, 0),
        ("a.txt", 2, 20),
        ("b/c.txt", 1, 0),
    ]
    assert [(one.start, one.end) for one in answers[1][1][2].submatches] == [(0, 3), (8, 11)]


def test_a_link_that_takes_a_files_place_after_it_was_looked_at_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("outside")
    (inside / "file").write_text("inside")
    looked_at = locate(inside, "file")
    looked_at.unlink()
    looked_at.symlink_to(tmp_path / "secret")
    with pytest.raises(Invalid, match="cannot read"):
        whole(looked_at)
