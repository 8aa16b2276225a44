import json

import pytest

TURN = '== turn\nreasoning: hmm\ntext: I look.\ntool: bash {"command": "false"}\n== turn\ntext: Done.\n'


@pytest.fixture
def made(machine) -> str:
    machine.script(TURN)
    return json.loads(
        machine.run("--format", "json", "--title", "My talk", "hello you").stdout.splitlines()[0]
    )["sessionID"]


def test_sessions_are_listed_with_their_titles(machine, made):
    done = machine.instar("session", "list")
    assert done.stdout.startswith(made)
    assert "My talk" in done.stdout


def test_a_transcript_shows_who_said_what(machine, made):
    shown = machine.instar("session", "show", made).stdout
    for text in ("My talk", "-- you", "hello you", "-- scripted/test", "I look.", "bash false", "Done."):
        assert text in shown
    assert "hmm" not in shown
    assert "~ hmm" in machine.instar("session", "show", made, "--reasoning").stdout


def test_a_transcript_cannot_command_the_terminal(machine):
    machine.script("== turn\ntext: a\x1b]0;owned\x07b\n")
    made = json.loads(machine.run("--format", "json", "hi").stdout.splitlines()[0])["sessionID"]
    assert "\x1b" not in machine.instar("session", "show", made).stdout


def test_a_session_as_json_holds_its_messages(machine, made):
    shown = json.loads(machine.instar("session", "show", made, "--json").stdout)
    assert shown["info"]["id"] == made
    assert [message["info"]["role"] for message in shown["messages"]] == ["user", "assistant", "assistant"]


def test_a_deleted_session_is_gone(machine, made):
    assert machine.instar("session", "delete", made).stdout == f"deleted {made}\n"
    assert machine.instar("session", "list").stdout == ""


@pytest.mark.parametrize("verb", ["show", "delete"])
def test_a_session_that_is_not_there_is_one_line(machine, verb):
    done = machine.instar("session", verb, "ses_none")
    assert done.returncode == 2
    assert "Session not found: ses_none" in done.stderr
    assert done.stderr.count("\n") == 1
