"""`instar evolve status|validate|log` as a process, on good and on broken workspaces."""

import os
import re

import pytest

TEST = "#!/bin/sh\nif grep -q wrong hooks/a.sh; then echo it is wrong; exit 5; fi\necho all well\n"


@pytest.fixture
def workspace(person):
    person.shell("a.sh", discover='{"name": "bot", "test": "a_test.sh", "tools": [{"name": "t"}]}')
    person.write("tests/a_test.sh", TEST, 0o755)
    return person


def candidate(person, text: str, name: str = "a.sh") -> str:
    folder = person.folder / "new"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode("latin-1"))
    return str(folder / name)


def test_status_shows_the_workspace_its_scripts_and_its_history(workspace):
    ran = workspace.instar("evolve", "status")
    assert ran.stdout.splitlines() == [
        f"workspace  {workspace.root} (INSTAR_WORKSPACE)",
        "script     hooks/a.sh: name bot, test tests/a_test.sh, tools bot_t",
        "history    no repository yet; evolve makes it when it runs",
    ]
    workspace.commit_all()
    assert re.search(
        r"^history    [0-9a-f]{7,} .* before$", workspace.instar("evolve", "status").stdout, re.M
    )


def test_status_names_each_problem_and_still_ends_with_0(workspace):
    workspace.script("later.sh", "#!/bin/sh\n", mode=0o644)
    workspace.script("broken.sh", "#!/bin/sh\necho why; exit 3\n")
    workspace.shell("twin.sh", discover='{"name": "bot"}')
    lines = workspace.instar("evolve", "status").stdout.splitlines()
    problems = [line for line in lines if line.startswith("problem")]
    assert len(problems) == 3
    assert "later.sh is missing its run bit: chmod +x" in problems[0]
    assert "broken.sh discover: ended with exit code 3" in problems[1]
    assert "a.sh and twin.sh both register the name 'bot'" in problems[2]


def test_status_of_broken_settings_names_line_and_column_runs_nothing_and_ends_with_1(workspace):
    workspace.write("config/evolve.jsonc", '{\n  "hook_timeout": "soon"\n}\n')
    ran = workspace.instar("evolve", "status", code=1)
    assert "evolve.jsonc:2:19: hook_timeout: Expected `int`" in ran.stdout
    assert "script     hooks/a.sh (not run)" in ran.stdout
    assert workspace.calls("a.sh", "discover") == []


def test_validate_prints_the_tests_output_and_installs_nothing(workspace):
    workspace.commit_all()
    before = workspace.files()
    text = (workspace.root / "hooks" / "a.sh").read_text()
    ran = workspace.instar("evolve", "validate", candidate(workspace, text + "# more\n"))
    assert ran.stdout.splitlines() == [
        "all well",
        "hooks/a.sh would be installed: tests/a_test.sh passed",
    ]
    ran = workspace.instar("evolve", "validate", candidate(workspace, text + "# wrong\n"), code=1)
    assert "hooks/a.sh would be refused: its test tests/a_test.sh failed: exit code 5" in ran.stderr
    assert "it is wrong" in ran.stderr.splitlines()
    assert workspace.files() == before
    assert workspace.copies() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("#!/bin/sh\nif\n", "a.sh", "does not answer discover"),
        ("#!/bin/sh\necho '[]'\n", "a.sh", "not a list"),
        ("#!/bin/sh\nsleep 60\n", "a.sh", "hook_timeout (3000 ms)"),
        ("caf\xe9", "a.sh", "is not UTF-8 text (byte 3)"),
        ("#!/bin/sh\n", "other.sh", "has no hook script hooks/other.sh"),
    ],
)
def test_validate_refuses_with_the_reason_and_ends_with_1(workspace, text, name, said):
    file = candidate(workspace, text, name)
    ran = workspace.instar("evolve", "validate", file, code=1, EVOLVE_HOOK_TIMEOUT="3000")
    assert said in ran.stderr
    assert workspace.copies() == []


def test_validate_with_broken_settings_is_refused_since_the_defaults_do_not_stand_in(workspace):
    workspace.write("config/evolve.jsonc", "{ oops }")
    ran = workspace.instar("evolve", "validate", candidate(workspace, "#!/bin/sh\n"), code=1)
    assert "evolve.jsonc:1:3" in ran.stderr
    assert workspace.calls("a.sh", "discover") == []


