"""`instar hooks test`: the rules for one made-up event, run by the real evaluators."""

import json

import pytest
from tests.plugins.hooks.cli.conftest import Ruled

GUARD = 'case "$(cat)" in *"rm -rf"*) echo "no rm -rf here" >&2; exit 2;; esac'


@pytest.mark.slow
def test_each_rule_that_the_event_meets_runs_and_the_decision_is_the_exit_code(machine: Ruled) -> None:
    machine.program("guard.sh", GUARD)
    machine.rules(
        {
            "PreToolUse": [
                {"matcher": "bash", "hooks": [{"command": "./guard.sh"}]},
                {"matcher": "edit", "hooks": [{"command": "exit 2"}]},
            ]
        }
    )
    said = machine.hooks("test", "PreToolUse", "--tool", "Bash", "--input", '{"command": "rm -rf x"}', code=1)
    first, rule, why, decision, reason = said.splitlines()
    assert first == "PreToolUse of bash meets 1 of 2 rules"
    assert rule.startswith("  deny: command ./guard.sh (.instar/hooks.json:6:5, exit 2, ")
    assert (why, decision, reason) == ("    no rm -rf here", "decision: deny", "  reason: no rm -rf here")
    said = machine.hooks("test", "pre_tool_use", "--tool", "terminal", "--input", '{"command": "ls"}')
    assert said.endswith("decision: none\n")


@pytest.mark.slow
def test_a_rule_is_told_of_the_event_as_in_a_session(machine: Ruled) -> None:
    machine.program("tell.sh", "cat > told.json")
    machine.rules(
        {"hooks": {"PostToolUse": [{"hooks": [{"command": "./tell.sh"}]}]}}, ".claude/settings.json"
    )
    machine.hooks(
        *(
            "test",
            "PostToolUse",
            "--tool",
            "edit",
            "--output",
            "done",
            "--session",
            "ses_mine",
            "--set",
            "more=1",
        ),
        *("--input", '{"filePath": "a.py", "oldString": "x", "newString": "y"}'),
    )
    told = json.loads((machine.project / "told.json").read_text())
    assert (told["hook_event_name"], told["tool_name"], told["session_id"]) == (
        "PostToolUse",
        "Edit",
        "ses_mine",
    )
    assert told["tool_input"]["file_path"] == f"{machine.project}/a.py"
    assert (told["tool_response"]["output"], told["more"]) == ("done", 1)


def test_what_rules_add_and_rewrite_is_shown(machine: Ruled) -> None:
    answer = {"updatedInput": {"command": "ls -l"}, "additionalContext": "Be brief."}
    answer = {"systemMessage": "careful", "hookSpecificOutput": {"permissionDecision": "ask", **answer}}
    machine.program("say.sh", f"cat > /dev/null; echo '{json.dumps(answer)}'")
    machine.rules({"PreToolUse": [{"hooks": [{"command": "./say.sh"}]}]})
    said = machine.hooks("test", "PreToolUse", "--tool", "bash", "--input", '{"command": "ls"}')
    assert said.splitlines()[2:] == [
        "decision: ask",
        "  context: Be brief.",
        "  message: careful",
        '  input becomes: {"command":"ls -l"}',
    ]


@pytest.mark.slow
def test_an_async_rule_runs_and_decides_nothing(machine: Ruled) -> None:
    machine.rules({"Stop": [{"hooks": [{"command": "touch ran; exit 2", "async": True}]}]})
    assert "async, decides nothing" in machine.hooks("test", "Stop")
    assert (machine.project / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["PreTolUse"], "PreTolUse: there is no such event; did you mean PreToolUse?"),
        (["PreToolUse"], "PreToolUse is about a tool: name one, as in --tool bash"),
        (["Stop", "--tool", "bash"], "Stop is about no tool"),
        (["PreToolUse", "--tool", "bash", "--input", "{"], "--input is no JSON: "),
        (["PreToolUse", "--tool", "bash", "--input", "[]"], "--input is to be an object"),
        (["PreToolUse", "--tool", "file_editor"], "file_editor is read, write, edit or list here"),
        (["Stop", "--set", "x"], "--set x: expected NAME=VALUE"),
    ],
)
def test_words_that_make_no_event_are_refused_in_one_sentence(
    machine: Ruled, arguments: list[str], says: str
) -> None:
    said = machine.hooks("test", *arguments, code=2)
    assert says in said
    assert len(said.splitlines()) == 1


def test_names_of_events_are_completed(machine: Ruled) -> None:
    machine.environment |= {
        "_INSTAR_COMPLETE": "bash_complete",
        "COMP_WORDS": "instar hooks test Sub",
        "COMP_CWORD": "3",
    }
    done = machine.instar()
    assert done.stdout.split() == ["plain,SubagentStart", "plain,SubagentStop"]


@pytest.mark.slow
def test_a_judge_is_asked_for_a_session_of_the_moment_that_is_gone_afterwards(machine: Ruled) -> None:
    machine.script('== generate\ntext: {"decision": "deny", "reason": "not yet"}\n')
    machine.write_home("instar.json", '{"small_model": "scripted/judge"}')
    machine.rules({"Stop": [{"hooks": [{"type": "prompt", "prompt": "Only on Fridays."}]}]})
    said = machine.hooks("test", "Stop", code=1)
    assert "deny: prompt Only on Fridays. (.instar/hooks.json:5:5, scripted/judge, " in said
    assert said.endswith("decision: deny\n  reason: not yet\n")
    assert json.loads(machine.instar("session", "list", "--json").stdout) == []
    said = machine.hooks("test", "Stop", "--session", "ses_none", code=2)
    assert said == "instar: Session not found: ses_none\n"
