"""Copies of a repository: settings that others made run nothing, also where they hold in the copy alone."""

import subprocess
from pathlib import Path

import pytest

from instar.project.worktree import STRATEGY, Copies, CopyError
from instar.testing import Machine

pytest_plugins = ["tests.turn"]


def git(folder: Path, *args: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(house: Machine) -> Path:
    git(house.folder, "init", "-q", "-b", "main")
    (house.folder / ".gitattributes").write_text("* filter=mark\n")
    (house.folder / "a.txt").write_text("one\n")
    git(house.folder, "add", ".")
    git(house.folder, "commit", "-qm", "first")
    return house.folder


@pytest.mark.parametrize("where", ["filter.mark.smudge", "includeIf.gitdir:**/worktrees/**.path"])
async def test_filters_and_hooks_of_the_repositorys_own_settings_do_not_run_for_a_copy(
    house: Machine, repository: Path, tmp_path: Path, where: str
) -> None:
    command = f"touch {tmp_path}/ran; cat"
    (repository / ".git" / "more").write_text(
        f'[filter "mark"]\n\tsmudge = "{command}"\n\tclean = "{command}"\n'
    )
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(repository, "config", where, command if where.startswith("filter") else "more")
    copies = Copies((await house.open()).runtime.instance)
    made = await copies.create(STRATEGY, tmp_path / "copies", "one")
    assert (made / "a.txt").read_text() == "one\n"
    # Of another length: git may miss a change of the same size within one tick of the clock.
    (made / "a.txt").write_text("something else\n")
    with pytest.raises(CopyError) as error:
        await copies.remove(made, force=False)
    assert error.value.forced
    await copies.remove(made, force=True)
    assert not made.exists()
    assert not (tmp_path / "ran").exists()


async def test_a_copy_whose_folder_is_gone_is_forgotten(
    house: Machine, repository: Path, tmp_path: Path
) -> None:
    copies = Copies((await house.open()).runtime.instance)
    made = await copies.create(STRATEGY, tmp_path, "one")
    subprocess.run(["rm", "-r", str(made)], check=True)
    await copies.remove(made, force=False)
    assert git(repository, "worktree", "list").count("\n") == 0
    with pytest.raises(CopyError, match="Invalid project copy"):
        await copies.remove(made, force=False)


async def test_a_repository_without_a_commit_has_no_copies(house: Machine, tmp_path: Path) -> None:
    git(house.folder, "init", "-q", "-b", "main")
    copies = Copies((await house.open()).runtime.instance)
    with pytest.raises(CopyError, match="the copy cannot be made"):
        await copies.create(STRATEGY, tmp_path / "copies", "one")
    assert list((tmp_path / "copies").iterdir()) == []
