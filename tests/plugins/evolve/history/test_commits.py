"""The workspace's repository, with real git."""

import logging
import os

import pytest

from instar.plugins.evolve.history.commits import History


@pytest.fixture
def history(processes, root):
    return History(processes, root)


def log(kit, root):
    return kit.git(root, "log", "--format=%s").split()


async def test_what_was_there_before_is_the_initial_commit(kit, history, root):
    (root / "a.md").write_text("a")
    await history.prepare()
    assert log(kit, root) == ["initial"]
    assert kit.git(root, "ls-files").split() == ["a.md"]
    assert kit.git(root, "log", "--format=%an <%ae>").strip() == "Ada <ada@example.org>"
    await history.prepare()
    assert log(kit, root) == ["initial"]


async def test_an_empty_workspace_has_an_initial_commit_too(kit, history, root):
    await history.prepare()
    assert log(kit, root) == ["initial"]


async def test_a_guarded_file_of_any_name_is_committed(kit, history, root):
    names = ["a.py", "b\nc", '"q"', "d\r", "e\\n", "é", os.fsdecode(b"\xff")]
    for name in names:
        (root / "hooks" / name).write_bytes(b"1\r\n" + os.fsencode(name))
    await history.prepare()
    assert history.problem is None
    assert len(kit.git(root, "ls-files", "hooks").splitlines()) == len(names)
    assert kit.git(root, "status", "--porcelain") == ""


@pytest.mark.slow
async def test_a_tool_run_is_one_commit_of_exactly_what_it_changed(kit, history, root):
    for name in ("kept.md", "changed.md", "gone.md", "persons.md"):
        (root / name).write_text("1")
    await history.prepare()
    (root / "persons.md").write_text("edited by the person")
    before = history.scan()
    (root / "changed.md").write_text("22")
    (root / "gone.md").unlink()
    (root / "new dir").mkdir()
    (root / "new dir" / "né w*.md").write_text("3")
    commit = await history.commit(history.changed(before), "tool")
    assert commit is not None
    assert sorted(commit.files) == ["changed.md", "gone.md", "new dir/né w*.md"]
    shown = kit.git(root, "-c", "core.quotePath=false", "show", "--name-status", "--format=%h %s")
    assert shown.split("\n") == [
        f"{commit.id} tool",
        "",
        "M\tchanged.md",
        "D\tgone.md",
        "A\tnew dir/né w*.md",
        "",
    ]
    assert kit.git(root, "status", "--porcelain") == " M persons.md\n"


@pytest.mark.slow
async def test_what_the_person_has_staged_stays_staged_and_out_of_the_commit(kit, history, root):
    (root / "a.md").write_text("1")
    await history.prepare()
    (root / "staged.md").write_text("s")
    kit.git(root, "add", "staged.md")
    before = history.scan()
    (root / "a.md").write_text("22")
    (root / "b.md").write_text("2")
    await history.commit(history.changed(before), "tool")
    assert kit.git(root, "show", "--name-only", "--format=").split() == ["a.md", "b.md"]
    assert kit.git(root, "status", "--porcelain") == "A  staged.md\n"


async def test_a_run_that_changed_nothing_makes_no_commit(kit, history, root):
    await history.prepare()
    before = history.scan()
    assert await history.commit(history.changed(before), "tool") is None
    assert log(kit, root) == ["initial"]


@pytest.mark.slow
async def test_ignored_files_are_left_out(kit, history, root):
    (root / ".gitignore").write_text("*.tmp\n")
    await history.prepare()
    before = history.scan()
    (root / "x.tmp").write_text("x")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.pyc").write_text("x")
    assert await history.commit(history.changed(before), "tool") is None
    (root / "y.md").write_text("y")
    commit = await history.commit(history.changed(before), "tool")
    assert commit is not None
    assert commit.files == ["y.md"]


@pytest.mark.slow
async def test_a_workspace_inside_another_repository_gets_its_own_and_the_outer_stays_as_it_was(
    kit, processes, tmp_path
):
    outer = tmp_path / "outer"
    inner = outer / "ws"
    inner.mkdir(parents=True)
    kit.git(outer, "init", "-q")
    (outer / "o.md").write_text("o")
    kit.git(outer, "add", "o.md")
    kit.git(outer, "commit", "-qm", "outer")
    history = History(processes, inner)
    await history.prepare()
    before = history.scan()
    (inner / "a.md").write_text("a")
    assert await history.commit(history.changed(before), "tool") is not None
    assert log(kit, inner) == ["tool", "initial"]
    assert log(kit, outer) == ["outer"]
    assert kit.git(outer, "diff", "--cached", "--name-only") == ""


async def test_a_git_hook_of_the_persons_that_fails_does_not_stop_the_commit(kit, history, root):
    await history.prepare()
    kit.script(root / ".git" / "hooks", "pre-commit", "#!/bin/sh\nexit 1")
    before = history.scan()
    (root / "a.md").write_text("a")
    assert await history.commit(history.changed(before), "tool") is not None
    assert log(kit, root) == ["tool", "initial"]


async def test_a_repository_without_commits_gets_its_first_one(kit, history, root):
    kit.git(root, "init", "-q")
    await history.prepare()
    before = history.scan()
    (root / "a.md").write_text("a")
    commit = await history.commit(history.changed(before), "tool")
    assert commit is not None
    assert log(kit, root) == ["tool"]


@pytest.mark.slow
async def test_a_failed_commit_is_said_and_made_before_the_next_one(kit, history, root, caplog):
    await history.prepare()
    before = history.scan()
    (root / "a.md").write_text("a")
    (root / ".git" / "index.lock").write_text("")
    assert await history.commit(history.changed(before), "one") is None
    assert history.problem is not None
    assert "index.lock" in history.problem
    assert any(record.levelno == logging.WARNING for record in caplog.records)
    (root / ".git" / "index.lock").unlink()
    before = history.scan()
    (root / "b.md").write_text("b")
    commit = await history.commit(history.changed(before), "two")
    assert commit is not None
    assert commit.files == ["b.md"]
    assert log(kit, root) == ["two", "one", "initial"]
    assert kit.git(root, "show", "--name-only", "--format=", "HEAD~1").split() == ["a.md"]
    assert history.problem is None


async def test_git_missing_costs_the_commit_and_nothing_else(history, root, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    await history.prepare()
    assert history.problem is not None
    assert "git" in history.problem
    assert await history.commit(["a.md"], "tool") is None


async def test_repositories_inside_the_workspace_are_left_alone(kit, history, root):
    await history.prepare()
    before = history.scan()
    (root / "lib").mkdir()
    kit.git(root / "lib", "init", "-q")
    (root / "lib" / "x.py").write_text("x")
    assert history.changed(before) == []


async def test_the_log_lists_commits_newest_first(history, root):
    await history.prepare()
    await history.commit([], "none")
    (root / "a.md").write_text("a")
    await history.commit(["a.md"], "second")
    lines = await history.entries(5)
    assert [line.split()[-1] for line in lines] == ["second", "initial"]
