import contextlib
import itertools
import json
import sqlite3

import pytest

TURN = '== turn\nreasoning: hmm\ntext: I look.\ntool: bash {"command": "false"}\n== turn\ntext: Done.\n'


@pytest.fixture
def made(machine) -> str:
    machine.script(TURN)
    return json.loads(
        machine.run("--format", "json", "--title", "My talk", "hello you").stdout.splitlines()[0]
    )["sessionID"]


@pytest.mark.slow
def test_sessions_are_listed_with_their_titles(machine, made):
    done = machine.instar("session", "list")
    assert done.stdout.startswith(made)
    assert "My talk" in done.stdout


@pytest.mark.slow
def test_a_transcript_shows_who_said_what(machine, made):
    shown = machine.instar("session", "show", made).stdout
    for text in ("My talk", "-- you", "hello you", "-- scripted/test", "I look.", "bash false", "Done."):
        assert text in shown
    assert "hmm" not in shown
    assert "~ hmm" in machine.instar("session", "show", made, "--reasoning").stdout


@pytest.mark.slow
def test_a_transcript_cannot_command_the_terminal(machine):
    machine.script("== turn\ntext: a\x1b]0;owned\x07b\n")
    made = json.loads(machine.run("--format", "json", "hi").stdout.splitlines()[0])["sessionID"]
    assert "\x1b" not in machine.instar("session", "show", made).stdout


@pytest.mark.slow
def test_a_session_as_json_holds_its_messages(machine, made):
    shown = json.loads(machine.instar("session", "show", made, "--json").stdout)
    assert shown["info"]["id"] == made
    assert [message["info"]["role"] for message in shown["messages"]] == ["user", "assistant", "assistant"]


@pytest.mark.slow
def test_a_deleted_session_is_gone(machine, made):
    assert machine.instar("session", "delete", made).stdout == f"deleted {made}  My talk\n"
    assert machine.instar("session", "list").stdout == ""


@pytest.mark.parametrize("verb", ["show", "delete"])
def test_a_session_that_is_not_there_is_one_line(machine, verb):
    done = machine.instar("session", verb, "ses_none")
    assert done.returncode == 2
    assert "Session not found: ses_none" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_session_goes_by_the_beginning_of_its_id_and_by_its_slug(machine, made):
    slug = json.loads(machine.instar("session", "list", "--json").stdout)[0]["slug"]
    for named in (made[:12], slug):
        assert made in machine.instar("session", "show", named).stdout
    again = machine.run("--format", "json", "-s", made[:12], "more")
    assert json.loads(again.stdout.splitlines()[0])["sessionID"] == made
    assert f"deleted {made}" in machine.instar("session", "delete", made[:12]).stdout


@pytest.mark.slow
@pytest.mark.parametrize("named", ["", "s", "ses_"])
def test_what_every_id_begins_with_names_no_session(machine, made, named):
    assert machine.instar("session", "delete", named).returncode == 2
    assert made in machine.instar("session", "list").stdout


@pytest.mark.slow
def test_a_beginning_of_several_ids_names_them_and_deletes_none(machine, made):
    machine.run("another")
    other = json.loads(machine.instar("session", "list", "--json").stdout)[0]["id"]
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(made, other, strict=True))
    common = "".join(letter for letter, _ in pairs)
    done = machine.instar("session", "delete", common)
    assert done.returncode == 2
    assert "means 2 sessions" in done.stderr
    assert made in done.stderr
    assert len(machine.instar("session", "list").stdout.splitlines()) == 2


def test_a_folder_without_sessions_says_so_on_stderr(machine):
    done = machine.instar("session", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "instar: no sessions here yet\n")


@pytest.mark.slow
def test_a_session_of_another_folder_is_listed_with_its_folder(machine, made, tmp_path):
    assert "(" not in machine.instar("session", "list").stdout
    listed = machine.instar("session", "list", cwd=tmp_path).stdout
    assert listed.rstrip().endswith(f"({machine.project})")


SUMMARISED = '== when ""\ntext: ok {{user}}\n== compaction\ntext: they said hello\n'


