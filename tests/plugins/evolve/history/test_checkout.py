"""Checkouts of a real repository."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.process import Processes


@pytest.fixture
def repository(root: Path, kit: Any) -> Path:
    """A workspace with two commits, ignored and uncommitted files."""
    kit.script(root / "hooks", "a.py", "one\n")
    (root / "notes é").mkdir()
    (root / "notes é" / "x.bin").write_bytes(b"\0\xff\n\r\n")
    (root / "link").symlink_to("notes é/x.bin")
    (root / ".gitignore").write_text("state/\n")
    (root / "state").mkdir()
    (root / "state" / "kept.json").write_text("{}")
    commit(root, kit)
    (root / "hooks" / "a.py").write_text("two\n")
    commit(root, kit)
    (root / "later.txt").write_text("not committed")
    return root


def commit(root: Path, kit: Any) -> str:
    if not (root / ".git").exists():
        kit.git(root, "init", "-q")
    kit.git(root, "add", "-A")
    kit.git(root, "commit", "-q", "-m", "step")
    return str(kit.git(root, "rev-parse", "HEAD")).strip()


@pytest.fixture
def checkouts(processes: Processes, repository: Path, tmp_path: Path) -> ReplayCheckouts:
    return ReplayCheckouts(processes, repository, tmp_path / "cache", kept=2)


async def test_a_checkout_holds_the_commit_and_nothing_else(
    checkouts: ReplayCheckouts, repository: Path, kit: Any
) -> None:
    first = kit.git(repository, "rev-parse", "HEAD~1").strip()
    found = await checkouts.at(first)
    assert found.problem is None
    assert kit.files(found.folder) == {
        ".gitignore": (0o100644, b"state/\n"),
        "hooks/a.py": (0o100755, b"one\n"),
        "link": (0o100644, b"\0\xff\n\r\n"),
        "notes é/x.bin": (0o100644, b"\0\xff\n\r\n"),
    }
    assert (found.folder / "link").is_symlink()
    assert kit.git(repository, "status", "--porcelain").strip() == "?? later.txt"


async def test_a_commit_is_checked_out_once_also_by_its_short_name(
    checkouts: ReplayCheckouts, repository: Path, kit: Any
) -> None:
    head = kit.git(repository, "rev-parse", "HEAD").strip()
    folder = (await checkouts.at(head)).folder
    inode = folder.stat().st_ino
    assert (await checkouts.at(head[:9])).folder.stat().st_ino == inode


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("f" * 40, "could not be restored"),
        ("--help", "that is no commit's id"),
        ("HEAD", "that is no commit's id"),
        (None, "has no commit"),
    ],
)
async def test_without_the_commit_it_is_the_workspace_and_says_so(
    checkouts: ReplayCheckouts, repository: Path, name: str | None, why: str
) -> None:
    found = await checkouts.at(name)
    assert found.folder == repository
    assert found.problem is not None
    assert why in found.problem
    assert "the workspace as it stands now" in found.problem


async def test_without_a_repository_it_is_the_workspace(
    processes: Processes, root: Path, tmp_path: Path
) -> None:
    found = await ReplayCheckouts(processes, root, tmp_path / "cache").at("a" * 40)
    assert found.folder == root
    assert found.problem


async def test_only_those_used_last_stay(
    checkouts: ReplayCheckouts, repository: Path, kit: Any, tmp_path: Path
) -> None:
    commits = [commit(repository, kit)]
    for number in range(2):
        (repository / "later.txt").write_text(str(number))
        commits.append(commit(repository, kit))
    for age, one in enumerate(commits):
        place = (await checkouts.at(one)).folder.parent
        os.utime(place, (1000 + age, 1000 + age))
    # The first is used once more.
    await checkouts.at(commits[0])
    await checkouts.prune()
    assert {path.name for path in (tmp_path / "cache").glob("[!.]*")} == {commits[0], commits[2]}


async def test_filters_of_the_repository_do_not_run(
    checkouts: ReplayCheckouts, repository: Path, kit: Any, tmp_path: Path
) -> None:
    (repository / ".gitattributes").write_text("*.py filter=evil\n")
    head = commit(repository, kit)
    kit.git(repository, "config", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    folder = (await checkouts.at(head)).folder
    assert (folder / "hooks" / "a.py").read_bytes() == b"two\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("hooks/a.py", True),
        ("../later", False),
        ("/etc/passwd", False),
        ("hooks/../../x", False),
        (".", True),
    ],
)
async def test_a_link_that_may_lead_outside_is_left_out(
    checkouts: ReplayCheckouts, repository: Path, kit: Any, target: str, kept: bool
) -> None:
    (repository / "odd").symlink_to(target)
    folder = (await checkouts.at(commit(repository, kit))).folder
    assert (folder / "odd").is_symlink() is kept


def tree_with(root: Path, name: bytes) -> str:
    """Make a commit whose tree holds a file under `name`, which git itself would refuse."""
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=root, input=b"x", capture_output=True, check=True
    ).stdout.strip()
    raw = b"100644 " + name + b"\0" + bytes.fromhex(blob.decode())
    made = ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"]
    tree = subprocess.run(made, cwd=root, input=raw, capture_output=True, check=True).stdout.strip().decode()
    done = ["git", "commit-tree", tree, "-m", "odd"]
    return subprocess.run(done, cwd=root, capture_output=True, check=True).stdout.strip().decode()


@pytest.mark.parametrize("name", [b"..", b".git", b"../x"])
async def test_a_crafted_tree_writes_nothing_outside(
    checkouts: ReplayCheckouts, repository: Path, tmp_path: Path, name: bytes
) -> None:
    found = await checkouts.at(tree_with(repository, name))
    assert found.folder == repository
    assert found.problem is not None
    assert not list((tmp_path / "cache").glob("[!.]*"))
    assert not list(tmp_path.glob("**/x"))
