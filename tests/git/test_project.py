"""Which project a directory belongs to."""

import logging
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from instar.git.project import GLOBAL, Project, discover
from instar.process import Processes


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


class Counted(Processes):
    """Real children, counted."""

    def __init__(self) -> None:
        super().__init__()
        self.started = 0

    async def run(self, *args, **options):
        self.started += 1
        return await super().run(*args, **options)


def shell(folder: Path, command: str) -> str:
    done = subprocess.run(["bash", "-ec", command], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


COMMIT = "git -c user.name=a -c user.email=a@x commit -q --allow-empty -m"


async def test_outside_a_repository_there_is_one_global_project(tmp_path: Path) -> None:
    processes = Counted()
    assert await discover(tmp_path, processes) == Project(GLOBAL, Path("/"), tmp_path, None)
    assert processes.started == 0


async def test_a_repository_goes_by_its_root_commit(tmp_path: Path) -> None:
    root = shell(
        tmp_path, f"git init -q; {COMMIT} one; {COMMIT} two; mkdir -p a/b; git rev-list --max-parents=0 HEAD"
    )
    processes = Counted()
    project = await discover(tmp_path / "a/b", processes)
    assert project == Project(root, tmp_path, tmp_path / "a/b", "git")
    assert processes.started == 1


async def test_a_repository_without_commits_is_global_with_its_own_worktree(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shell(tmp_path, "git init -q")
    assert await discover(tmp_path, processes) == Project(GLOBAL, tmp_path, tmp_path, "git")
    assert caplog.records == []


async def test_a_clone_and_a_linked_worktree_are_the_same_project(
    processes: Processes, tmp_path: Path
) -> None:
    shell(
        tmp_path,
        f"git init -q one; cd one; {COMMIT} x; cd ..; git clone -q one two; git -C one worktree add -q ../three",
    )
    projects = [await discover(tmp_path / name, processes) for name in ("one", "two", "three")]
    assert len({project.id for project in projects}) == 1
    assert [project.worktree.name for project in projects] == ["one", "two", "three"]
    assert [project.main_worktree.name for project in projects] == ["one", "two", "one"]


async def test_the_id_that_opencode_keeps_is_used_without_starting_git(tmp_path: Path) -> None:
    shell(tmp_path, f"git init -q; {COMMIT} one")
    (tmp_path / ".git/opencode").write_text("c" * 40)
    processes = Counted()
    assert (await discover(tmp_path, processes)).id == "c" * 40
    assert processes.started == 0


@pytest.mark.parametrize("kept", ["global", "../../x", "C" * 40, ""])
async def test_a_kept_id_that_is_no_commit_is_passed_over(
    processes: Processes, tmp_path: Path, kept: str
) -> None:
    root = shell(tmp_path, f"git init -q; {COMMIT} one; git rev-parse HEAD")
    (tmp_path / ".git/opencode").write_text(kept)
    assert (await discover(tmp_path, processes)).id == root


async def test_discovery_writes_nothing_into_the_repository(processes: Processes, tmp_path: Path) -> None:
    shell(tmp_path, f"git init -q; {COMMIT} one")
    before = shell(tmp_path, "find . -printf '%p %T@\\n' | sort")
    await discover(tmp_path, processes)
    assert shell(tmp_path, "find . -printf '%p %T@\\n' | sort") == before


async def test_a_repository_that_git_cannot_read_is_global_and_the_log_says_why(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shell(tmp_path, f"git init -q; {COMMIT} one; echo '[core' > .git/config")
    with caplog.at_level(logging.WARNING):
        project = await discover(tmp_path, processes)
    assert project == Project(GLOBAL, tmp_path, tmp_path, "git")
    assert "bad config" in caplog.text


async def test_without_git_on_the_path_a_repository_is_global(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shell(tmp_path, f"git init -q; {COMMIT} one")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await discover(tmp_path, processes)).id == GLOBAL
    assert "cannot start git" in caplog.text


async def test_a_directory_reached_by_a_link_is_the_one_it_points_to(
    processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/sub")
    shell(tmp_path / "real", f"git init -q; {COMMIT} one")
    project = await discover(tmp_path / "link", processes)
    assert (project.worktree, project.directory) == (tmp_path / "real", tmp_path / "real/sub")
