"""Which instruction files are read, in which order."""

from pathlib import Path

import pytest

from instar.definitions.instruction import LONGEST, Instructions, Pattern
from instar.git.project import Project
from instar.settings.paths import Paths


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work/inner/deep").mkdir(parents=True)
    return tmp_path


def names(texts: list[str], root: Path) -> list[str]:
    """The file of each text, from its first line."""
    firsts = [text.splitlines()[0].removeprefix("Instructions from: ") for text in texts]
    return [str(Path(first).relative_to(root)) for first in firsts]


def put(path: Path, text: str = "Be kind.") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read(
    directory: Path,
    worktree: Path,
    homes: list[Path],
    patterns: tuple[Pattern, ...] = (),
    *,
    trusted: bool = True,
) -> list[str]:
    home = homes[0] if homes else directory.parent / "nowhere"
    paths = Paths(home, tuple(homes), home, home, home)
    project = Project("p", worktree, directory, "git" if worktree != Path("/") else None)
    return Instructions(project, paths, patterns, lambda folder: trusted).read()


def found(tree: Path, directory: str = "work/inner/deep", patterns: tuple[str, ...] = ()) -> list[str]:
    named = tuple(map(Pattern, patterns))
    return names(read(tree / directory, tree / "work", [tree / "home"], named), tree)


def test_the_home_comes_first_then_each_folder_from_the_worktree_down(tree: Path) -> None:
    for place in ("home", "work", "work/inner", "work/inner/deep"):
        put(tree / place / "AGENTS.md")
    assert found(tree) == [
        *("home/AGENTS.md", "work/AGENTS.md", "work/inner/AGENTS.md", "work/inner/deep/AGENTS.md"),
    ]


def test_a_file_above_the_worktree_is_not_read(tree: Path) -> None:
    put(tree / "AGENTS.md")
    assert found(tree) == []


def test_claude_md_is_read_only_where_there_is_no_agents_md(tree: Path) -> None:
    put(tree / "work/AGENTS.md")
    put(tree / "work/CLAUDE.md")
    put(tree / "work/inner/CLAUDE.md")
    assert found(tree) == ["work/AGENTS.md", "work/inner/CLAUDE.md"]


def test_the_configured_files_follow_in_order_each_pattern_sorted_and_none_twice(tree: Path) -> None:
    for name in ("b.md", "a.md", "more/c.md", "AGENTS.md"):
        put(tree / "work" / name)
    put(tree / "elsewhere/d.md")
    patterns = (str(tree / "elsewhere/*.md"), "*.md", "**/c.md", "gone.md")
    assert found(tree, "work", patterns) == [
        *("work/AGENTS.md", "elsewhere/d.md", "work/a.md", "work/b.md", "work/more/c.md"),
    ]


def test_outside_a_repository_only_the_folder_itself_is_read(tree: Path) -> None:
    put(tree / "work/AGENTS.md")
    put(tree / "work/inner/AGENTS.md")
    texts = read(tree / "work/inner", Path("/"), [])
    assert names(texts, tree) == ["work/inner/AGENTS.md"]


def test_a_text_is_the_files_name_and_its_content(tree: Path) -> None:
    put(tree / "work/AGENTS.md", "\n\nUse tabs.\n\n")
    assert read(tree / "work", tree / "work", []) == [
        f"Instructions from: {tree}/work/AGENTS.md\nUse tabs.",
    ]


def test_an_empty_file_is_left_out(tree: Path) -> None:
    put(tree / "work/AGENTS.md", " \n")
    assert found(tree, "work") == []


def test_a_huge_file_is_cut_and_one_that_is_not_utf_8_is_read_with_marks(tree: Path) -> None:
    put(tree / "work/AGENTS.md", "x" * (LONGEST + 10))
    (tree / "work/inner/AGENTS.md").write_bytes(b"caf\xe9")
    big, odd = read(tree / "work/inner", tree / "work", [])
    assert big.count("x") == LONGEST
    assert odd.endswith("caf\N{REPLACEMENT CHARACTER}")


def test_a_file_that_cannot_be_read_is_logged_and_left_out(
    tree: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree / "work/AGENTS.md")
    # Root may read what nobody may: only a failing device shows this as every user.
    put(tree / "work/inner/AGENTS.md")
    real = Path.open

    def failing(self: Path, *args: object, **rest: object) -> object:
        if self == tree / "work/AGENTS.md":
            raise OSError(5, "Input/output error")
        return real(self, *args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", failing)
    assert found(tree, "work/inner") == ["work/inner/AGENTS.md"]
    assert "instructions not read" in caplog.text


def test_a_pattern_with_a_tilde_means_the_persons_home(tree: Path) -> None:
    put(tree / "home/notes.md")
    assert found(tree, "work", ("~/notes.md",)) == ["home/notes.md"]


def test_a_pattern_is_looked_for_in_each_folder_from_the_worktree_down(tree: Path) -> None:
    put(tree / "work/docs/a.md")
    put(tree / "work/inner/docs/b.md")
    assert found(tree, patterns=("docs/*.md",)) == ["work/docs/a.md", "work/inner/docs/b.md"]


def test_claudes_own_home_file_is_read_where_there_is_no_other(tree: Path) -> None:
    put(tree / "home/.claude/CLAUDE.md")
    assert found(tree) == ["home/.claude/CLAUDE.md"]
    put(tree / "home/AGENTS.md")
    assert found(tree) == ["home/AGENTS.md"]


@pytest.mark.parametrize("pattern", ["**x", "a/**b/*", "", "."])
def test_a_pattern_that_is_none_is_left_out(tree: Path, pattern: str) -> None:
    put(tree / "work/AGENTS.md")
    assert found(tree, "work", (pattern,)) == ["work/AGENTS.md"]


def test_an_address_is_named_as_a_problem(tree: Path) -> None:
    paths = Paths(tree, (), tree, tree, tree)
    project = Project("p", tree / "work", tree / "work", "git")
    made = Instructions(project, paths, [Pattern("https://example.org/a.md")], lambda folder: True)
    assert made.problems == [
        "instructions: https://example.org/a.md was left out: only files are read, not addresses"
    ]
    assert made.read() == []


def test_what_is_not_trusted_stays_inside_its_project_also_through_links(tree: Path) -> None:
    put(tree / "secret/key.md", "private")
    put(tree / "work/real.md", "ours")
    (tree / "work/AGENTS.md").symlink_to(tree / "secret/key.md")
    (tree / "work/inner/AGENTS.md").symlink_to(tree / "work/real.md")
    (tree / "work/linked").symlink_to(tree / "secret")
    put(tree / "work/docs/a.md")
    patterns = (Pattern("linked/*.md", trusted=False), Pattern("docs/*.md", trusted=False))
    arguments = (tree / "work/inner", tree / "work", [tree / "home"], patterns)
    assert names(read(*arguments, trusted=False), tree) == ["work/real.md", "work/docs/a.md"]
    assert "secret/key.md" in names(read(*arguments, trusted=True), tree)
    mine = (*arguments[:3], (Pattern("linked/*.md"),))
    assert "secret/key.md" in names(read(*mine, trusted=False), tree)
