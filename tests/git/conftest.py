"""A project that is a git repository, and the snapshots of it."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from instar.git.project import Project
from instar.git.snapshot import Snapshot
from instar.process import Processes


@pytest.fixture(autouse=True)
def _person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person without git settings, whose environment points git at nothing."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The worktree of a repository with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


@pytest.fixture
def opened(tmp_path: Path, project: Path, processes: Processes) -> Callable[..., Snapshot]:
    """Open the snapshots of the project: each call is another runtime's."""

    def make(worktree: Path = project, vcs: str | None = "git", wanted: bool | None = None) -> Snapshot:
        found = Project("id", worktree, worktree, vcs)  # type: ignore[arg-type]
        return Snapshot.of(processes, found, tmp_path / "data", tmp_path / "home", wanted)

    return make


@pytest.fixture
def snapshot(opened: Callable[..., Snapshot]) -> Snapshot:
    return opened()
