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
    "msgspec",
    "instar.message",
    "instar.runtime",
    "instar.plugin",
)


def test_the_help_lists_every_command_and_a_flagships(machine):
    done = machine.instar("--help")
    assert done.returncode == 0
    for name in ("run", "session", "models", "serve", "trust", "init", "completion", "evolve", "heartbeat"):
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
        (["run", "-c", "-s", "ses_1", "hi"], "--session and --continue exclude each other"),
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("arguments", [[], ["session"], ["evolve"]])
def test_a_command_without_its_rest_prints_its_help_as_it_is_laid_out(machine, arguments):
    done = machine.instar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: instar ")
    assert "\nCommands:\n  " in done.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [(["help"], ["--help"]), (["help", "run"], ["run", "--help"]), (["version"], ["--version"])],
)
def test_help_and_version_may_be_asked_for_by_a_word(machine, words, option):
    said = machine.instar(*words)
    assert (said.returncode, said.stdout) == (0, machine.instar(*option).stdout)
    assert said.stdout


@pytest.mark.slow
def test_a_flagships_command_logs_to_the_file_and_not_to_the_terminal(machine, tmp_path):
    script = tmp_path / "ws/hooks/broken.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    done = machine.instar("evolve", "status", "--workspace", str(tmp_path / "ws"))
    assert done.stderr == ""
    assert "problem    broken.sh discover: ended with exit code 7" in done.stdout
    printed = machine.instar("evolve", "status", "--print-logs", "--workspace", str(tmp_path / "ws"))
    assert "logger=instar.evolve" in printed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_stands_for_nothing_to_read_and_nobody_who_reads(machine, closed):
    command = f"{sys.executable} -m instar run -m scripted/echo hi {closed}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=machine.project, env=machine.environment, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (b"" if ">&-" in closed.split() else b"hi\n")


def test_a_help_that_cannot_be_printed_is_one_line(machine):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "instar", "--help"],
            env=machine.environment,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert (done.returncode, done.stderr) == (1, b"instar: No space left on device\n")
