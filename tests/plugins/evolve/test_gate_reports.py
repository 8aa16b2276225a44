"""What people can look up of each candidate: the gate's report, what differs between versions, why a line is there."""

import json

import pytest
from tests.plugins.evolve.cli.conftest import BOT, Hand
from tests.plugins.evolve.test_routes import person, served

from instar.plugins.evolve.candidate import CandidateRefused

__all__ = ["person"]
EVAL = "#!/bin/sh\necho '{\"score\": 1}'\n"
GREETER = BOT.replace(
    '{"tools": [', '{"tools": [{"name": "wave", "description": "Waves a hand.", "parameters": {}}, '
)


def newest(http, **query):
    return http.get("/instar/evolve/log", limit=1, **query)["changes"][0]


@pytest.mark.slow
def test_an_installed_change_has_a_report_of_all_that_the_gate_found_and_the_log_says_what_is_new(
    person: Hand,
):
    person.write("evals/quick.sh", EVAL)
    person.edit('{"tools": [', GREETER.split("\n")[4].partition('{"name": "greet"')[0])
    with served(person) as http:
        change = newest(http)
        report = http.get(f"/instar/evolve/report/{change['report']}")
        missing = http.get("/instar/evolve/report/nonsense", 404)
    assert change["text"] == "new tool bot_wave (Waves a hand); 1 line added, 1 removed"
    assert (report["file"], report["outcome"]) == ("hooks/bot.sh", "installed")
    assert report["cause"]["session"] == "ses_1"
    assert [one["name"] for one in report["stages"]] == ["parse", "test", "score", "authority"]
    assert "+{" in report["diff"]
    assert '"result": "Hello!"' in report["test"]
    (line,) = report["score"]
    assert (line["name"], line["reference"], line["candidate"], line["verdict"]) == (
        "quick.sh",
        1,
        1,
        "no worse",
    )
    assert report["granted"]["hold"] == report["asked"]["hold"] == "sandbox"
    assert "bot_wave" in report["asked"]["tools"]
    assert report["ms"] > 0
    assert missing.startswith("there is no report 'nonsense'")


def test_a_refused_candidate_has_a_report_with_its_diff_and_the_stage(person: Hand):
    with pytest.raises(CandidateRefused):
        person.edit("Hello!", "Bye!")
    with served(person) as http:
        change = newest(http)
        report = http.get(f"/instar/evolve/report/{change['report']}")
    assert (change["kind"], report["outcome"], report["stage"]) == ("refused", "refused", "test")
    assert "it must say Hello" in report["text"]
    assert '+execute_tool) echo \'{"result": "Bye!"}\' ;;' in report["diff"]
    assert [one["name"] for one in report["stages"]] == ["parse"]


@pytest.mark.slow
def test_a_candidate_that_waits_has_a_report_with_what_it_would_reach_before_and_after(person: Hand):
    waits = person.ask_for_more()
    with served(person) as http:
        report = http.get(f"/instar/evolve/report/{newest(http)['report']}")
        http.post(f"/instar/evolve/candidate/{waits}/approve")
        installed = newest(http)
        approved = http.get(f"/instar/evolve/report/{installed['report']}")
    assert (report["outcome"], report["stage"]) == ("waits", "authority")
    assert report["granted"]["tools"] == {"bot_greet": ["who"]}
    assert report["asked"]["tools"] == {"bot_greet": []}
    assert report["raised"] == [
        "its tool bot_greet would run without asking a person first (so far it asks about who)"
    ]
    assert (approved["outcome"], approved["raised"]) == ("installed", report["raised"])
    assert installed["text"] == "the tool bot_greet asks about nothing now; 1 line added, 1 removed"


@pytest.mark.slow
def test_a_replay_stands_in_the_report_with_the_answers_that_changed(person: Hand):
    person.edit("Hello!", "Hello there!")
    script = person.folder / "call.txt"
    script.write_text('== turn\ntool: bot_greet {"who": "you"}\n== turn\ntext: {{tool}}\n')
    done = person.instar(
        "run", "--auto", "--workspace", str(person.root), "-m", "scripted/x", "Hi", INSTAR_SCRIPT=str(script)
    )
    assert "Hello there!" in done.stdout, done.stderr
    person.edit("Hello there!", "Hello again!")
    with served(person) as http:
        replay = http.get(f"/instar/evolve/report/{newest(http)['report']}")["replay"]
        calls = {(one["script"], one["hook"]): one for one in http.get("/instar/evolve/call")}
    assert replay["verdicts"]["changed"] == 1
    assert replay["changed"][0]["hook"] == "execute_tool"
    assert "Hello again!" in replay["changed"][0]["diff"]
    called = calls["bot.sh", "execute_tool"]
    assert (called["calls"], called["failed"]) == (1, {})
    assert 0 < called["median"] <= called["slowest"]
    assert calls["bot.sh", "idle"]["failed"] == {"unknown": 1}


@pytest.mark.slow
def test_two_versions_are_compared_and_a_line_says_why_it_is_there(person: Hand):
    person.edit("Hello!", "Hello there!")
    person.edit("Hello there!", "Hello again!")
    line = next(at for at, code in enumerate(person.bot.split("\n"), 1) if "Hello again" in code)
    with served(person) as http:
        both = http.get("/instar/evolve/compare", old="initial")
        assert (both["old"]["subject"], both["new"]["epoch"]) == ("initial", 3)
        assert '-execute_tool) echo \'{"result": "Hello!"}\'' in both["diff"]
        assert '+execute_tool) echo \'{"result": "Hello again!"}\'' in both["diff"]
        assert "Hello there" not in both["diff"]
        assert http.get("/instar/evolve/compare", old="@2", file="hooks")["diff"].count("diff --git") == 1
        assert http.get("/instar/evolve/compare", old="@2", file="prompts")["diff"] == ""
        blamed = http.get("/instar/evolve/blame", file="hooks/bot.sh")
        assert [one["epoch"] for one in blamed["lines"] if "again" in one["code"]] == [3]
        assert [one["epoch"] for one in blamed["lines"] if "#!" in one["code"]] == [None]
        why = http.get("/instar/evolve/why", file="hooks/bot.sh", line=line)
        assert why["change"]["epoch"] == 3
        assert why["missing"] == "session ses_1 is gone, and the message that led to this with it"
        assert "names no change" in http.get("/instar/evolve/compare", 404, old="@99")
        for wrong in "../home", "nonsense":
            assert "there is no" in http.get("/instar/evolve/blame", 400, file=wrong)
            assert "there is no" in http.get("/instar/evolve/why", 400, file=wrong, line=1)
    assert why == person.json("why", f"hooks/bot.sh:{line}")


@pytest.mark.slow
def test_the_log_says_when_a_version_has_passed_its_probation(person: Hand):
    person.write("home/.config/instar/instar.json", "{}", 0o644)
    config = json.dumps({"evolve": {"probation_calls": 1}})
    person.edit("Hello!", "Hello there!")
    script = person.folder / "call.txt"
    script.write_text("== turn\ntext: Hi.\n")
    run = ("run", "--workspace", str(person.root), "-m", "scripted/x", "Hi")
    done = person.instar(*run, INSTAR_SCRIPT=str(script), INSTAR_CONFIG_CONTENT=config)
    assert done.stdout, done.stderr
    with served(person) as http:
        kept = next(one for one in http.get("/instar/evolve/log")["changes"] if one["kind"] == "kept")
    assert kept["files"] == ["hooks/bot.sh"]
    assert kept["text"].startswith("kept after 1 calls")
