"""`instar evolve validate`, `replay` and `bisect`: trials by hand install nothing."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.running import having


@pytest.fixture
def new(hand):
    """A file outside of the workspace with a new text of the bot."""

    def write(old: str = "Hello!", text: str = "Hello, you!", name: str = "bot.sh") -> Path:
        file = hand.folder / "new" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(hand.bot.replace(old, text))
        return file

    return write


@pytest.mark.slow
def test_validate_takes_a_file_through_the_gate_and_installs_nothing(kit, hand, new):
    before = kit.files(hand.root)
    said = hand("validate", new()).stdout
    assert said == '{"result": "Hello, you!"}\nhooks/bot.sh would be installed: tests/bot_test.sh passed\n'
    refused = hand("validate", new("Hello!", "Goodbye!"), code=1).stderr
    assert refused.startswith("instar: hooks/bot.sh would be refused: ")
    assert "it must say Hello" in refused.splitlines()
    assert kit.files(hand.root) == before
    assert hand.json("status")["epoch"] == 1


@pytest.mark.slow
def test_on_a_terminal_each_stage_is_named_as_it_begins(hand, new):
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "instar", "evolve", "--workspace", str(hand.root), "validate", str(new())],
        env=hand.environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
    )
    os.close(theirs)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert done.returncode == 0, said
    assert said.split("\r\n")[:4] == ["parse …", "test …", "replay …", "score …"]


@pytest.mark.slow
def test_validate_as_json_has_the_stages_or_the_refusal(hand, new):
    passed = hand.json("validate", new())
    assert (passed["file"], passed["refused"], passed["raised"]) == ("hooks/bot.sh", False, [])
    assert [stage["name"] for stage in passed["stages"]] == ["parse", "test", "score", "authority"]
    refused = hand.json("validate", new("Hello!", "Goodbye!"), code=1)
    assert (refused["refused"], refused["stage"]) == (True, "test")
    assert "it must say Hello" in refused["text"]


@pytest.mark.slow
def test_validate_says_what_a_person_would_have_to_allow(hand, new):
    said = hand("validate", new(', "permission": {"arg": "who"}', "")).stdout
    assert "hooks/bot.sh would wait for a person (tests/bot_test.sh passed):\n- its tool bot_greet" in said


@pytest.mark.slow
def test_a_file_is_a_prompt_by_its_folder_or_its_ending(hand):
    file = hand.folder / "chat.md"
    file.write_text("Be kind.\n")
    assert "prompts/chat.md would be installed: " in hand("validate", file).stdout
    (hand.folder / "prompts").mkdir()
    other = hand.folder / "prompts" / "other"
    other.write_text("Be kind.\n")
    assert "the workspace has no prompt prompts/other" in hand("validate", other, code=1).stderr


@pytest.mark.slow
def test_a_file_of_the_workspace_is_tried_as_it_stands_with_what_stands_beside_it(hand):
    hand.edit("Hello!", "Hello, you!")
    hand.write("hooks/new.sh", hand.bot.replace("bot", "new"))
    hand.write("tests/new_test.sh", "#!/bin/sh\necho all well\n")
    said = hand("validate", hand.root / "hooks" / "new.sh").stdout
    assert "all well" in said
    assert "tests/new_test.sh passed" in said
    hand.write("tests/bot_test.sh", "#!/bin/sh\necho no more; exit 1\n")
    assert "no more" in hand("validate", hand.root / "hooks" / "bot.sh", code=1).stderr


@pytest.mark.parametrize("name", ["other.sh", "other.py"])
def test_a_script_that_the_workspace_does_not_have_is_refused(hand, new, name):
    said = hand("validate", new(name=name), code=1).stderr
    assert f"the workspace has no hook script hooks/{name}" in said


def test_a_file_of_the_workspace_that_does_not_evolve_is_refused(hand):
    said = hand("validate", hand.root / "tests" / "bot_test.sh", code=1).stderr
    assert "tests/bot_test.sh is neither a hook script nor a prompt" in said


@pytest.fixture
def called(hand):
    """A script that was called, so that there is something to replay."""
    hand.edit("Hello!", "Hello, you!")
    hand.play(
        lambda engine: engine.scripts.call_all("mutate_request", {"session": {"id": "ses_1"}, "history": []})
    )
    return hand


@pytest.mark.slow
def test_replay_shows_each_past_answer_that_would_be_another(called, new):
    said = called("replay", new("You are Bot.", "You are Robot.")).stdout
    assert "would have changed 1 of 1 past answers" in said.lower()
    assert "You are Robot." in said
    shown = called.json("replay", new("You are Bot.", "You are Robot."))
    assert (shown["total"], shown["verdicts"]["changed"]) == (1, 1)


@pytest.mark.slow
def test_replay_of_a_version_that_fails_is_refused_with_what_it_printed(called, new):
    said = called(
        "replay", new("""echo '{"system": ["You are Bot."]}'""", "echo worse; exit 3"), code=1
    ).stdout
    assert "Refused: " in said
    assert "exit code 3" in said


@pytest.mark.slow
def test_replay_of_what_has_no_accepted_version_is_refused(hand):
    hand.edit("Hello!", "Hello, you!")
    hand.write("hooks/new.sh", hand.bot)
    assert "has no accepted version" in hand("replay", hand.root / "hooks" / "new.sh", code=1).stderr


@pytest.mark.slow
def test_bisect_finds_the_change_and_counts_its_runs_on_stderr(hand):
    hand.edit("Hello!", "Hello, one!")
    hand.edit("Be brief.", "Be kind.", "prompts/chat.md")
    hand.edit("Hello, one!", "Hello, bad!")
    hand.edit("Hello, bad!", "Hello, bad one!")
    done = hand("bisect", "! grep -q bad hooks/bot.sh")
    assert "the command began to fail with this change:" in done.stdout
    assert "@4 evolve_hook_edit bot.sh" in done.stdout
    assert "run 1: " in done.stderr
    shown = hand.json("bisect", "! grep -q bad hooks/bot.sh", "--good", "@2", "--bad", "@4")
    assert [one["epoch"] for one in shown["suspects"]] == [4]


@pytest.mark.slow
def test_bisect_of_a_command_that_passes_ends_with_1(hand):
    hand.edit("Hello!", "Hello, you!")
    assert "there is no failure to look for" in hand("bisect", "true", code=1).stdout
    assert "names no change" in hand("bisect", "true", "--good", "x", code=1).stderr
    assert "--timeout" in hand("bisect", "true", "--timeout", "0", code=2).stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bisect_that_is_ended_leaves_nothing_behind(hand, number):
    hand.edit("Hello!", "Hello, you!")
    before, nap = sorted(hand.root.parent.iterdir()), f"4321.{os.getpid()}"
    # A shell's background command, as this run of the tests may be one, ignores SIGINT, and a child would too.
    heeding = ["env", f"--default-signal={number.name[3:]}"]
    child = subprocess.Popen(
        [
            *heeding,
            sys.executable,
            "-m",
            "instar",
            "evolve",
            "--workspace",
            str(hand.root),
            "bisect",
            f"sleep {nap}",
        ],
        env=hand.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert child.stderr.readline().startswith("run 1: ")
    child.send_signal(number)
    assert child.wait(20) in (130, 143)
    child.stderr.close()
    assert sorted(hand.root.parent.iterdir()) == before
    assert not having(f"sleep {nap}")
    assert not having("sleep", nap)
