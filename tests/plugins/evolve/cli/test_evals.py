"""`instar evolve eval`: evals that are files and programs, by hand, and a first set of them."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.running import having
from tests.waiting import wait_until

GREET = """\
---
model: scripted/greet
checks:
  - contains: Hello
  - tool: greet
---
Greet me, please.
"""
PLAYED = """\
== turn
expect_system: You are Bot
tool: bot_greet {"who": "Ada"}
== turn
text: I say: {{tool}}
"""
CALL = """\
---
call: bot.sh execute_tool
checks:
  - equals: {result: Hello!}
---
{"tool": "greet", "args": {"who": "Ada"}}
"""
JUDGED = """\
---
model: scripted/greet
judge_model: scripted/grade
checks:
  - judge: It greets by name.
  - not_contains: Goodbye
    weight: 3
---
Greet me, please.
"""
GRADE = """\
== turn
tool: grade {"score": 0.5, "reason": "it knows no name"}
"""


@pytest.fixture
def greet(hand):
    """A workspace with one eval that is a file, and the script that its model plays."""
    hand.write("evals/greet.md", GREET, 0o644)
    hand.write("evals/greet.txt", PLAYED, 0o644)
    return hand


def one(hand, *args, code=0):
    """The only row of the table."""
    (row,) = hand.json("eval", *args, code=code)["rows"]
    return row


@pytest.mark.slow
def test_a_prompt_is_answered_with_the_tools_and_the_system_prompt_of_the_scripts(greet, kit):
    before = kit.files(greet.root)
    row = one(greet)
    assert (row["name"], row["scores"], row["accepted"], row["failed"]) == ("greet.md", [1.0], True, "")
    assert row["runs"][0]["answer"] == "I say: Hello!"
    assert row["tokens"] > 200
    said = greet("eval")
    assert said.stdout.splitlines()[0].split() == [
        "eval",
        "n",
        "mean",
        "spread",
        "95",
        "%",
        "seconds",
        "tokens",
        "cost",
    ]
    assert said.stdout.splitlines()[1].split()[:3] == ["greet.md", "1", "1"]
    assert said.stderr.startswith("greet.md: run 1 of 1: 1 (")
    assert kit.files(greet.root) == before
    assert greet.instar("session", "list", "--json").stdout.strip() == "[]"


@pytest.mark.slow
def test_a_check_that_fails_lowers_the_score_and_is_shown_with_what_was_answered(greet):
    greet("eval")
    greet.write("evals/greet.md", GREET.replace("contains: Hello", "matches: ^Good"), 0o644)
    assert one(greet)["scores"] == [0.5]
    assert "-v shows what each check found" in greet("eval").stdout
    assert "matches ^Good: 0, it answered I say: Hello!" in greet("eval", "-v").stdout
    assert (
        "the gate does not use it as it stands: instar evolve accept evals/greet.md" in greet("eval").stdout
    )


@pytest.mark.slow
def test_a_script_that_is_sent_something_else_than_it_expects_scores_nothing(greet):
    greet.write("evals/greet.txt", PLAYED.replace("You are Bot", "You are Robby"), 0o644)
    row = one(greet)
    assert (row["scores"], row["failed"]) == ([0.0], "")
    assert "expected the system prompt to match" in row["runs"][0]["why"]


@pytest.mark.slow
def test_a_call_is_compared_field_by_field(hand):
    hand.edit("Hello!", "Hello, you!")
    hand.write("evals/call.md", CALL, 0o644)
    row = one(hand)
    assert row["scores"] == [0.0]
    assert row["runs"][0]["checks"][0]["why"] == 'it answered {"result":"Hello, you!"}'
    hand.write("evals/call.md", CALL.replace("Hello!", "'Hello, you!'"), 0o644)
    assert one(hand)["scores"] == [1.0]


@pytest.mark.slow
def test_a_judge_grades_and_weights_count(hand):
    hand.write("evals/judged.md", JUDGED, 0o644)
    hand.write("evals/greet.txt", PLAYED, 0o644)
    hand.write("evals/grade.txt", GRADE, 0o644)
    row = one(hand, "judged")
    assert row["scores"] == [(0.5 + 3) / 4]
    assert row["runs"][0]["checks"][0]["why"] == "it knows no name"
    hand.write("evals/grade.txt", "== when .\ntext: I would give it a 1.\n".replace(".\n", '"."\n', 1), 0o644)
    row = one(hand, "judged", code=1)
    assert row["failed"].startswith("the judge of evals/judged.md gave no grade: ")


@pytest.mark.slow
def test_a_program_checks_an_answer_by_its_exit_code_or_a_score(greet):
    checks = "checks:\n  - run: polite\n"
    greet.write("evals/greet.md", GREET.replace("checks:\n", checks), 0o644)
    script = "#!/usr/bin/env python3\nimport json, sys\nsaid = json.load(sys.stdin)\n"
    for text, score, why in (
        ("print(said['prompt'] == 'Greet me, please.' and 1.0)", 1.0, ""),
        ("print('half'); print(len(said['tools']) / 2)", 0.5, "half 0.5"),
        ("sys.exit(said['answer'])", 0.0, "I say: Hello!"),
    ):
        greet.write("evals/polite", script + text)
        found = one(greet)["runs"][0]["checks"][0]
        assert (found["score"], found["why"]) == (score, why)
    greet.write("evals/polite", script + "print(7)")
    assert "printed 7, and a score is from 0 to 1" in one(greet, code=1)["failed"]


@pytest.mark.slow
def test_a_script_leaves_nothing_that_a_check_would_import(hand):
    leaves = "execute_tool) echo 'raise SystemExit(0)' >evals/json.py; ls evals >&2;"
    hand.write("hooks/bot.sh", hand.bot.replace("execute_tool)", leaves))
    hand.write("evals/call.md", CALL.replace("equals: {result: Hello!}", "run: strict"), 0o644)
    hand.write("evals/strict", "#!/usr/bin/env python3\nimport json, sys\nsys.exit('never content')\n")
    assert "evals/json.py was changed while it ran" in one(hand, code=1)["failed"]


@pytest.mark.slow
def test_what_changes_code_while_it_runs_proves_nothing(hand):
    hand.write(
        "hooks/bot.sh", hand.bot.replace("execute_tool)", "execute_tool) echo 'exit 0' >tests/bot_test.sh;")
    )
    hand.write("evals/call.md", CALL, 0o644)
    assert "tests/bot_test.sh was changed while it ran" in one(hand, code=1)["failed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GREET.replace("contains", "contain"),
            "4.checks.0.contain: there is no such field; did you mean contains?",
        ),
        (GREET.replace("scripted/greet", "scripted/none"), "2.model: there is no evals/none.txt"),
        (
            GREET.replace("contains: Hello", "matches: (a"),
            "4.checks.0.matches: '(a' is no regular expression",
        ),
        (GREET.replace("- contains: Hello", "- weight: 2"), "4.checks.0: expected one of contains, "),
        (GREET.replace("contains: Hello", "run: none"), "4.checks.0.run: there is no evals/none"),
        (GREET.replace("contains: Hello", "equals: {a: 1}"), "4.checks.0.equals: equals is for a call"),
        (GREET.replace("Greet me, please.", ""), "7: expected the prompt below the front matter"),
        (
            GREET.replace("checks:", "repeats: 0\nchecks:"),
            "3.repeats: expected a whole number, 1 to 1000, found 0",
        ),
        (
            GREET.replace("checks:", "limits: {minutes: 1}\nchecks:"),
            "3.limits.minutes: there is no such field",
        ),
        (GREET.replace("  - contains: Hello\n  - tool: greet\n", ""), "3.checks: expected a list of checks"),
        (GREET.replace("contains: Hello", "contains: [Hello"), ": expected YAML"),
        (CALL.replace("execute_tool\n", "\n"), "2.call: expected a script and its hook"),
        (CALL.replace('"args"', "args"), "6: expected the hook's input, a JSON object"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_what_is_expected(hand, text, said):
    hand.write("evals/greet.txt", PLAYED, 0o644)
    hand.write("evals/bad.md", text, 0o644)
    failed = one(hand, code=1)["failed"]
    line, _, rest = said.partition(".") if said[0].isdigit() and "." in said[:2] else ("", "", said)
    assert failed.startswith(f"evals/bad.md:{line}")
    assert rest in failed, failed


def test_a_file_without_checks_is_no_eval(hand):
    hand.write("evals/README.md", "# What is here\n", 0o644)
    assert "there are no evals: write evals/NAME.md" in hand("eval", code=1).stderr
    hand.write("evals/quality", "#!/bin/sh\necho 1\n")
    assert "there is no eval x; there are: quality" in hand("eval", "x", code=1).stderr


@pytest.mark.slow
def test_a_program_gets_the_seeds_and_its_scores_have_a_spread(hand):
    program = "#!/usr/bin/env python3\nimport json, sys\nseeds = json.load(sys.stdin)['seeds']\n"
    hand.write(
        "evals/quality", program + "print(json.dumps({'scores': [one / 10 for one in seeds], 'cost': 0.5}))"
    )
    row = one(hand, "--runs", "4", "--seed", "2")
    assert row["scores"] == [0.2, 0.3, 0.4, 0.5]
    found = row["estimate"]
    assert (found["n"], round(found["mean"], 6), round(found["spread"], 3)) == (4, 0.35, 0.129)
    assert (round(found["low"], 3), round(found["high"], 3)) == (0.145, 0.555)
    assert row["cost"] == 0.5
    hand.write("evals/quality", program + "print(json.dumps({'scores': [2]}))")
    assert one(hand, code=1)["failed"] == "it printed 1 scores for 5 seeds"


@pytest.mark.slow
def test_a_program_that_plays_with_chance_and_heeds_no_seeds_is_run_once_for_each(hand):
    hand.write("evals/quality", """#!/bin/sh\necho '{"score": 0.5, "runs": 9}'\n""")
    assert one(hand, "--runs", "3")["scores"] == [0.5] * 3
    hand.write("evals/quality", "#!/bin/sh\necho 0.5\n")
    assert one(hand, "--runs", "3")["scores"] == [0.5]


