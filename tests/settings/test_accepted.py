"""Accepted content: a bare repository that git reads, and that nothing in an object's place misleads."""

import os
import subprocess

import pytest

from instar.settings.accepted import AcceptedContent, AcceptedFile, Damaged, blob_id

FILES = {"a/b.sh": (0o100755, b"b"), "a.txt": (0o100644, b""), "a0": (0o100644, b"0"), "l": (0o120000, b"a0")}


@pytest.fixture
def content(tmp_path):
    return AcceptedContent(tmp_path / "data" / "accepted.git")


def commit(content, files=FILES, branch="accepted", parent=""):
    kept = {path: AcceptedFile(mode, content.put(data)) for path, (mode, data) in files.items()}
    return content.commit(branch, kept, "a subject\n\nand more", parent=parent)


def git(content, *args):
    command = ["git", "--git-dir", str(content.place), *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_what_was_committed_is_read_again_and_git_reads_it_too(content):
    made = commit(content)
    assert content.tip("accepted") == made
    found = content.read(made)
    assert found.message == "a subject\n\nand more"
    assert {path: (mode, content.content(blob)) for path, (mode, blob) in found.files.items()} == FILES
    assert git(content, "fsck", "--strict") == ""
    assert git(content, "rev-parse", "accepted").strip() == made
    assert set(git(content, "ls-tree", "-r", "--name-only", "accepted").split()) == FILES.keys()


def test_the_commits_of_a_branch_are_told_newest_first(content):
    first = commit(content)
    second = commit(content, {"a/b.sh": (0o100755, b"new")}, parent=first)
    assert second != first
    assert [name for name, _ in content.commits("accepted")] == [second, first]


def test_where_there_is_no_repository_there_is_no_branch(content):
    assert content.tip("accepted") == ""
    assert content.content(blob_id(b"x")) is None


@pytest.mark.parametrize("what", ["garbage", "a pipe", "a folder", "a link"])
def test_a_branch_that_is_no_file_with_a_commit_is_damaged(content, what, tmp_path):
    commit(content)
    path = content.place / "refs" / "heads" / "accepted"
    path.rename(tmp_path / "away")
    make = {
        "garbage": lambda: path.write_text("garbage"),
        "a pipe": lambda: os.mkfifo(path),
        "a folder": path.mkdir,
        "a link": lambda: path.symlink_to(tmp_path / "away"),
    }
    make[what]()
    with pytest.raises(Damaged, match="accepted"):
        content.tip("accepted")
    assert content.set_aside().name == "accepted.git.broken-1"
    assert content.tip("accepted") == ""


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x" * 50)])
def test_a_content_that_is_lost_or_damaged_is_none_until_it_is_put_again(content, damage):
    made = commit(content)
    blob = blob_id(b"b")
    damage(content.place / "objects" / blob[:2] / blob[2:])
    assert content.content(blob) is None
    assert content.read(made).files["a/b.sh"].blob == blob
    assert content.put(b"b") == blob
    assert content.content(blob) == b"b"
    damage(content.place / "objects" / made[:2] / made[2:])
    with pytest.raises(Damaged, match=made[2:]):
        content.read(made)
