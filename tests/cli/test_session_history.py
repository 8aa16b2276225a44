"""`instar session`: taking a session back, copying it, putting it away."""

import json
import subprocess

import pytest


@pytest.fixture
def made(machine) -> str:
    machine.script('== when ""\ntext: Done.\n')
    first = machine.run("--format", "json", "--title", "My talk", "first").stdout.splitlines()[0]
    session_id = json.loads(first)["sessionID"]
    machine.run("-s", session_id, "second")
    return session_id


def messages(machine, session_id: str) -> list[dict]:
    return json.loads(machine.instar("session", "show", session_id, "--json").stdout)["messages"]


@pytest.mark.slow
def test_a_session_is_taken_back_and_forth(machine, made):
    second = messages(machine, made)[2]["info"]["id"]
    done = machine.instar("session", "revert", made[:12])
    assert (done.returncode, done.stdout) == (0, f"reverted {made}  to before {second}\n")
    shown = machine.instar("session", "show", made).stdout
    assert "first" in shown
    assert "second" not in shown
    assert "2 messages reverted" in shown.splitlines()[-1]
    assert machine.instar("session", "unrevert", made).stdout == f"unreverted {made}\n"
    again = machine.instar("session", "unrevert", made)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", f"instar: {made} is not reverted\n")


@pytest.mark.slow
def test_a_session_goes_on_from_where_it_was_taken_back_to(machine, made):
    first = messages(machine, made)[0]["info"]["id"]
    machine.instar("session", "revert", made, first)
    machine.run("-s", made, "third")
    shown = machine.instar("session", "show", made).stdout
    assert "third" in shown
    assert "second" not in shown


@pytest.mark.slow
def test_a_fork_prints_the_copys_id(machine, made):
    second = messages(machine, made)[2]["info"]["id"]
    done = machine.instar("session", "fork", made, second)
    copy, _, title = done.stdout.strip().partition("  ")
    assert title == "My talk (fork #1)"
    assert len(messages(machine, copy)) == 2
    assert copy in machine.instar("session", "list").stdout


@pytest.mark.slow
def test_a_session_that_changed_no_files_has_an_empty_diff(machine, made):
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    done = machine.instar("session", "diff", made)
    assert (done.returncode, done.stdout) == (0, "")
    assert machine.instar("session", "diff", made, "--json").stdout == "[]\n"


@pytest.mark.slow
def test_an_archived_session_is_kept_and_not_listed(machine, made):
    assert machine.instar("session", "archive", made).stdout == f"archived {made}  My talk\n"
    assert made not in machine.instar("session", "list").stdout
    assert "My talk" in machine.instar("session", "show", made).stdout
    assert machine.instar("session", "archive", "--undo", made).returncode == 0
    assert made in machine.instar("session", "list").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["revert", "{id}", "msg_none"], "Message not found: msg_none"),
        (["revert", "{id}", "--part", "prt_x"], "--part needs the MESSAGE"),
        (["fork", "{id}", "msg_none"], "Message not found: msg_none"),
        (["diff", "{id}", "msg_none"], "Message not found: msg_none"),
        (["unrevert", "ses_none"], "Session not found: ses_none"),
    ],
)
def test_a_mistake_is_said(machine, made, arguments, said):
    done = machine.instar("session", *[word.format(id=made) for word in arguments])
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