@pytest.mark.slow
def test_an_earlier_version_is_compared_in_pairs(hand):
    hand.edit("Hello!", "Hello, you!")
    hand.write("evals/call.md", CALL, 0o644)
    row = one(hand, "--against", "initial", "--runs", "4")
    assert (row["scores"], row["before"]["mean"]) == ([0.0] * 4, 1.0)
    assert row["before"]["difference"]["mean"] == -1.0
    shown = hand("eval", "--against", "initial").stdout.splitlines()
    assert shown[0].split()[-5:] == ["before", "difference", "spread", "95", "%"]
    assert shown[1].split()[-4:] == ["1", "-1", "-", "-"]
    assert "names no change" in hand("eval", "--against", "nothing", code=1).stderr


@pytest.mark.slow
def test_a_limit_ends_a_run_which_scores_nothing(greet):
    loop = '== when "."\ntool: bot_greet {"who": "Ada"}\n'
    greet.write("evals/greet.txt", loop, 0o644)
    for limit, why in (("steps: 2", "it made 2 model calls"), ("tokens: 150", "and may use 150")):
        greet.write("evals/greet.md", GREET.replace("checks:", f"limits: {{{limit}}}\nchecks:"), 0o644)
        row = one(greet)
        assert (row["scores"], row["failed"]) == ([0.0], "")
        assert why in row["runs"][0]["why"]
    greet.write("evals/greet.txt", "== turn\ndelay: 60s\ntext: Hello\n", 0o644)
    greet.write("evals/greet.md", GREET.replace("checks:", "limits: {seconds: 0.3}\nchecks:"), 0o644)
    assert "it took longer than 0.3 s" in one(greet)["runs"][0]["why"]


