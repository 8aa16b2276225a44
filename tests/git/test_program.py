"""Git, run so that a repository cannot make it run anything else."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from instar.git import (
    GitError,
    branch,
    clean_environment,
    common_folder,
    find_worktree,
    git,
    git_folder,
    head_branch,
    root_commit,
    toplevel,
)
from instar.process import Processes


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person without any git settings; returns where theirs would stand."""
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["EMAIL"]:
        monkeypatch.delenv(name, raising=False)
    settings = tmp_path / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return settings


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


@pytest.fixture
async def repository(tmp_path: Path, processes: Processes) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    await git(processes, folder, "init")
    return folder


async def commit(processes: Processes, folder: Path, text: str = "one") -> str:
    (folder / "file").write_text(text)
    await git(processes, folder, "add", "file")
    await git(processes, folder, "commit", "-m", text)
    return (await git(processes, folder, "rev-parse", "HEAD")).strip()


async def test_a_command_answers_with_its_output(processes: Processes, repository: Path) -> None:
    made = await commit(processes, repository)
    assert (await git(processes, repository, "log", "--format=%H %s")).strip() == f"{made} one"


async def test_a_failed_command_says_what_where_and_what_git_said(
    processes: Processes, repository: Path
) -> None:
    with pytest.raises(
        GitError, match=r"git show 'no such' failed in .*repository: fatal: .*no such"
    ) as raised:
        await git(processes, repository, "show", "no such")
    assert raised.value.code == 128
    assert await git(processes, repository, "show", "no such", check=False) == ""


async def test_a_command_that_takes_too_long_is_ended(processes: Processes, repository: Path) -> None:
    with pytest.raises(GitError, match=r"did not end within 0\.1 s"):
        await git(processes, repository, "-c", "alias.hang=!sleep 30", "hang", timeout=0.1)