@pytest.mark.slow
def test_log_lists_the_commits_newest_first(workspace):
    ran = workspace.instar("evolve", "log", code=1)
    assert "is no git repository yet" in ran.stderr
    workspace.write("prompts/chat.md", "")
    workspace.commit_all()
    workspace.run(
        '== turn\ntool: evolve_prompt_write {"prompt": "chat.md", "content": "x"}\n== turn\ntext: done\n'
    )
    lines = workspace.instar("evolve", "log").stdout.splitlines()
    newest, first = (line for line in lines if line[:1].strip())
    assert re.fullmatch(r"[0-9a-f]{7,} .* agent +@2 installed: evolve_prompt_write chat\.md", newest)
    assert re.fullmatch(r"[0-9a-f]{7,} .* person +before", first)
    short = workspace.instar("evolve", "log", "-n", "1").stdout.splitlines()
    assert [line for line in short if line[:1].strip()] == [newest]


def test_a_repository_without_commits_has_an_empty_log(workspace):
    workspace.git("init", "--quiet")
    assert workspace.instar("evolve", "log").stdout == ""
    assert "no commits" in workspace.instar("evolve", "status").stdout


COMMANDS = [["status"], ["log"], ["validate", "FILE"]]


def each(workspace, root) -> list:
    """Every command on the workspace at `root`, in a few lines each."""
    file = candidate(workspace, "#!/bin/sh\necho '{}'\n")
    ran = [
        workspace.instar(
            "evolve",
            "--workspace",
            str(root),
            *(file if word == "FILE" else word for word in command),
            code=None,
        )
        for command in COMMANDS
    ]
    assert all(one.code in (0, 1) and len((one.stdout + one.stderr).splitlines()) < 8 for one in ran)
    return ran


def test_a_workspace_that_is_missing_or_a_file_is_one_line(workspace):
    workspace.story.touch()
    for root in (workspace.folder / "none", workspace.story):
        for ran in each(workspace, root):
            said = (
                f"instar: there is no workspace at {root} (--workspace): name one by --workspace or "
                "INSTAR_WORKSPACE, or make one with: instar init FOLDER\n"
            )
            assert (ran.code, ran.stderr) == (1, said)


@pytest.mark.slow
def test_a_damaged_repository_is_said_and_settings_that_became_a_folder_are_not_used(workspace):
    workspace.write(".git/HEAD", "nonsense\n")
    status, log, _ = each(workspace, workspace.root)
    assert (status.code, log.code) == (0, 1)
    assert "history    git log" in status.stdout
    assert re.match(r"instar: git .* failed in .*: fatal: not a git repository", log.stderr)
    workspace.write("config/evolve.jsonc/x", "")
    status, _, _ = each(workspace, workspace.root)
    assert status.code == 0
    assert "config/evolve.jsonc/x is new, behind the gate: it is not used" in status.stdout


def test_settings_that_are_a_folder_at_the_first_look_are_said(workspace):
    workspace.write("config/evolve.jsonc/x", "")
    status, _, validate = each(workspace, workspace.root)
    assert (status.code, validate.code) == (1, 1)
    assert "evolve.jsonc: cannot be read" in status.stdout
    assert "evolve.jsonc: cannot be read" in validate.stderr


def test_an_untrusted_workspace_is_shown_not_run(workspace):
    del workspace.environment["INSTAR_WORKSPACE"]
    os.rename(workspace.root, workspace.home / "workspace")
    ran = workspace.instar("evolve", "status", code=1)
    assert "hooks/a.sh (not run)" in ran.stdout
    assert "is not trusted" in ran.stdout
    assert workspace.calls("a.sh", "discover") == []
    ran = workspace.instar("evolve", "validate", candidate(workspace, "#!/bin/sh\n"), code=1)
    assert "instar trust" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["evolve", "log", "-n", "0"],
        ["evolve", "validate"],
        ["evolve", "none"],
        ["evolve", "validate", "none"],
    ],
)
def test_bad_usage_ends_with_2(workspace, arguments):
    assert workspace.instar(*arguments, code=2).stderr
