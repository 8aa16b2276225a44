"""`instar evolve log`, `show`, `diff` and `why`: what changed, by whom and why."""

import json
import re

import pytest

from instar.plugins.evolve.candidate import CandidateRefused

STORY = """\
== turn
tool: evolve_hook_edit {"hook": "bot.sh", "oldString": "Hello!", "newString": "Hello, you!"}
== turn
text: done
"""


@pytest.mark.slow
def test_the_log_tells_who_changed_what_by_which_call_and_what_the_gate_said(hand):
    made = hand.edit("Hello!", "Hello, you!")
    with pytest.raises(CandidateRefused):
        hand.edit("Hello, you!", "Goodbye!")
    lines = hand("log").stdout.splitlines()
    heads = [line for line in lines if not line.startswith("  ")]
    assert [re.sub(r"^(\S+) +\S+ \S+ +", r"\1 ", line) for line in heads] == [
        "- agent   refused: hooks/bot.sh",
        f"{made.commit.id[:7]} agent   @2 installed: evolve_hook_edit bot.sh",
        f"{heads[-1][:7]} person  initial",
    ]
    told = "\n".join(lines)
    assert "session ses_1, call call_1, agent build" in told
    assert re.search(r"gate: parse: .*; test: .*tests/bot_test.sh passed .*\(\d+ ms in all\)", told)
    assert "it must say Hello" in told


@pytest.mark.slow
def test_the_newest_changes_come_first_and_a_limit_is_held(hand):
    hand.edit("Hello!", "Hello, you!")
    assert "evolve_hook_edit bot.sh" in hand("log", "-n", "1").stdout
    assert "initial" not in hand("log", "-n", "1").stdout


def test_a_log_without_a_repository_says_so_in_one_line_and_makes_none(hand):
    said = hand("log", code=1).stderr
    assert said == f"instar: {hand.root} is no git repository yet: evolve makes it when it runs\n"
    assert not (hand.root / ".git").exists()


@pytest.mark.slow
def test_a_damaged_repository_is_said_and_what_the_chronicle_knows_is_told_all_the_same(hand):
    hand.edit("Hello!", "Hello, you!")
    (hand.root / ".git" / "HEAD").write_text("nonsense\n")
    done = hand("log", code=1)
    assert "installed: hooks/bot.sh" in done.stdout
    assert done.stderr.startswith("instar: git ")


@pytest.mark.slow
def test_the_log_as_json_has_the_fields_of_each_change(hand):
    made = hand.edit("Hello!", "Hello, you!")
    newest, first = hand.json("log")["changes"]
    assert newest["commit"].startswith(made.commit.id)
    assert (newest["kind"], newest["by"], newest["epoch"]) == ("installed", "agent", 2)
    assert (newest["session"], newest["call"], newest["files"]) == ("ses_1", "call_1", ["hooks/bot.sh"])
    assert (first["subject"], first["by"]) == ("initial", "person")


@pytest.mark.slow
@pytest.mark.parametrize("ref", ["HEAD", "@2", None])
def test_a_change_is_shown_with_its_cause_and_its_diff(hand, ref):
    hand.edit("Hello!", "Hello, you!")
    shown = hand("show", *([ref] if ref else [])).stdout
    assert "installed: evolve_hook_edit bot.sh" in shown
    assert "session ses_1, call call_1" in shown
    patch = hand("diff", *([ref] if ref else [])).stdout
    assert patch in shown
    assert """+execute_tool) echo '{"result": "Hello, you!"}' ;;""" in patch
    assert "session" not in patch
    assert hand.json("show", ref or "HEAD")["diff"].rstrip() == patch.rstrip()


@pytest.mark.slow
def test_a_change_that_is_none_is_one_line_that_says_how_to_name_one(hand):
    hand.edit("Hello!", "Hello, you!")
    for command in ("show", "diff", "rollback"):
        said = hand(command, "nonsense", code=1).stderr
        assert said.count("\n") == 1
        assert "'nonsense' names no change of" in said


@pytest.mark.slow
def test_a_line_leads_to_the_message_that_it_was_written_for(hand):
    (hand.folder / "story.txt").write_text(STORY)
    ran = hand.instar(
        "run",
        "--workspace",
        hand.root,
        "-m",
        "scripted/x",
        "Greet me in person",
        INSTAR_SCRIPT=str(hand.folder / "story.txt"),
    )
    assert ran.returncode == 0, ran.stderr
    line = 1 + hand.bot.splitlines().index("""execute_tool) echo '{"result": "Hello, you!"}' ;;""")
    told = hand("why", f"hooks/bot.sh:{line}").stdout
    assert "installed: evolve_hook_edit bot.sh" in told
    assert "Greet me in person" in told
    asked = hand.instar("evolve", "--workspace", hand.root, "why", f"ws/hooks/bot.sh:{line}", "--json")
    assert json.loads(asked.stdout)["prompt"]["text"] == "Greet me in person"
    assert "a person's own" in hand("why", "hooks/bot.sh:1").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("hooks/bot.sh", "is no place: give FILE:LINE"),
        ("hooks/none.sh:1", "there is no hooks/none.sh in the workspace"),
        ("hooks/bot.sh:999", "has no line 999"),
    ],
)
def test_a_place_that_is_none_is_one_line(hand, place, said):
    hand.edit("Hello!", "Hello, you!")
    told = hand("why", place, code=1).stderr
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_session_that_is_gone_is_said(hand):
    hand.edit("Hello!", "Hello, you!")
    line = 1 + next(at for at, one in enumerate(hand.bot.splitlines()) if "Hello, you!" in one)
    assert "session ses_1 is gone" in hand("why", f"hooks/bot.sh:{line}").stdout


@pytest.mark.slow
def test_what_only_reads_runs_no_script(hand):
    hand.edit("Hello!", "Hello, you!")
    ran = hand.root.parent / "ran"
    hand.write("hooks/bot.sh", f"#!/bin/sh\ntouch {ran}\n")
    hand("accept", "--yes")
    for words in (["log"], ["show"], ["diff"], ["why", "hooks/bot.sh:1"], ["pending"], ["pins"]):
        hand(*words)
    assert not ran.exists()
    hand("status")
    assert ran.exists()