@pytest.mark.slow
def test_a_session_is_compacted_by_hand(machine):
    machine.script(SUMMARISED)
    made = json.loads(machine.run("--format", "json", "--title", "My talk", "hello").stdout.splitlines()[0])
    done = machine.instar("session", "compact", made["sessionID"])
    assert (done.returncode, done.stdout) == (0, f"compacted {made['sessionID']}  My talk\n")
    assert "they said hello" in machine.instar("session", "show", made["sessionID"]).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "code", "text"),
    [
        ("== compaction\nerror: 401 no key\n", [], 1, "no summary was written: "),
        ("", ["-m", "x"], 2, "a model is named as provider/model, not 'x'"),
        ("", ["-m", "nobody/x"], 2, "unknown provider 'nobody'"),
    ],
)
def test_a_session_that_cannot_be_compacted_says_why(machine, made, script, options, code, text):
    machine.script(TURN + script)
    done = machine.instar("session", "compact", made, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_sessions_are_found_by_their_title_and_by_what_was_said(machine):
    machine.instar("run", "-m", "scripted/echo", "--title", "Apples", "The Answer is forty-two.")
    machine.instar("run", "-m", "scripted/echo", "--title", "Pears", "Nothing.")
    assert "Apples" in machine.instar("session", "list", "the", "answer").stdout
    assert "Pears" not in machine.instar("session", "list", "the", "answer").stdout
    assert "Pears" in machine.instar("session", "list", "pear").stdout
    assert "no session here holds that" in machine.instar("session", "list", "plums").stderr


def test_going_on_says_with_which_session(machine):
    machine.script("== turn\ntext: one\n== turn\ntext: two\n")
    machine.instar("run", "-m", "scripted/test", "--title", "Apples", "first")
    assert "going on with ses_" in (done := machine.instar("run", "-m", "scripted/test", "-c", "more")).stderr
    assert done.stderr.rstrip().endswith(": Apples")


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ("instar run -m", "scripted/e", "scripted/echo"),
        ("instar run --agent", "pl", "plan"),
        ("instar run -s", "ses_", "ses_"),
        ("instar session show", "", "Apples"),
        ("instar auth login", "anth", "anthropic"),
    ],
)
def test_a_shell_completes_the_names_of_the_folder(machine, words, begun, found):
    machine.instar("run", "-m", "scripted/echo", "--title", "Apples", "first")
    machine.environment |= {
        "_INSTAR_COMPLETE": "zsh_complete",
        "COMP_WORDS": f"{words} {begun}",
        "COMP_CWORD": str(len(words.split())),
    }
    assert found in machine.fresh().stdout.decode()


def age_all(machine, days: int) -> None:
    """Make every session of the machine one that was used last so many days ago."""
    with contextlib.closing(sqlite3.connect(next(machine.home.rglob("instar.db")))) as connection, connection:
        connection.execute("UPDATE session SET time_updated = time_updated - ?", (days * 86_400_000,))


def test_sessions_that_nobody_used_for_long_are_pruned_and_the_database_is_smaller(machine):
    machine.script(f'== when "hi"\ntext: {"many words " * 9000}\n')
    for _ in range(3):
        assert machine.run("hi").returncode == 0
    age_all(machine, 100)
    newest = json.loads(machine.run("--format", "json", "hi").stdout.splitlines()[0])["sessionID"]
    listed = machine.instar("session", "prune", "--older", "90d", "--dry-run")
    assert (listed.stdout.count("ses_"), newest in listed.stdout) == (3, False)
    assert "3 sessions would go; nothing was deleted" in listed.stderr
    refused = machine.instar("session", "prune", "--older", "90d")
    assert refused.returncode == 1
    assert "say --yes" in refused.stderr
    assert len(json.loads(machine.instar("session", "list", "--json").stdout)) == 4
    said = machine.instar("doctor").stdout
    assert "3 sessions were not used for 90 days; instar session prune --all --older 90d" in said
    done = json.loads(machine.instar("session", "prune", "--older", "90d", "--yes", "--json").stdout)
    assert (len(done["sessions"]), done["dryRun"]) == (3, False)
    assert done["after"] < done["before"]
    assert [one["id"] for one in json.loads(machine.instar("session", "list", "--json").stdout)] == [newest]
    assert "not used for" not in machine.instar("doctor").stdout
    assert machine.instar("session", "prune", "--older", "90d", "--all").stderr.startswith(
        "instar: deleted 0 sessions"
    )


@pytest.mark.parametrize("age", ["90", "d", "90y", "-1d"])
def test_an_age_that_is_none_is_refused(machine, age):
    done = machine.instar("session", "prune", f"--older={age}")
    assert done.returncode == 2
    assert "as in 90d" in done.stderr


def test_a_person_is_asked_before_sessions_are_pruned(machine, screen):
    machine.script('== when "hi"\ntext: hello\n')
    machine.run("hi")
    age_all(machine, 2)
    asked = screen("session", "prune", "--older", "24h")
    asked.wait_for("Delete 1 session for good? [y/N]")
    asked.type("n\n")
    assert asked.end() == 1
    asked = screen("session", "prune", "--older", "24h")
    asked.wait_for("[y/N]")
    asked.type("y\n")
    assert asked.end() == 0
    assert json.loads(machine.instar("session", "list", "--json").stdout) == []
