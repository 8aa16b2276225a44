"""`instar permission`: what was allowed for always, and taking it back."""

import json

import pytest

ASK = '{"permission": {"bash": "ask"}}'


@pytest.fixture
def allowed(machine, screen):
    """A project in which `echo` and `printf` were allowed for always, in that order."""
    machine.write("opencode.json", ASK)
    for command in ("echo hi", "printf hi"):
        machine.script(f'== turn\ntool: bash {{"command": "{command}"}}\n== turn\ntext: ok\n')
        terminal = screen("run", "-m", "scripted/test", "hello")
        terminal.wait_for("what to do instead?")
        terminal.type("a\n")
        assert terminal.end() == 0
    return machine


@pytest.mark.slow
def test_what_was_allowed_is_listed_removed_and_then_asked_about_again(allowed, screen):
    assert allowed.instar("permission", "list").stdout == "bash  echo hi\nbash  printf hi\n"
    assert json.loads(allowed.instar("permission", "list", "--json").stdout)[1] == {
        "permission": "bash",
        "pattern": "printf hi",
        "action": "allow",
    }
    done = allowed.instar("permission", "remove", "bash", "printf hi")
    assert (done.returncode, done.stdout) == (0, "removed bash  printf hi\n")
    assert allowed.instar("permission", "list").stdout == "bash  echo hi\n"
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("? bash wants: printf hi")


@pytest.mark.slow
def test_all_of_it_is_removed_at_once(allowed):
    assert (
        allowed.instar("permission", "remove", "--all").stdout
        == "removed bash  echo hi\nremoved bash  printf hi\n"
    )
    done = allowed.instar("permission", "list")
    assert (done.stdout, done.stderr) == ("", "instar: nothing was allowed for always here\n")
    assert json.loads(allowed.instar("permission", "list", "--json").stdout) == []


@pytest.mark.slow
def test_it_holds_in_its_own_folder_only(allowed, tmp_path):
    assert allowed.instar("permission", "list", "--dir", str(tmp_path)).stdout == ""


@pytest.mark.slow
def test_what_cannot_be_removed_is_one_line_and_nothing_is_removed(allowed):
    said = "bash ecko * was not allowed for always here; there are: bash echo hi"
    how = "name a PERMISSION and a PATTERN, or --all"
    for arguments, line in (
        (["bash", "ecko *"], said),
        (["bash"], how),
        ([], how),
        (["bash", "echo hi", "--all"], how),
    ):
        done = allowed.instar("permission", "remove", *arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), arguments
        assert line in done.stderr
        assert allowed.instar("permission", "list").stdout.count("\n") == 2, arguments


def test_where_nothing_was_allowed_removing_says_so(machine):
    done = machine.instar("permission", "remove", "bash", "*")
    assert (done.returncode, done.stderr) == (
        2,
        "instar: bash * was not allowed for always here; nothing was\n",
    )
