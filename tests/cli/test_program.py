import json
import os
import subprocess
import sys

import pytest

LAZY = (
    "asyncio",
    "httpx2",
    "rich",
    "starlette",
    "uvicorn",
    "sqlite3",
    "instar.message",
    "instar.runtime",
    "instar.plugin",
)


def test_the_help_lists_every_command_and_a_flagships(machine):
    done = machine.instar("--help")
    assert done.returncode == 0
    for name in ("run", "session", "models", "serve", "trust", "init", "completion", "evolve"):
        assert f"\n  {name} " in done.stdout


def test_the_help_imports_no_room_that_it_does_not_need(machine):
    code = (
        "import sys, json\nfrom instar.cli import main\n"
        "main(['--help'], lambda code: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=machine.environment, capture_output=True, check=True
    )
    assert not set(LAZY) & set(json.loads(done.stderr))


def test_the_help_costs_less_than_a_quarter_of_a_second_of_processor_time(machine):
    def cost() -> float:
        before = os.times()
        machine.instar("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    cost()  # the first run writes bytecode
    assert min(cost() for _ in range(3)) < 0.25


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "there is no command 'rum'; did you mean run?"),
        (["run", "--modle", "x"], "No such option '--modle'"),
        (["run"], "there is no message"),
        (["run", "-c", "-s", "ses_1", "hi"], "--session and --continue cannot stand together"),
        (["run", "--dir", "nowhere", "hi"], "there is no folder"),
        (["run", "-f", "nothing.txt", "hi"], "there is no file"),
        (["session", "show"], "Missing argument 'ID'"),
        (["serve", "--port", "99999"], "99999"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(machine, arguments, said):
    done = machine.instar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("instar: ")
    assert said in done.stderr


def test_a_command_in_a_folder_that_is_gone_says_so(machine, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from instar.cli import main; main(['session', 'list'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, env=machine.environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "the working directory does not exist any more" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_printed(machine):
    from instar import __version__

    assert machine.instar("--version").stdout == f"instar {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_command(machine, shell):
    assert "_INSTAR_COMPLETE" in machine.instar("completion", shell).stdout


def test_a_reader_that_goes_away_is_no_error(machine):
    machine.script("== turn\ntext: hello\n")
    for _ in range(2):
        machine.run("hi")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "instar", "session", "list"],
        cwd=machine.project,
        env=machine.environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
