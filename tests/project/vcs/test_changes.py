"""What of a worktree differs from its last commit, whatever stands in it, and nothing is written or run for it."""

import os
import shlex
from pathlib import Path

import pytest

from instar.git import GitError
from instar.project import vcs


def counted(found):
    return [(one.file, one.additions, one.deletions, one.status) for one in found]


def objects(folder: Path) -> set[str]:
    return {str(path) for path in (folder / ".git").rglob("*")}


async def test_changed_new_staged_and_deleted_files_are_found(folder, git, opened):
    (folder / "a.txt").write_text("one\n2\nthree\n")
    (folder / "new.txt").write_text("n\nn\n")
    (folder / "sub" / "staged.txt").write_text("s\n")
    git(folder, "add", "sub/staged.txt")
    (folder / "c.txt").unlink()
    git(folder, "mv", "sub/b.txt", "sub/moved.txt")
    before, index = objects(folder), (folder / ".git" / "index").read_bytes()
    assert counted(await vcs.status(await opened(folder), folder)) == [
        ("a.txt", 1, 1, "modified"),
        ("c.txt", 0, 1, "deleted"),
        ("new.txt", 2, 0, "added"),
        ("sub/b.txt", 0, 1, "deleted"),
        ("sub/moved.txt", 1, 0, "added"),
        ("sub/staged.txt", 1, 0, "added"),
    ]
    below = await vcs.status(await opened(folder), folder / "sub")
    assert [one.file for one in below] == ["sub/b.txt", "sub/moved.txt", "sub/staged.txt"]
    assert objects(folder) == before
    assert (folder / ".git" / "index").read_bytes() == index


async def test_a_patch_says_what_changed_with_as_much_around_it_as_is_asked_for(folder, opened):
    (folder / "a.txt").write_text("one\ntwo\n3\n")
    (folder / "n.bin").write_bytes(b"\0\1")
    repository = await opened(folder)
    changed, new = await vcs.diff(repository, folder)
    assert changed.patch is not None
    assert changed.patch.startswith("diff --git a/a.txt b/a.txt\nindex ")
    assert changed.patch.endswith("@@ -1,3 +1,3 @@\n one\n two\n-three\n+3\n")
    assert new.patch is not None
    assert new.patch.endswith("Binary files /dev/null and b/n.bin differ\n")
    tight, _ = await vcs.diff(repository, folder, context=0)
    assert str(tight.patch).partition("@@")[2] == " -3 +3 @@ two\n-three\n+3\n"
    assert await vcs.diff(repository, folder, context=10**30) == await vcs.diff(repository, folder)


async def test_before_the_first_commit_everything_is_new(tmp_path, git, opened):
    folder = tmp_path / "empty"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a\n")
    git(folder, "add", "a")
    (folder / "b").write_text("b\n")
    assert counted(await vcs.status(await opened(folder), folder)) == [
        ("a", 1, 0, "added"),
        ("b", 1, 0, "added"),
    ]


async def test_names_and_links_and_repositories_within_are_what_they_are(folder, git, opened):
    odd = ['quo"te', "new\nline", "tab\tname", "glob*", ":(top)x", "-dash", "ümlaut", " blank "]
    for name in odd:
        (folder / name).write_text("x\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/latin\xe9")).write_text("x\n")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "c.txt").unlink()
    (folder / "c.txt").symlink_to("a.txt")
    inner = folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("x\n")
    found = {one.file: one for one in await vcs.diff(await opened(folder), folder)}
    assert set(found) == {*odd, "latin\ufffd", "link", "c.txt"}
    assert found["link"].patch.endswith("+/etc/passwd\n\\ No newline at end of file\n")
    assert found["c.txt"].patch.count("diff --git") == 2
    assert all(one.patch and one.patch.endswith("+x\n") for name, one in found.items() if name in odd)


async def test_patches_that_are_too_long_are_left_out_and_their_counts_stay(folder, opened, monkeypatch):
    monkeypatch.setattr(vcs, "LONGEST", 2000)
    monkeypatch.setattr(vcs, "LONGEST_ALL", 2500)
    (folder / "a.txt").write_text("y\n" * 2000)
    for name in ("d", "e", "f"):
        (folder / name).write_text("z\n" * 300)
    found = await vcs.diff(await opened(folder), folder)
    assert [(one.file, one.patch is not None, one.additions) for one in found] == [
        ("a.txt", False, 2000),
        ("d", True, 300),
        ("e", True, 300),
        ("f", False, 300),
    ]


