import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_without_a_name_the_script_is_that_of_the_persons_shell(machine, shell):
    machine.environment["SHELL"] = f"/usr/bin/{shell}"
    assert machine.instar("completion").stdout == machine.instar("completion", shell).stdout != ""


@pytest.mark.parametrize("shell", ["", "/bin/dash"])
def test_a_shell_without_a_script_is_asked_for_by_name(machine, shell):
    machine.environment["SHELL"] = shell
    done = machine.instar("completion")
    assert done.returncode == 2
    assert done.stderr == "instar: name a shell: bash, zsh, fish (see: instar completion --help)\n"


def test_what_the_script_asks_completes_commands_of_commands(machine):
    asking = {"COMP_WORDS": "instar config ", "COMP_CWORD": "2", "_INSTAR_COMPLETE": "bash_complete"}
    machine.environment |= asking
    assert set(machine.instar().stdout.split()) == {"plain,check", "plain,schema", "plain,show"}


def test_bash_takes_the_script(machine):
    script = machine.instar("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