async def test_hooks_of_the_repository_and_of_the_person_do_not_run(
    processes: Processes, repository: Path, person: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "hooks"
    theirs.mkdir()
    person.write_text(f"[core]\n\thooksPath = {theirs}\n")
    for folder in (theirs, repository / ".git/hooks"):
        for name in ("pre-commit", "post-commit", "prepare-commit-msg", "post-checkout"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
            (folder / name).chmod(0o755)
    assert await commit(processes, repository)
    assert not (tmp_path / "ran").exists()


async def test_a_persons_signing_does_not_stop_a_commit(
    processes: Processes, repository: Path, person: Path
) -> None:
    person.write_text("[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n")
    assert await commit(processes, repository)
    await git(processes, repository, "tag", "-a", "v1", "-m", "one")


async def test_a_file_system_monitor_of_the_repository_does_not_run(
    processes: Processes, repository: Path, tmp_path: Path
) -> None:
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    monitor.chmod(0o755)
    with (repository / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {monitor}\n\tpager = {monitor}\n\teditor = {monitor}\n")
    await commit(processes, repository)
    await git(processes, repository, "status")
    assert not (tmp_path / "ran").exists()


async def test_a_transport_that_runs_a_program_is_refused(
    processes: Processes, repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(GitError, match="not allowed"):
        await git(processes, repository, "fetch", f"ext::sh -c 'touch {tmp_path}/ran'")
    assert not (tmp_path / "ran").exists()


async def test_variables_that_point_elsewhere_are_not_inherited(
    processes: Processes, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_COUNT"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert await commit(processes, repository)
    assert not (tmp_path / "elsewhere").exists()


async def test_a_variable_can_be_given_for_one_command(processes: Processes, repository: Path) -> None:
    index = repository.parent / "index"
    (repository / "new").write_text("x")
    await git(processes, repository, "add", "new", env={"GIT_INDEX_FILE": str(index)})
    assert index.exists()
    assert await git(processes, repository, "ls-files") == ""


async def test_a_person_without_a_name_still_commits(processes: Processes, repository: Path) -> None:
    await commit(processes, repository)
    author = await git(processes, repository, "log", "--format=%an <%ae> %cn <%ce>")
    assert author.strip() == "instar <instar@localhost> instar <instar@localhost>"


@pytest.mark.parametrize(
    ("settings", "variables", "author"),
    [
        ("[user]\n\tname = Ada\n\temail = ada@x\n", {}, "Ada <ada@x>"),
        ("[user]\n\tname = Ada\n", {}, "Ada <instar@localhost>"),
        ("[user]\n\tname = Ada\n", {"EMAIL": "ada@y"}, "Ada <ada@y>"),
        ("", {"GIT_AUTHOR_NAME": "Bob", "GIT_AUTHOR_EMAIL": "bob@x"}, "Bob <bob@x>"),
    ],
)
async def test_a_persons_own_name_and_address_are_used(
    processes: Processes,
    repository: Path,
    person: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    variables: dict[str, str],
    author: str,
) -> None:
    person.write_text(settings)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    await commit(processes, repository)
    assert (await git(processes, repository, "log", "--format=%an <%ae>")).strip() == author


async def test_a_name_in_the_repository_is_used(processes: Processes, repository: Path) -> None:
    await git(processes, repository, "config", "user.name", "Local")
    await commit(processes, repository)
    assert (await git(processes, repository, "log", "--format=%an")).strip() == "Local"


async def test_names_of_files_are_not_quoted(processes: Processes, repository: Path) -> None:
    (repository / "über").write_text("x")
    assert await git(processes, repository, "status", "--porcelain") == "?? über\n"


async def test_stdin_reaches_the_command(processes: Processes, repository: Path) -> None:
    assert len((await git(processes, repository, "hash-object", "--stdin", stdin=b"text")).strip()) == 40


async def test_the_root_commit_stays_when_commits_are_added(processes: Processes, repository: Path) -> None:
    assert await root_commit(processes, repository) is None
    first = await commit(processes, repository)
    await commit(processes, repository, "two")
    assert await root_commit(processes, repository) == first


async def test_of_several_roots_the_first_in_order_counts(processes: Processes, repository: Path) -> None:
    one = await commit(processes, repository)
    await git(processes, repository, "checkout", "--orphan", "other")
    two = await commit(processes, repository, "two")
    await git(
        processes, repository, "merge", "--allow-unrelated-histories", "-X", "ours", "-m", "both", "main"
    )
    assert await root_commit(processes, repository) == min(one, two)


async def test_a_repository_that_git_cannot_read_is_an_error(processes: Processes, repository: Path) -> None:
    await commit(processes, repository)
    (repository / ".git/config").write_text("[core\n")
    with pytest.raises(GitError, match="bad config"):
        await root_commit(processes, repository)


async def test_the_folder_and_branch_as_git_sees_them(
    processes: Processes, repository: Path, tmp_path: Path
) -> None:
    (repository / "sub").mkdir()
    assert await toplevel(processes, repository / "sub") == repository
    assert await toplevel(processes, tmp_path) is None
    assert await branch(processes, repository) == "main"
    made = await commit(processes, repository)
    await git(processes, repository, "checkout", made)
    assert await branch(processes, repository) is None
    assert head_branch(repository) is None


async def test_a_worktree_is_found_without_starting_git(
    processes: Processes, repository: Path, tmp_path: Path
) -> None:
    deep = repository / "a/b"
    deep.mkdir(parents=True)
    assert find_worktree(deep) == repository
    assert find_worktree(repository) == repository
    assert find_worktree(tmp_path) is None
    assert head_branch(repository) == "main"
    assert common_folder(repository) == git_folder(repository) == repository / ".git"


async def test_a_linked_worktree_shares_the_repositorys_folder(
    processes: Processes, repository: Path, tmp_path: Path
) -> None:
    await commit(processes, repository)
    linked = tmp_path / "linked"
    await git(processes, repository, "worktree", "add", "-b", "feature/x", str(linked))
    assert find_worktree(linked) == linked
    assert head_branch(linked) == "feature/x"
    assert common_folder(linked) == repository / ".git"
    assert git_folder(linked) == repository / ".git/worktrees/linked"


@pytest.mark.parametrize("content", ["", "gitdir: /no/such/folder", "nonsense", "gitdir: \0"])
def test_a_git_file_that_names_nothing_makes_no_worktree(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)
    assert git_folder(tmp_path) is None
    assert common_folder(tmp_path) is None
    assert head_branch(tmp_path) is None


def test_an_empty_git_folder_makes_no_worktree(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert find_worktree(tmp_path) is None


def test_a_head_kept_elsewhere_is_not_taken_for_a_branch(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")
    assert head_branch(tmp_path) is None


def test_the_environment_keeps_what_says_who_the_person_is() -> None:
    given = {
        "PATH": "/bin",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_DIR": "/x",
        "GIT_CONFIG_GLOBAL": "/c",
        "GIT_SSH": "x",
    }
    kept = clean_environment(given)
    assert kept.items() >= {"PATH": "/bin", "GIT_AUTHOR_NAME": "Ada", "GIT_CONFIG_GLOBAL": "/c"}.items()
    assert kept["GIT_TERMINAL_PROMPT"] == "0"
    assert not {"GIT_DIR", "GIT_SSH"} & kept.keys()