async def test_a_huge_file_is_not_read_as_a_text(folder, opened):
    with (folder / "huge.txt").open("wb") as file:
        file.write(b"line\n")
        file.truncate(20 << 20)
    assert counted(await vcs.status(await opened(folder), folder)) == [("huge.txt", 0, 0, "added")]


HOSTILE = {
    "core.fsmonitor": "{run}",
    "core.hooksPath": "{hooks}",
    "diff.external": "{run}",
    "diff.driver.command": "{run}",
    "diff.driver.textconv": "{run}",
    "filter.driver.clean": "{run}",
    "filter.driver.smudge": "{run}",
    "filter.driver.process": "{run}",
    "filter.driver.required": "true",
    "filter.na=me.clean": "{run}",
    "core.pager": "{run}",
    "core.worktree": "{elsewhere}",
    "core.attributesFile": "{attributes}",
    "include.path": "{more}",
}


@pytest.mark.slow
async def test_a_hostile_repository_runs_nothing_and_shows_nothing_from_elsewhere(
    folder, git, opened, tmp_path
):
    ran, elsewhere, hooks = tmp_path / "ran", tmp_path / "elsewhere", tmp_path / "hooks"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("secret\n")
    (elsewhere / "a.txt").write_text("secret\n")
    hooks.mkdir()
    run = f"sh -c {shlex.quote(f'touch {ran}; cat')}"
    for name in ("post-index-change", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "attributes").write_text("*.bin filter=driver\n")
    (tmp_path / "more").write_text(f'[filter "later"]\n\tclean = {run}\n')
    (folder / ".gitattributes").write_text(
        "*.txt filter=driver diff=driver\nnew.txt filter=later\nc.txt filter=na=me\n"
    )
    for key, value in HOSTILE.items():
        paths = {"run": run, "elsewhere": elsewhere, "hooks": hooks}
        more = {"attributes": tmp_path / "attributes", "more": tmp_path / "more"}
        git(folder, "config", key, value.format(**paths, **more))
    (folder / "a.txt").write_text("one\ntwo\n3\n")
    (folder / "new.txt").write_text("new\n")
    (folder / "new.bin").write_text("new\n")
    (folder / "c.txt").write_text("changed\n")
    repository = await opened(folder)
    expected = [
        (".gitattributes", 3, 0),
        ("a.txt", 1, 1),
        ("c.txt", 1, 1),
        ("new.bin", 1, 0),
        ("new.txt", 1, 0),
    ]
    assert [one[:3] for one in counted(await vcs.status(repository, folder))] == expected
    assert "secret" not in str(await vcs.diff(repository, folder))
    patch = await vcs.raw(repository, folder)
    assert b"secret" not in patch
    await vcs.take_back(repository, patch)
    await vcs.apply(repository, patch)
    assert (folder / "a.txt").read_text() == "one\ntwo\n3\n"
    assert (elsewhere / "a.txt").read_text() == "secret\n"
    assert not ran.exists()


async def test_a_submodules_own_settings_run_nothing(folder, git, opened, tmp_path):
    ran = tmp_path / "ran"
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(folder), "module")
    git(folder, "commit", "-qm", "module")
    git(folder / "module", "config", "core.fsmonitor", f"sh -c 'touch {ran}'")
    (folder / "module" / "a.txt").write_text("changed\n")
    (folder / "a.txt").write_text("one\n")
    assert [one.file for one in await vcs.status(await opened(folder), folder)] == ["a.txt"]
    assert not ran.exists()


async def test_the_persons_own_filters_hold(folder, git, opened, tmp_path):
    git(folder, "config", "--global", "filter.upper.clean", "tr a-z A-Z")
    (folder / ".gitattributes").write_text("*.txt filter=upper\n")
    (folder / "a.txt").write_text("new\n")
    found = {one.file: one.patch for one in await vcs.diff(await opened(folder), folder)}
    assert "+NEW\n" in found["a.txt"]


async def test_a_repository_that_is_gone_is_a_mistake_that_is_told(folder, opened):
    repository = await opened(folder)
    (folder / ".git" / "HEAD").unlink()
    with pytest.raises(GitError):
        await vcs.status(repository, folder)