@pytest.mark.slow
def test_a_limit_of_the_person_and_a_missing_model_fail_the_eval(greet):
    path = greet.folder / "home" / ".config" / "instar" / "instar.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"limits": {"cause": {"eval": {"tokens": 10}}}}))
    assert "limits.cause.eval" in one(greet, code=1)["failed"]
    greet.write("evals/greet.md", GREET.replace("scripted/greet", "nobody/x"), 0o644)
    assert "evals/greet.md cannot be asked: " in one(greet, code=1)["failed"]


@pytest.mark.slow
def test_a_prompt_without_a_model_asks_the_persons_own_and_is_booked_as_an_eval(greet):
    path = greet.folder / "home" / ".config" / "instar" / "instar.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"model": "scripted/mine"}))
    greet.write("evals/greet.md", GREET.replace("model: scripted/greet\n", ""), 0o644)
    story = greet.folder / "story.txt"
    story.write_text(PLAYED)
    done = greet.instar("evolve", "--workspace", greet.root, "eval", "--json", INSTAR_SCRIPT=str(story))
    (row,) = json.loads(done.stdout)["rows"]
    assert row["scores"] == [1.0] * 5
    assert len(done.stderr.splitlines()) == 5
    used = json.loads(greet.instar("stats", "--json").stdout)
    assert row["tokens"] == 5 * 206
    assert "eval" in json.dumps(used)


