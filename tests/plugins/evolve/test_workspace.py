"""Which folder, which files."""

from pathlib import Path

import pytest

from instar.plugins.evolve import workspace
from instar.plugins.evolve.workspace import OutsideWorkspace, Workspace


@pytest.mark.parametrize(
    ("environment", "flags", "options", "root", "by_person"),
    [
        ({}, {}, {}, "/h/workspace", False),
        ({}, {}, {"workspace": "~/w"}, "/h/w", False),
        ({"OPENCODE_EVOLVE_WORKSPACE": "/a"}, {}, {"workspace": "/o"}, "/a", True),
        ({"OPENCODE_EVOLVE_WORKSPACE": "/a", "INSTAR_WORKSPACE": "/b"}, {}, {}, "/b", True),
        ({"INSTAR_WORKSPACE": "/b"}, {"workspace": "/f"}, {}, "/f", True),
        ({"INSTAR_WORKSPACE": ""}, {"workspace": None}, {}, "/h/workspace", False),
    ],
)
def test_the_workspace_is_what_was_named_last_by_the_person(environment, flags, options, root, by_person):
    found = workspace.locate({"HOME": "/h", **environment}, flags, options)
    assert (str(found.root), found.by_person) == (root, by_person)


@pytest.mark.parametrize(
    "name", ["../x.py", "/etc/passwd", "a/b.py", "..", ".", "", "a\0b", "..\\x", ".hidden", "__x"]
)
def test_a_name_that_is_not_a_bare_visible_file_name_is_refused(root: Path, name: str):
    with pytest.raises(OutsideWorkspace):
        Workspace(root).resolve(root / "hooks", name)


def test_a_symbolic_link_is_refused_wherever_it_leads(root: Path, tmp_path: Path):
    (tmp_path / "outside.py").write_text("x")
    (root / "hooks" / "inside.py").write_text("x")
    (root / "hooks" / "a.py").symlink_to(tmp_path / "outside.py")
    (root / "hooks" / "b.py").symlink_to("inside.py")
    (root / "prompts").symlink_to(tmp_path)
    found = Workspace(root)
    for folder, name in [(found.hooks, "a.py"), (found.hooks, "b.py"), (found.prompts, "outside.py")]:
        with pytest.raises(OutsideWorkspace, match="symbolic link"):
            found.resolve(folder, name)
    assert found.resolve(found.hooks, "inside.py") == root.resolve() / "hooks" / "inside.py"


def test_hook_files_are_listed_in_order_without_hidden_ones_and_say_a_missing_run_bit(root: Path, kit):
    for name in ("b.py", "a.py", ".c.py", "__init__.py"):
        kit.script(root / "hooks", name, "x")
    kit.script(root / "hooks", "d.py", "x", mode=0o644)
    (root / "hooks" / "folder").mkdir()
    found = Workspace(root).hook_files()
    assert [entry.name for entry in found] == ["a.py", "b.py", "d.py"]
    assert [entry.problem for entry in found[:2]] == [None, None]
    assert found[2].problem is not None
    assert "missing its run bit: chmod +x" in found[2].problem


def test_the_prompts_are_those_of_the_stages_and_what_else_stands_there(root: Path):
    (root / "prompts").mkdir()
    for name in ("style.md", "heartbeat.md", "chat.md", ".x.md", "a.md"):
        (root / "prompts" / name).write_text("x")
    assert Workspace(root).prompt_files() == ["chat.md", "heartbeat.md", "a.md", "style.md"]
