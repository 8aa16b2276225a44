"""`instar evolve accept` and `restore`: a person decides on what was changed behind the gate's back."""

import os
import pty
import subprocess
import sys

import pytest


@pytest.fixture
def departed(hand):
    """A changed script and a new one, which nobody accepted."""
    hand.edit("Hello!", "Hello, you!")
    hand.write("hooks/bot.sh", hand.bot.replace("Hello, you!", "Hello, all!"))
    hand.write("hooks/new.sh", "#!/bin/sh\necho '{}'\n")
    return hand


@pytest.mark.slow
def test_status_names_what_departed_and_runs_the_accepted_version(departed):
    shown = departed.json("status")
    assert [(one["path"], one["kind"]) for one in shown["departures"]] == [
        ("hooks/bot.sh", "changed"),
        ("hooks/new.sh", "new"),
    ]
    assert [one["file"] for one in shown["scripts"]] == ["hooks/bot.sh"]
    said = departed("status").stdout
    assert "problem    hooks/bot.sh was changed, behind the gate: the accepted version serves" in said


@pytest.mark.slow
def test_accept_takes_everything_over_as_it_stands_and_shows_the_difference(departed):
    done = departed("accept", "--yes")
    assert done.stdout.splitlines()[-1].startswith("accepted hooks/bot.sh, hooks/new.sh (epoch 3, commit ")
    assert """-execute_tool) echo '{"result": "Hello, you!"}' ;;""" in done.stdout
    assert """+execute_tool) echo '{"result": "Hello, all!"}' ;;""" in done.stdout
    shown = departed.json("status")
    assert (shown["departures"], shown["epoch"]) == ([], 3)
    assert [one["file"] for one in shown["scripts"]] == ["hooks/bot.sh", "hooks/new.sh"]
    assert "accepted: accept by hand" in departed("log").stdout


@pytest.mark.slow
def test_restore_puts_the_accepted_version_back_and_leaves_new_files(departed):
    done = departed("restore", "--yes")
    assert "\nrestored hooks/bot.sh (epoch 3, as git has it already)" in done.stdout
    assert "Hello, you!" in departed.bot
    assert (departed.root / "hooks" / "new.sh").exists()
    assert [one["path"] for one in departed.json("status")["departures"]] == ["hooks/new.sh"]


@pytest.mark.slow
def test_one_file_may_be_named_and_one_that_has_not_departed_is_refused(departed):
    assert departed.json("accept", "hooks/new.sh", "--yes")["files"] == ["hooks/new.sh"]
    assert [one["path"] for one in departed.json("status")["departures"]] == ["hooks/bot.sh"]
    said = departed("accept", "tests/bot_test.sh", "--yes", code=1).stderr
    assert "tests/bot_test.sh is as it was accepted" in said
    said = departed("restore", "notes.txt", "--yes", code=1).stderr
    assert "notes.txt is as it was accepted, or there is no such file in hooks" in said


@pytest.mark.slow
def test_where_nothing_departed_there_is_nothing_to_do(hand):
    hand.edit("Hello!", "Hello, you!")
    assert hand("accept", "--yes").stdout == "there is nothing to accept\n"
    assert hand.json("restore", "--yes") == {"files": []}


@pytest.mark.slow
def test_broken_settings_that_a_person_wrote_can_be_taken_back(hand):
    hand.write("config/evolve.jsonc", "{}", 0o644)
    hand.edit("Hello!", "Hello, you!")
    hand.write("config/evolve.jsonc", "{ oops", 0o644)
    hand("restore", "config/evolve.jsonc", "--yes")
    assert (hand.root / "config" / "evolve.jsonc").read_text() == "{}"


@pytest.mark.slow
def test_what_is_no_text_is_shown_as_its_size_and_nothing_reaches_the_terminal(hand):
    hand.edit("Hello!", "Hello, you!")
    (hand.root / "hooks" / "data.bin").write_bytes(b"\0\x1b[2J" * 10)
    hand.write("hooks/escape.sh", "#!/bin/sh\n# \x1b[2Jgone\n")
    shown = hand("accept", "--yes").stdout
    assert "no text: 0 bytes were accepted, 50 stand there" in shown
    assert "\x1b" not in shown


@pytest.mark.slow
def test_what_cannot_be_accepted_is_named_and_does_not_stand_in_the_way_of_the_rest(departed):
    os.mkfifo(departed.root / "hooks" / "pipe")
    done = departed("accept", "--yes").stdout
    assert "hooks/pipe cannot be used" in done
    assert "accepted hooks/bot.sh, hooks/new.sh (epoch 3" in done
    assert departed("accept", "--yes").stdout.endswith("there is nothing to accept\n")
    assert "nothing was changed: " in departed("accept", "hooks/pipe", "--yes", code=1).stderr


@pytest.mark.slow
def test_without_a_terminal_and_without_yes_it_is_wrong_usage(departed):
    before = departed.bot
    done = departed.instar("evolve", "--workspace", departed.root, "accept")
    assert done.returncode == 2
    assert "accept --yes" in done.stderr
    assert departed.bot == before


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_it_asks_after_showing_what_departed(departed, answer, code):
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    done = subprocess.run(
        [sys.executable, "-m", "instar", "evolve", "--workspace", str(departed.root), "accept"],
        env=departed.environment,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "Hello, all!" in done.stdout
    assert "accept 2 files?" in done.stderr
    assert len(departed.json("status")["departures"]) == (0 if answer == "y" else 2)