@pytest.mark.slow
def test_instar_stop_fails_what_runs(greet):
    greet.write("evals/greet.txt", "== turn\ndelay: 50s\ntext: Hello\n", 0o644)
    path = greet.folder / "requests"
    child = subprocess.Popen(
        [sys.executable, "-m", "instar", "evolve", "--workspace", str(greet.root), "eval"],
        env={**greet.environment, "INSTAR_SCRIPT_RECORD": str(path)},
        cwd=greet.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(path.exists)
    greet.instar("stop")
    said, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    assert "evals/greet.md has no answer: " in said
    assert "instar stop" in said


def test_a_mistake_in_an_eval_is_a_problem_of_the_workspace(hand):
    hand.write("evals/bad.md", GREET.replace("contains", "contain"), 0o644)
    assert "evals/bad.md:4: checks.0.contain: there is no such field" in str(hand.json("status")["problems"])


@pytest.mark.slow
def test_ctrl_c_shows_what_there_is(hand):
    nap = f"4322.{os.getpid()}"
    hand.write("evals/call.md", CALL, 0o644)
    hand.write("evals/wait", f"#!/bin/sh\nsleep {nap}\necho 1\n")
    child = subprocess.Popen(
        [
            *("env", "--default-signal=INT", sys.executable, "-m", "instar", "evolve"),
            *("--workspace", str(hand.root), "eval"),
        ],
        env=hand.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert child.stderr.readline().startswith("call.md: run 1 of 1: 1 (")
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=20)
    assert child.returncode == 130
    assert said.splitlines()[1].split()[:3] == ["call.md", "1", "1"]
    assert not having("sleep", nap)


@pytest.fixture
def called(hand):
    """A script that was called with a secret in its input, so that its calls are recorded."""
    hand.edit("*) echo", """idle) date +'{"continue": "%N", "notify": ["a"]}' ;;\n*) echo""")
    greet = {"session": {"id": "ses_1"}, "tool": "greet", "args": {"who": "Ada", "api_key": "sk-123456789"}}
    for hook, fields in (
        ("execute_tool", greet),
        ("execute_tool", greet),
        ("execute_tool", {**greet, "args": {"who": "Bob"}}),
        ("mutate_request", {"session": {"id": "ses_1"}, "history": []}),
        ("idle", {"session": {"id": "ses_1"}, "answer": "Done."}),
    ):
        hand.play(lambda engine, hook=hook, fields=fields: engine.scripts.call_all(hook, fields))
    return hand


@pytest.mark.slow
def test_a_first_set_is_made_of_recorded_calls_and_passes(called, kit):
    said = called.json("eval", "--init")
    assert said["written"] == [
        *("bot-execute_tool-1.md", "bot-execute_tool-2.md", "bot-idle-1.md", "bot-mutate_request-1.md")
    ]
    texts = {name: (called.root / "evals" / name).read_text() for name in said["written"]}
    assert 'equals: {"result": "Hello!"}' in texts["bot-execute_tool-1.md"]
    assert "sk-123456789" not in str(texts)
    assert '"***"' in str(texts)
    # The time of day is another one each time.
    assert "continue" not in texts["bot-idle-1.md"]
    rows = called.json("eval")["rows"]
    assert [(row["scores"], row["accepted"]) for row in rows] == [([1.0], False)] * 4
    called("accept", "--yes")
    assert all(row["accepted"] for row in called.json("eval")["rows"])
    before = kit.files(called.root)
    assert called.json("eval", "--init", code=1)["written"] == []
    assert kit.files(called.root) == before


def test_a_first_set_needs_recorded_calls_and_a_person(hand):
    assert "no call is recorded yet" in hand("eval", "--init", code=1).stderr
    said = hand("eval", "--init", code=1, INSTAR_RUN="1").stderr
    assert "instar evolve eval --init is a person's" in said


WORSE = """\
== turn
tool: evolve_hook_edit {"hook": "bot.sh", "oldString": "Hello!", "newString": "Hello? No."}
== turn
expect: evals/cases
expect: it does worse in evals/greet.md
tool: evolve_hook_edit {"hook": "bot.sh", "oldString": "Hello!", "newString": "Hello, you!"}
== turn
text: {{tool}}
"""


@pytest.mark.slow
def test_a_session_may_not_install_what_makes_an_eval_worse(greet):
    greet.write("evals/greet.md", GREET.replace("contains: Hello", "not_contains: No"), 0o644)
    greet.write("evals/README.md", "# What is here\n", 0o644)
    story = greet.folder / "story.txt"
    story.write_text(WORSE)
    words = ("run", "--workspace", greet.root, "-m", "scripted/x", "Change it")
    done = greet.instar(*words, INSTAR_SCRIPT=str(story))
    assert done.returncode == 0, done.stderr
    assert "Hello, you!" in greet.bot
    assert "Hello? No." not in greet.bot
    log = greet("log").stdout
    assert "evals/cases" in log


@pytest.mark.slow
def test_a_file_that_cannot_be_used_refuses_changes_until_it_is_mended(greet):
    greet.write("evals/greet.md", GREET.replace("contains", "contain"), 0o644)
    new = greet.folder / "bot.sh"
    new.write_text(greet.bot.replace("Hello!", "Hello, you!"))
    said = greet("validate", new, code=1).stderr
    assert "evals/greet.md:4: checks.0.contain: there is no such field" in said
    greet.write("evals/greet.md", GREET, 0o644)
    greet("accept", "--yes")
    assert "would be installed" in greet("validate", new).stdout
