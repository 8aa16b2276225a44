"""`instar workspace` and `instar run --worktree`."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND
from tests.waiting import wait_until

WRITE = '== turn\ntool: bash {"command": "echo new > new.txt"}\n\n== turn\ntext: done\n'
ECHO = '== when ""\ntext: {{user}}\n'


def git(folder, *args):
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(machine):
    """The project as a repository with one commit, in which every command may run."""
    machine.write_home("instar.json", '{"permission": {"*": "allow"}}')
    machine.write("a.txt", "one\n")
    git(machine.project, "init", "-q", "-b", "main")
    git(machine.project, "add", ".")
    git(machine.project, "commit", "-qm", "first")
    return machine


@pytest.mark.slow
def test_a_worktree_is_made_listed_and_removed(repository):
    made = repository.instar("workspace", "create", "fix")
    assert (made.returncode, made.stderr) == (0, "")
    assert re.fullmatch(r"fix  worktree  instar/fix  /.*/worktrees/project-[0-9a-f]{8}/fix\n", made.stdout)
    assert repository.instar("workspace", "list").stdout == made.stdout
    (info,) = json.loads(repository.instar("workspace", "list", "--json").stdout)
    assert (info["type"], info["name"], info["branch"]) == ("worktree", "fix", "instar/fix")
    Path(info["directory"], "new.txt").touch()
    refused = repository.instar("workspace", "remove", "fix")
    assert refused.returncode == 2
    assert refused.stderr.startswith("instar: workspace fix holds 1 changed file: keep that first")
    assert repository.instar("workspace", "remove", "--force", "fix").stdout == f"removed {made.stdout}"
    assert "no workspaces here yet" in repository.instar("workspace", "list").stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "a/b"], "'a/b' cannot be a workspace's name"),
        (["create", "x", "--branch", "main"], "the branch main is there already"),
        (["create", "--type", "boat"], "no workspace can be of type 'boat'; there are: worktree"),
        (["create", "--from", "gone"], "Workspace not found: gone"),
        (["remove", "gone"], "Workspace not found: gone"),
    ],
)
def test_a_mistake_is_one_line(repository, arguments, said):
    done = repository.instar("workspace", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_run_works_in_a_worktree_that_it_makes_and_goes_on_in_it(repository):
    repository.script(WRITE)
    first = repository.run("--worktree", "fix", "write")
    assert (first.returncode, first.stdout) == (0, "done\n")
    assert first.stderr.startswith("instar: made the worktree fix on branch instar/fix: ")
    assert git(repository.project, "status", "--porcelain") == ""
    (info,) = json.loads(repository.instar("workspace", "list", "--json").stdout)
    assert Path(info["directory"], "new.txt").read_text() == "new\n"
    repository.script(ECHO)
    again = repository.run("--worktree", "fix", "-c", "and on")
    assert again.stdout == "and on\n"
    assert again.stderr.startswith("instar: going on with ses_")
    assert again.stderr.count("\n") == 1
    assert len(repository.instar("session", "list").stdout.splitlines()) == 1


@pytest.mark.slow
def test_run_does_not_go_on_with_a_worktrees_session_elsewhere(repository):
    repository.script(ECHO)
    repository.run("--worktree", "fix", "hi")
    (session,) = repository.instar("session", "list").stdout.splitlines()
    done = repository.run("-s", session.split()[0], "on")
    assert done.returncode == 2
    assert "works in a workspace: go on with it there (--dir /" in done.stderr
    folder = re.search(r"--dir (\S+)\)", done.stderr)[1]
    assert repository.run("--dir", folder, "-s", session.split()[0], "on").stdout == "on\n"


def test_run_in_a_folder_without_git_says_why_there_is_no_worktree(machine):
    done = machine.run("--worktree", "fix", "hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "lies in no git repository, so it has no worktrees" in done.stderr


@pytest.mark.slow
def test_what_a_crash_left_of_a_worktree_is_gone_when_the_next_one_is_made(repository):
    crash, begun = repository.home / "crash", repository.home / "begun"
    begun.mkdir()
    crash.write_text(f"#!/bin/sh\ntouch {begun}/now\nexec sleep 60\n")
    crash.chmod(0o755)
    repository.write(".gitattributes", "a.txt filter=crash\n")
    git(repository.project, "add", ".")
    git(repository.project, "commit", "-qm", "attributes")
    git(repository.project, "config", "filter.crash.smudge", str(crash))
    repository.environment["INSTAR_TRUST"] = "all"
    with subprocess.Popen(
        [*COMMAND, "workspace", "create", "fix"], cwd=repository.project, env=repository.environment
    ) as killed:
        wait_until((begun / "now").exists)
        killed.kill()
    # Its git ends a moment after it.
    wait_until(lambda: not repository.runs("worktree add"))
    assert "instar/fix" in git(repository.project, "branch")
    assert "no workspaces here yet" in repository.instar("workspace", "list").stderr
    git(repository.project, "config", "filter.crash.smudge", "cat")
    made = repository.instar("workspace", "create", "fix")
    assert made.returncode == 0, made.stderr
    assert Path(made.stdout.split()[3], "a.txt").read_text() == "one\n"
    assert len(git(repository.project, "worktree", "list").splitlines()) == 2


@pytest.mark.slow
def test_a_worktree_may_be_removed_by_a_person_who_stands_in_it(repository):
    folder = Path(repository.instar("workspace", "create", "fix").stdout.split()[3])
    done = repository.instar("workspace", "remove", "fix", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not folder.exists()
    assert git(repository.project, "branch") == "* main"


@pytest.mark.slow
def test_two_processes_that_make_one_name_at_once_make_one(repository):
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: repository.instar("workspace", "create", "same"), range(3)))
    assert sorted(one.returncode for one in done) == [0, 2, 2]
    assert len(repository.instar("workspace", "list").stdout.splitlines()) == 1


@pytest.mark.slow
def test_the_terminal_offers_trust_for_the_project_and_the_worktree_has_it(repository, screen):
    repository.write(
        ".instar/plugins/shout.py",
        "async def shout(input, options):\n"
        "    async def complete(given, output):\n"
        "        output.text = output.text.upper()\n"
        '    return {"text.complete": complete}\n',
    )
    git(repository.project, "add", ".")
    git(repository.project, "commit", "-qm", "plugin")
    repository.script('== when ""\ntext: hello\n')
    terminal = screen("run", "-m", "scripted/test", "--worktree", "fix", "hi")
    terminal.wait_for(f"Trust {repository.project}?")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "HELLO" in terminal.text
    assert terminal.text.count("Trust ") == 1


@pytest.mark.slow
def test_a_person_who_does_not_trust_the_project_is_asked_once(repository, screen):
    repository.write(".instar/plugins/fail.py", "raise SystemExit(1)\n")
    git(repository.project, "add", ".")
    git(repository.project, "commit", "-qm", "plugin")
    repository.script('== when ""\ntext: hello\n')
    terminal = screen("run", "-m", "scripted/test", "--worktree", "fix", "hi")
    terminal.wait_for(f"Trust {repository.project}?")
    terminal.type("n\n")
    assert terminal.end() == 0
    assert terminal.text.count("Trust ") == 1
