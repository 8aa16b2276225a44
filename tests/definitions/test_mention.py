"""Mentions: what ``@`` names becomes a part."""

from pathlib import Path

import pytest

from instar.definitions.command import OutsideMention, mentioned_parts, mentions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project/src").mkdir(parents=True)
    for name in ("a.py", "src/b.txt", "with(paren).md", "end."):
        (tmp_path / "project" / name).write_text("x")
    (tmp_path / "outer.txt").write_text("x")
    return tmp_path / "project"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @a.py and @src/b.txt", ["a.py", "b.txt"]),
        ("@a.py", ["a.py"]),
        ("(@a.py)", ["a.py"]),
        ("mail me@a.py or `@a.py`", []),
        ("@a.py @a.py", ["a.py"]),
        ("@a.py, then @src/.", ["a.py", "src"]),
        ("read @a.py!", ["a.py"]),
        ("@with(paren).md", ["with(paren).md"]),
        ("@end.", ["end."]),
        ("@gone.py @ @@ @~nobodyhere/x", []),
        ("../@a.py x/@a.py", []),
    ],
)
def test_what_exists_is_a_file(folder: Path, text: str, found: list[str]) -> None:
    assert [part["filename"] for part in mentioned_parts(text, [folder], [])] == found


def test_a_file_a_folder_and_an_agent_have_their_forms(folder: Path) -> None:
    assert mentioned_parts("@a.py @src @rev, @team/rev", [folder], ["rev", "team/rev"]) == [
        {"type": "file", "mime": "text/x-python", "filename": "a.py", "url": (folder / "a.py").as_uri()},
        {
            "type": "file",
            "mime": "application/x-directory",
            "filename": "src",
            "url": (folder / "src").as_uri(),
        },
        {"type": "agent", "name": "rev"},
        {"type": "agent", "name": "team/rev"},
    ]


def test_folders_are_looked_through_in_turn_and_a_file_beats_an_agent(folder: Path) -> None:
    found = mentioned_parts("@b.txt @a.py", [folder / "src", folder], ["a.py"])
    assert [part["url"] for part in found] == [
        (folder / "src/b.txt").as_uri(),
        (folder / "a.py").as_uri(),
    ]


def test_the_home_folder_has_its_sign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert mentioned_parts("@~/a.py", [], [])[0]["url"] == (folder / "a.py").as_uri()


@pytest.mark.parametrize("text", ["@../outer.txt", "@link", "@{outer}"])
def test_a_mention_that_leads_out_is_refused_where_that_is_asked_for(folder: Path, text: str) -> None:
    (folder / "link").symlink_to(folder.parent / "outer.txt")
    text = text.replace("{outer}", str(folder.parent / "outer.txt"))
    with pytest.raises(OutsideMention, match=r"leads to .*outside of"):
        mentioned_parts(text, [folder], [], within=folder)
    assert len(mentioned_parts(text, [folder], [])) == 1


def test_mentions_are_told_once_in_order() -> None:
    assert mentions("@b @a @b") == ["b", "a"]
