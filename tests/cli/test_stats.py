"""`instar stats`: the figures that a person is shown, and the same as JSON."""

import json
import sqlite3
from pathlib import Path

import pytest

SCRIPT = """
== when "^look"
text: ok
tool: bash {"command": "true"}
usage: input=100 output=20 reasoning=5 cache_read=300 cache_write=0

== when ""
text: ok
usage: input=50 output=10 reasoning=0 cache_read=50 cache_write=0

== title
text: A title
usage: input=10 output=2
"""
PRICED = {"input": 10, "output": 20, "cache_read": 1, "cache_write": 10}


@pytest.fixture
def used(machine):
    """A machine on which a session was given two prompts, and another one in another folder one."""
    machine.script(SCRIPT)
    models = {"dear": {"cost": PRICED}, "unknown": {}}
    machine.write_home("instar.json", json.dumps({"provider": {"scripted": {"models": models}}}))
    machine.instar("run", "-m", "scripted/dear", "--title", "one", "look")
    machine.instar("run", "-m", "scripted/dear", "-c", "go on")
    other = machine.home / "other"
    other.mkdir()
    machine.instar("run", "-m", "scripted/unknown", "--agent", "plan", "go", cwd=other)
    # As where nobody knows a model's price: the scripted ones cost nothing.
    booked(machine, "UPDATE instar_usage SET cost = NULL WHERE model_id = 'unknown'")
    return machine


def booked(machine, statement, *values):
    """Change what is booked."""
    with sqlite3.connect(Path(machine.environment["XDG_DATA_HOME"]) / "instar" / "instar.db") as connection:
        connection.execute(statement, values)


def stats(machine, *arguments):
    done = machine.instar("stats", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_was_used_yet(machine):
    done = machine.instar("stats")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no model calls are recorded here\n", "")
    assert stats(machine)["total"]["calls"] == 0


@pytest.mark.slow
def test_the_overview_says_what_was_used_and_what_it_cost(used):
    text = used.instar("stats").stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert " 5 calls in 2 sessions, " in lines["calls"]
    assert "tokens, 63.4% cached (450 read, 0 written)" in text
    assert "unpriced   2 calls of scripted/unknown: not in the cost" in text
    for name in ("model", "cause", "origin", "scripted/dear", "turn", "title", "person"):
        assert name in lines


@pytest.mark.slow
def test_the_total_is_the_sum_of_its_parts(used):
    found = stats(used, "--by", "model", "--by", "agent", "--by", "day", "--by", "session")
    total = found["total"]
    assert total["tokens"] == {
        "input": 100 + 50 + 50 + 50 + 10,
        "output": 20 + 10 + 10 + 10 + 2,
        "reasoning": 5,
        "cache": {"read": 300 + 50 + 50 + 50, "write": 0},
    }
    for table in found["by"].values():
        assert sum(row["calls"] for row in table) == total["calls"]
        assert sum(row["cost"] for row in table) == pytest.approx(total["cost"])
    assert {row["key"] for row in found["by"]["agent"]} >= {"build", "plan"}
    assert {row.get("title") for row in found["by"]["session"]} == {"one", "A title"}


@pytest.mark.slow
def test_the_cached_share_is_told(used):
    (dear,) = [row for row in stats(used)["by"]["model"] if row["key"] == "scripted/dear"]
    read, whole = dear["tokens"]["cache"]["read"], dear["tokens"]["cache"]["read"] + dear["tokens"]["input"]
    assert dear["cached"] == pytest.approx(read / whole)


@pytest.mark.slow
def test_one_session_one_project_and_a_time(used):
    sessions = {row["title"]: row["key"] for row in stats(used, "--by", "session")["by"]["session"]}
    whole = stats(used)["total"]["calls"]
    one = stats(used, "--session", sessions["one"])["total"]
    assert 0 < one["calls"] < whole
    assert stats(used, "--project", "")["total"] == one
    assert stats(used, "--project", str(used.project))["total"] == one
    assert stats(used, "--project", str(used.home / "other"))["total"]["calls"] == whole - one["calls"]
    assert stats(used, "--days", "0")["total"]["calls"] == whole
    assert stats(used, "--until", "2020-01-01")["total"]["calls"] == 0
    assert stats(used, "--since", "2020-01-01", "--until", "2099-12-31T10:00")["total"]["calls"] == whole


@pytest.mark.slow
def test_what_a_deleted_session_spent_stays_spent(used):
    before = stats(used)["total"]
    (row,) = [row for row in stats(used, "--by", "session")["by"]["session"] if row["title"] == "one"]
    used.instar("session", "delete", row["key"])
    assert stats(used)["total"] == before
    assert stats(used, "--session", row["key"][:20])["total"]["calls"] == row["calls"]


@pytest.mark.slow
def test_tools_and_models_as_opencode_stats_takes_them(used):
    assert stats(used, "--tools")["tools"] == {"bash": 1}
    text = used.instar("stats", "--tools", "1", "--models", "1").stdout
    assert "bash                                   1" in text
    assert "… 1 more (--limit)" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "colour"], "'colour' is not one of"),
        (["--days", "1", "--since", "2026-01-01"], "--days stands alone"),
        (["--since", "yesterday"], "--since 'yesterday' is no date such as 2026-01-31"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "--since is not before --until"),
        (["--session", "ses_none"], "there is no session 'ses_none'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(machine, arguments, said):
    done = machine.instar("stats", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.slow
def test_an_id_that_may_be_several_sessions_is_not_guessed(used):
    done = used.instar("stats", "--session", "ses_")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'ses_' may be 2 sessions: ses_" in done.stderr


@pytest.mark.slow
def test_a_day_is_the_persons_own(used):
    booked(used, "UPDATE instar_usage SET time_created = 1768001400000")  # 23:30 on the 9th in UTC
    used.environment["TZ"] = "UTC"
    assert [row["key"] for row in stats(used, "--by", "day")["by"]["day"]] == ["2026-01-09"]
    used.environment["TZ"] = "Asia/Kolkata"
    assert [row["key"] for row in stats(used, "--by", "day")["by"]["day"]] == ["2026-01-10"]
    assert stats(used, "--since", "2026-01-10", "--until", "2026-01-10")["total"]["calls"] == 5


@pytest.mark.slow
def test_a_name_from_a_model_or_a_plugin_does_not_command_the_terminal(used):
    booked(used, "UPDATE instar_usage SET cause = ?", "\x1b[31mred\nrow")
    assert "\x1b" not in used.instar("stats").stdout
