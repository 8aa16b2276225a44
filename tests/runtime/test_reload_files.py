"""Which files an instance is made of, and in which folders it hears of them."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from instar.git.project import Project
from instar.runtime.reload_watch import WatchedFiles
from instar.settings.paths import Paths


class Machine:
    """A home without anything, and a repository with a folder inside, in which somebody works."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.home = Path(environment["HOME"]).resolve()
        self.project = root.resolve() / "project"
        self.inner = self.project / "inner"
        self.inner.mkdir(parents=True)
        self.paths = Paths.from_environment(environment)
        project = Project("p", self.project, self.inner, "git")
        environment = {**environment, "INSTAR_CONFIG": "own.json"}
        self.places = WatchedFiles(self.inner, project, self.paths, environment)

    def path(self, text: str) -> Path:
        return Path(text.replace("HOME", str(self.home)).replace("P", str(self.project), 1))


@pytest.fixture
def machine(tmp_path: Path, clean_environment: Mapping[str, str]) -> Machine:
    return Machine(tmp_path, clean_environment)


FILES = [
    *(
        "P/opencode.json",
        "P/inner/opencode.jsonc",
        "P/.opencode/opencode.json",
        "P/inner/.instar/instar.json",
    ),
    *("HOME/.config/opencode/config.json", "HOME/.config/instar/instar.jsonc", "HOME/.instar/instar.json"),
    *("P/AGENTS.md", "P/inner/CLAUDE.md", "HOME/.config/instar/AGENTS.md", "HOME/.claude/CLAUDE.md"),
    *("P/.instar/hooks.json", "P/inner/.claude/settings.json", "HOME/.claude/settings.local.json"),
    *("P/.openhands/hooks.json", "P/inner/own.json"),
    *("P/.opencode/agents/deep/poet.md", "P/inner/.instar/mode/plan.md", "HOME/.opencode/command/hi.md"),
    *(
        "P/.instar/skills/sing/SKILL.md",
        "P/.claude/skills/sing/SKILL.md",
        "HOME/.agents/skills/sing/SKILL.md",
    ),
    *("P/.instar/tools/add.py", "P/.opencode/plugin/mine.py", "HOME/.config/instar/plugins/mine.py"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_also_before_it_is_there_and_heard_of_step_by_step(
    machine: Machine, name: str
) -> None:
    path, places = machine.path(name), machine.places
    before = places.signature()
    places.read()
    steps = [path, *(one for one in path.parents if not one.exists())]
    for step in reversed(steps):
        assert str(step.parent) in places.folders, f"nobody would hear of {step}"
        step.write_text("1") if step is path else step.mkdir()
        assert places.settle([str(step)])[0] == {str(step): "change"}
        places.read()
    after = places.signature()
    assert {one for one in after if after[one] != before.get(one)} == {str(path)}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "P/main.py",
            "P/inner/notes.md",
            "P/.git/HEAD",
            "P/.opencode/node_modules/a/plugin.js",
            "HOME/.bashrc",
        ),
        *(
            "P/.opencode/package.json",
            "HOME/.local/share/instar/instar.db-wal",
            "P/.instar/plugins/__pycache__",
        ),
    ],
)
def test_what_else_stands_there_is_nothing_to_look_at(machine: Machine, name: str) -> None:
    path = machine.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = machine.places.signature()
    machine.places.read()
    path.write_text("1")
    assert machine.places.settle([str(path)]) == ({}, False)
    assert machine.places.signature() == before


def test_the_folder_of_the_database_is_not_watched_and_the_list_of_trusted_folders_there_is_looked_at(
    machine: Machine,
) -> None:
    places, trusted = machine.places, machine.paths.trust_file
    trusted.parent.mkdir(parents=True)
    before, unheard = places.signature(), places.unheard()
    places.read()
    assert str(trusted.parent) not in places.folders
    trusted.write_text("{}")
    assert places.unheard() != unheard
    assert {**before, **places.unheard()} == places.signature() != before


def test_the_file_that_a_link_stands_for_is_heard_of_too(machine: Machine) -> None:
    kept = machine.home / "dotfiles" / "instar.json"
    kept.parent.mkdir()
    kept.write_text("{}")
    link = machine.paths.config / "instar.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(kept)
    before = machine.places.signature()
    machine.places.read()
    assert str(kept.parent) in machine.places.folders
    kept.write_text('{"a": 1}')
    assert machine.places.settle([str(kept)])[0]
    assert machine.places.signature() != before


def test_plugins_that_the_settings_name_are_looked_at(machine: Machine) -> None:
    folder = machine.home / "plugins" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (machine.home / "one.py").write_text("")
    machine.places.name([str(folder), str(machine.home / "one.py"), "package"])
    before = machine.places.signature()
    (folder / "part.py").write_text("1")
    (machine.home / "one.py").write_text("1")
    after = machine.places.signature()
    assert {Path(one).name for one in after if after[one] != before.get(one)} == {"part.py", "one.py"}


def test_a_folder_of_a_stranger_costs_no_more_than_its_first_entries(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.runtime.reload_watch.MOST", 5)
    folder = machine.project / ".instar" / "agents"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number:02}.md").write_text("1")
    (folder / "loop").symlink_to(folder)
    found = [path for path in machine.places.signature() if path.startswith(str(folder) + os.sep)]
    assert len(found) == 5
