"""Repositories, and what looks at them."""

import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from instar.git.project import discover
from instar.process import Processes
from instar.project import vcs

Git = Callable[..., str]
Opened = Callable[[Path], "vcs.Repository"]


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git of the test has a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    """What starts children."""
    made = Processes()
    yield made
    await made.close()


@pytest.fixture
def git() -> Git:
    """Run git in a folder."""

    def run(folder: Path, *args: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
        # Newer ones tidy up on their own after a commit, and write into the folder that tests compare.
        name += ["-c", "maintenance.auto=false"]
        done = subprocess.run(["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout

    return run


@pytest.fixture
def folder(tmp_path: Path, git: Git) -> Path:
    """A repository with two commits of three files."""
    made = tmp_path / "repository"
    (made / "sub").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "a.txt").write_text("one\ntwo\nthree\n")
    (made / "sub" / "b.txt").write_text("b\n")
    (made / "c.txt").write_text("c\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    return made


@pytest.fixture
def opened(processes: Processes) -> Callable[[Path], object]:
    """Open a folder's repository."""

    async def find(where: Path) -> vcs.Repository:
        found = await vcs.repository(processes, await discover(where, processes))
        assert found is not None
        return found

    return find
