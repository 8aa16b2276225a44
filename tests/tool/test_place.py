from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import files


def test_a_path_is_relative_to_the_directory_and_folded(ctx: Any, project: Path) -> None:
    assert files.locate("a/../b", ctx) == project / "b"
    assert files.locate("/x/./y", ctx) == Path("/x/y")
    assert files.locate("~/f", ctx) == Path.home() / "f"
    assert files.locate("~f", ctx) == project / "~f"


def test_a_path_is_shown_relative_to_the_worktree_and_absolute_outside(ctx: Any, project: Path) -> None:
    ctx.directory = project / "sub"
    assert files.shown(project / "sub" / "f", ctx) == "sub/f"
    assert files.shown(project.parent / "f", ctx) == str(project.parent / "f")


def test_outside_git_the_directory_takes_the_worktrees_place(ctx: Any, project: Path) -> None:
    ctx.worktree = Path("/")
    assert files.shown(project / "f", ctx) == "f"
    assert files.outside(project / "f", ctx) == []
    assert [ask.permission for ask in files.outside(project.parent / "f", ctx)] == ["external_directory"]


@pytest.mark.parametrize("inside", ["worktree", "directory"])
def test_both_the_directory_and_the_worktree_are_inside(ctx: Any, tmp_path: Path, inside: str) -> None:
    setattr(ctx, inside, tmp_path / "elsewhere")
    assert files.outside(tmp_path / "elsewhere" / "f", ctx) == []
    assert files.outside(tmp_path / "elsewhere-not" / "f", ctx)


def test_a_link_that_leads_outside_is_outside(ctx: Any, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (project / "link").symlink_to("../secret")
    (ask,) = files.outside(project / "link" / "f", ctx)
    assert ask.patterns == [f"{tmp_path}/secret/*"]
    assert files.outside(project / "link", ctx)[0].patterns == [f"{tmp_path}/secret/*"]


def test_a_link_counts_under_its_own_name_and_its_targets(ctx: Any, project: Path) -> None:
    (project / "notes").symlink_to(".env")
    (ask,) = files.asks("read", project / "notes", ctx, {})
    assert ask.patterns == ["notes", ".env"]


def test_a_project_reached_through_a_link_is_inside(ctx: Any, project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("project")
    ctx.directory = ctx.worktree = tmp_path / "alias"
    (ask,) = files.asks("read", tmp_path / "alias" / "f", ctx, {})
    assert (ask.permission, ask.patterns) == ("read", ["f"])


def test_a_folder_outside_is_asked_about_as_itself(ctx: Any, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    assert files.outside(tmp_path / "lib", ctx)[0].patterns == [f"{tmp_path}/lib/*"]
    assert files.outside(tmp_path / "lib" / "f", ctx)[0].always == [f"{tmp_path}/lib/*"]
    assert files.outside(Path("/f"), ctx)[0].patterns == ["/*"]


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(ctx: Any, path: str) -> None:
    with pytest.raises(ToolFailure, match="Not a path"):
        files.locate(path, ctx)


def test_a_loop_of_links_is_refused(ctx: Any, project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    with pytest.raises(ToolFailure, match="Cannot resolve"):
        files.asks("read", project / "a", ctx, {})
