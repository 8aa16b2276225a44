"""Skills: where they are found, what they say, what a mistake costs."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from instar.definitions.skill import Skill, read_skills, skill_rules
from instar.git.project import Project
from instar.message import Rule
from instar.settings.load import read_settings
from instar.settings.paths import Paths
from instar.settings.trust import Trust

TEXT = "---\nname: {name}\ndescription: {about}\n---\n\nDo {name}.\n"


class Place:
    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self.paths = Paths.from_environment(environment)
        self.project = (root / "project").resolve()
        (self.project / "inner").mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.mistakes: list[str] = []

    def skill(self, folder: Path, name: str, about: str = "About it", text: str = TEXT) -> Path:
        path = folder / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{name}", name).replace("{about}", about))
        return path

    def read(self, *, trusted: bool = True) -> dict[str, Skill]:
        environment = {**self.environment, **({"INSTAR_TRUST": "all"} if trusted else {})}
        trust = Trust(self.paths, environment)
        project = Project("p", self.project, self.project / "inner", "git")
        settings = read_settings(project.directory, project, self.paths, environment, {}, trust)
        skills, mistakes = read_skills(settings, project, self.paths, trust)
        self.mistakes = [str(mistake).replace(str(self.project), "P") for mistake in mistakes]
        return skills


def listed(skills: Mapping[str, Skill]) -> list[tuple[str, str]]:
    return [(name, skill.description) for name, skill in skills.items()]


@pytest.fixture
def place(tmp_path: Path, clean_environment: Mapping[str, str]) -> Place:
    return Place(tmp_path, clean_environment)


def test_skills_are_found_in_every_place_by_name(place: Place) -> None:
    home, project = place.paths.home, place.project
    place.skill(home / ".claude/skills", "h-claude")
    place.skill(home / ".agents/skills", "h-agents")
    place.skill(place.paths.config / "skill", "h-config")
    place.skill(project / ".claude/skills", "p-claude")
    place.skill(project / "inner/.agents/skills/deep", "p-agents")
    place.skill(project / ".opencode/skill", "p-one")
    place.skill(project / "inner/.instar/skills", "p-two")
    names = ["h-agents", "h-claude", "h-config", "p-agents", "p-claude", "p-one", "p-two"]
    assert listed(place.read()) == [(name, "About it") for name in names]
    assert place.mistakes == []


def test_of_two_with_one_name_the_inner_one_counts(place: Place) -> None:
    place.skill(place.paths.config / "skill", "a", "home")
    place.skill(place.project / ".opencode/skills", "a", "worktree")
    place.skill(place.project / "inner/.opencode/skills", "a", "inner")
    assert listed(place.read()) == [("a", "inner")]


def test_a_skill_says_its_text_and_where_its_folder_is(place: Place) -> None:
    path = place.skill(place.project / ".opencode/skills", "pdf")
    skills = place.read()
    assert skills["pdf"].whole == f"This skill's folder: {path.parent}\n\nDo pdf."
    assert "gone" not in skills


def test_a_skill_without_a_name_goes_by_its_folders(place: Place) -> None:
    place.skill(
        place.project / ".opencode/skills", "tidy", text="---\ndescription: >\n  Tidies\n  up\n---\nx"
    )
    assert listed(place.read()) == [("tidy", "Tidies up")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("just text", "1: description: expected a description: the model chooses a skill by it"),
        ("---\nname: x\n---\n", "1: description: expected a description: the model chooses a skill by it"),
        ("---\nname: x\n", "1: expected a --- line that ends the front matter, found none"),
        ("---\nname: [a]\ndescription: d\n---\n", "2: name: expected a text"),
        ("---\nname: " + "x" * 65 + "\ndescription: d\n---\n", "2: name: expected at most 64 characters, found 65"),
        ("---\nname: x\ndescripton: d\n---\n", "3: descripton: there is no such field; did you mean description?"),
        ("---\nname: x\n*: d\n---\n", "3: expected YAML: did not find expected alphabetic or numeric character"
         " (write * in quotes: YAML gives it a meaning of its own)"),
    ],
)  # fmt: skip
def test_a_broken_skill_is_named_and_its_neighbours_are_there(place: Place, text: str, said: str) -> None:
    place.skill(place.project / ".opencode/skills", "bad", text=text)
    place.skill(place.project / ".opencode/skills", "good")
    assert listed(place.read()) == [("good", "About it")]
    assert place.mistakes == [f"P/.opencode/skills/bad/SKILL.md:{said}"]


def test_fields_of_the_format_that_nothing_asks_for_are_no_mistake(place: Place) -> None:
    text = "---\ndescription: d\nlicense: MIT\nallowed-tools: Read\nmetadata: {a: b}\nown: 1\n---\nx"
    place.skill(place.project / ".claude/skills", "a", text=text)
    assert listed(place.read()) == [("a", "d")]


def test_what_a_trusted_skill_brings_along_may_be_read_and_a_strangers_not(place: Place) -> None:
    own = place.skill(place.paths.config / "skill", "own")
    place.skill(place.project / ".claude/skills", "theirs")
    skills = place.read(trusted=False)
    assert list(skills) == ["own", "theirs"]
    pattern = f"{own.parent}/*"
    assert skill_rules(skills) == [Rule(permission="external_directory", pattern=pattern, action="allow")]


def test_a_strangers_link_out_of_the_project_is_not_read(place: Place, tmp_path: Path) -> None:
    outside = place.skill(tmp_path / "outside", "secret")
    place.skill(place.project / ".claude/skills", "a")
    (place.project / ".claude/skills/b").symlink_to(outside.parent)
    assert list(place.read(trusted=False)) == ["a"]
    assert list(place.read()) == ["a", "secret"]


def test_the_other_files_of_a_skill_are_named_without_following_links(place: Place) -> None:
    path = place.skill(place.project / ".claude/skills", "sing")
    assert "other files" not in place.read()["sing"].whole
    for name in ("notes/high.md", "a.txt", "__pycache__/x.pyc"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text("la")
    (place.paths.home / "private").mkdir()
    (place.paths.home / "private/letter.txt").write_text("dear")
    (path.parent / "home").symlink_to(place.paths.home)
    for trusted in (True, False):
        whole = place.read(trusted=trusted)["sing"].whole
        assert "Its other files, to be read when they are needed: a.txt, notes/high.md\n" in whole
