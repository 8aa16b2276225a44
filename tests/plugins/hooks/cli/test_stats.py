"""`instar hooks stats`: what rules decided, took and cost, from what sessions recorded."""

import json
from pathlib import Path

import pytest
from tests.plugins.hooks.cli.conftest import Ruled

SCRIPT = """
== turn
tool: bash {"command": "echo one"}
== turn
tool: bash {"command": "rm -rf two"}
== turn
text: done
"""
GUARD = 'case "$(cat)" in *"rm -rf"*) echo "no rm -rf here" >&2; exit 2;; esac'


@pytest.mark.slow
def test_each_rules_runs_verdicts_and_times_are_summed_from_the_sessions_records(machine: Ruled) -> None:
    machine.program("guard.sh", GUARD)
    machine.rules(
        {
            "PreToolUse": [{"hooks": [{"command": "./guard.sh"}]}],
            "PostToolUse": [{"hooks": [{"command": "exit 3", "name": "broken"}]}],
            "SessionEnd": [{"matcher": "archive", "hooks": [{"command": "true"}]}],
        }
    )
    machine.environment["INSTAR_TRUST"] = "all"
    machine.script(SCRIPT)
    done = machine.run("go")
    assert done.returncode == 0, done.stderr
    said = json.loads(machine.hooks("stats", "--json"))
    counts = {
        (line["event"], line["evaluator"]): (line["runs"], line["actions"], line["undecided"])
        for line in said["lines"]
    }
    assert counts == {
        ("PreToolUse", "command"): (2, {"none": 1, "deny": 1}, 0),
        ("PostToolUse", "command"): (1, {"none": 1}, 1),
    }
    assert all(0 <= line["p50"] <= line["slowest"] and line["tokens"] == 0 for line in said["lines"])
    assert said["sessions"] == 1

    head, first, second, last = machine.hooks("stats").splitlines()
    assert head.split() == [
        "runs",
        "allow",
        "ask",
        "deny",
        "undecided",
        "p50",
        "ms",
        "max",
        "ms",
        "tokens",
        "cost",
    ]
    assert first.split()[:5] == ["2", "0", "0", "1", "0"]
    assert "PreToolUse: ./guard.sh (" in first
    assert "PostToolUse: broken (" in second
    assert last == f"1 session armed; records: {said['folder']}"

    records = [
        json.loads(line) for path in _records(said["folder"]) for line in path.read_text().splitlines()
    ]
    assert records[0]["type"] == "hooks.armed"
    assert [label.partition(" (")[0] for label in records[0]["properties"]["rules"]] == [
        "PreToolUse: ./guard.sh",
        "PostToolUse: broken",
        "SessionEnd: true",
    ]


@pytest.mark.slow
def test_days_and_a_session_narrow_what_is_summed(machine: Ruled) -> None:
    machine.rules({"UserPromptSubmit": [{"hooks": [{"command": "true"}]}]})
    machine.environment["INSTAR_TRUST"] = "all"
    machine.script("== turn\ntext: hello\n")
    machine.run("one")
    machine.run("two")
    (path, _) = _records(json.loads(machine.hooks("stats", "--json"))["folder"])
    old = [json.loads(line) | {"time": 1} for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, old)) + "\nno json\n")
    runs = [
        [line["runs"] for line in json.loads(machine.hooks("stats", "--json", *arguments))["lines"]]
        for arguments in ([], ["--days", "1"], ["--session", path.stem], ["--session", "ses_none"])
    ]
    assert runs == [[2], [1], [1], []]


def _records(folder: str) -> list[Path]:

    return sorted(Path(folder).glob("*.jsonl"))
