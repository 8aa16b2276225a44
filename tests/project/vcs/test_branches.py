"""The branch that is checked out, and the one that others begin at."""

import pytest

from instar.project import vcs


@pytest.mark.parametrize(
    ("branches", "default"),
    [(["main", "x"], "main"), (["master", "x"], "master"), (["main", "master"], "main"), (["trunk"], None)],
)
async def test_main_or_master_is_the_default_branch_where_there_is_no_other_word(
    folder, git, opened, branches, default
):
    git(folder, "branch", "-m", "main", branches[0])
    for name in branches[1:]:
        git(folder, "branch", name)
    assert await vcs.default_branch(await opened(folder)) == default


async def test_a_clones_default_branch_is_its_origins(folder, git, opened, tmp_path):
    git(folder, "branch", "-m", "main", "trunk")
    git(tmp_path, "clone", "-q", str(folder), "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "-q", "-b", "topic")
    git(clone, "branch", "-D", "trunk")
    repository = await opened(clone)
    assert await vcs.default_branch(repository) == "trunk"
    assert await vcs.start(repository) == git(folder, "rev-parse", "trunk").strip()
    assert await vcs.left_at(repository, "trunk") == git(folder, "rev-parse", "trunk").strip()


async def test_a_branch_left_where_it_last_had_all_of_the_default_one(folder, git, opened):
    begin = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "checkout", "-q", "-b", "topic")
    (folder / "a.txt").write_text("topic\n")
    git(folder, "commit", "-qam", "topic")
    git(folder, "checkout", "-q", "main")
    (folder / "c.txt").write_text("main\n")
    git(folder, "commit", "-qam", "main")
    git(folder, "checkout", "-q", "topic")
    repository = await opened(folder)
    assert await vcs.left_at(repository, "main") == begin
    assert [one.file for one in await vcs.diff(repository, folder, begin)] == ["a.txt"]
    git(folder, "checkout", "-q", "--orphan", "apart")
    git(folder, "commit", "-qm", "apart")
    assert await vcs.left_at(repository, "main") is None
