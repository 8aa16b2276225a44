"""No guard fails open in silence: what cannot be read or decided is refused, or said before something happens."""

import json
from typing import Any

import pytest
from tests.plugins.hooks.cli.conftest import Ruled

LS = '== when "^go"\ntool: bash {"command": "touch ran"}\n== when "."\ntext: {{last.tool.output}}\n'
RULES = {"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": [{"command": "./guard.sh"}]}]}}
WRONG = {"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": [{"comand": "./guard.sh"}]}]}}
UNREADABLE = {
    "truncated": json.dumps(RULES)[:-9].encode(),
    "empty": b"",
    "UTF-16": json.dumps(RULES).encode("utf-16"),
    "a list": b"[]",
    "no groups": b'{"hooks": {"PreToolUse": {"matcher": "bash"}}}',
    "no rule": b'{"hooks": {"PreToolUse": [{"hooks": {}}]}}',
    "a slip of the pen": json.dumps(WRONG).encode(),
    "an event that nobody knows": json.dumps(RULES).replace("PreToolUse", "PreToolUsee").encode(),
    "a matcher that is none": json.dumps(RULES).replace('"bash"', '"(bash"').encode(),
}
IN_PIECES = ("a slip of the pen", "an event that nobody knows", "a matcher that is none")


def put(machine: Ruled, data: bytes, name: str = ".instar/hooks.json", *, home: bool = False) -> None:
    path = (machine.home if home else machine.project) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def guarded(machine: Ruled) -> Ruled:
    machine.program("guard.sh", "echo not now >&2; exit 2")
    machine.script(LS)
    return machine


@pytest.mark.parametrize("how", UNREADABLE)
@pytest.mark.parametrize("home", [True, False])
def test_what_an_unreadable_rule_of_our_own_dialect_would_judge_is_refused(
    guarded: Ruled, how: str, home: bool
) -> None:
    put(guarded, UNREADABLE[how], home=home)
    if not home:
        guarded.environment["INSTAR_TRUST"] = "all"
    done = guarded.run("go")
    assert not (guarded.project / "ran").exists()
    assert ".instar/hooks.json" in done.stderr.splitlines()[0]
    assert "is refused" in done.stderr.splitlines()[0] + done.stderr.splitlines()[1]


@pytest.mark.parametrize("name", [".claude/settings.json", ".openhands/hooks.json"])
@pytest.mark.parametrize("how", ["truncated", "empty", "UTF-16", "a slip of the pen"])
def test_an_unreadable_file_of_a_foreign_dialect_is_said_before_the_first_step(
    guarded: Ruled, name: str, how: str
) -> None:
    put(guarded, UNREADABLE[how], name, home=True)
    told = guarded.run("go").stderr
    assert (guarded.project / "ran").exists()
    assert 0 <= told.index(name) < told.index("bash touch ran")
    assert told.count("is armed") + told.count("not armed") == 1


@pytest.mark.parametrize("name", [".instar/hooks.json", ".claude/settings.json"])
@pytest.mark.parametrize("how", ["truncated", "empty", "UTF-16"])
def test_the_version_that_was_accepted_serves_and_trust_takes_no_unreadable_one(
    guarded: Ruled, name: str, how: str
) -> None:
    put(guarded, json.dumps(RULES).encode(), name)
    guarded.instar("trust", ".")
    put(guarded, UNREADABLE[how], name)
    refused = guarded.instar("trust", ".")
    assert refused.returncode == 2
    assert f"{name}:1:" in refused.stderr
    for _ in range(2):
        done = guarded.run("go")
        assert f"{name} (changed)" in done.stderr.splitlines()[0]
        assert "not now" in done.stdout
    assert not (guarded.project / "ran").exists()


def test_trust_names_a_rule_that_cannot_be_read(guarded: Ruled) -> None:
    put(guarded, UNREADABLE["a slip of the pen"])
    refused = guarded.instar("trust", ".")
    assert refused.returncode == 2
    assert ".instar/hooks.json:1:" in refused.stderr
    assert "command: it is not there" in refused.stderr


UNDECIDED: dict[str, dict[str, Any]] = {
    "it exited with 1: boom": {"command": "echo boom >&2; exit 1"},
    "its program is missing": {"command": "./gone.sh"},
    "unknown provider 'no'": {"type": "prompt", "prompt": "p", "model": "no/such", "on_error": "allow"},
    "there is no tool 'shout'": {"type": "agent", "prompt": "p", "tools": ["shout"], "on_error": "allow"},
}


@pytest.mark.parametrize("why", UNDECIDED)
def test_a_rule_that_cannot_decide_and_lets_pass_is_one_line(guarded: Ruled, why: str) -> None:
    guarded.write_home("instar.json", json.dumps({"hook_settings": {"agent_pre_tool_use": True}}))
    put(
        guarded,
        json.dumps({"hooks": {"PreToolUse": [{"hooks": [UNDECIDED[why]]}]}}).encode(),
        ".claude/settings.json",
    )
    guarded.environment["INSTAR_TRUST"] = "all"
    guarded.script(LS.replace("tool: bash", 'tool: bash {"command": "true"}\ntool: bash'))
    told = guarded.run("go").stderr
    assert (guarded.project / "ran").exists()
    (line,) = [one for one in told.splitlines() if "could not decide" in one]
    assert f"stands in nobody's way: {why}" in line
    assert told.index(line) < told.index("bash touch ran")


def test_an_async_rule_that_can_never_deny_says_so(machine: Ruled) -> None:
    asynchronous = [{"hooks": [{"command": "true", "async": True}]}]
    machine.rules({"PreToolUse": asynchronous, "PostToolUse": asynchronous})
    before, after = machine.hooks("check").split("PostToolUse")
    assert "async: it can never deny" in before
    assert "never" not in after


def test_a_judge_may_name_its_tools_as_any_of_the_systems_does(machine: Ruled) -> None:
    names = ["read_file", "write_file", "exec", "list_dir", "edit_file", "web_fetch"]
    machine.rules({"Stop": [{"hooks": [{"type": "agent", "prompt": "p", "tools": names}]}]})
    assert "1 rule of 1 source is armed" in machine.hooks("check")


def test_a_matcher_may_name_a_tool_as_any_of_the_systems_does(machine: Ruled) -> None:
    machine.rules({"PreToolUse": [{"matcher": "exec|write_file", "hooks": [{"command": "exit 2"}]}]})
    for tool, code in (("bash", 1), ("write", 1), ("read", 0)):
        machine.tried("PreToolUse", "--tool", tool, code=code)


def test_a_model_that_two_providers_have_is_no_reason_to_decide_nothing(machine: Ruled) -> None:
    machine.write("judge.txt", '== generate\ntext: {"decision": "deny", "reason": "by the judge"}\n')
    scripted = {"judge": {"options": {"script": f"{machine.project}/judge.txt"}}}
    other = {"options": {"baseURL": "http://127.0.0.1:9/v1"}, "models": {"judge": {}}}
    named = {"other": {"npm": "@ai-sdk/openai-compatible", **other}, "scripted": {"models": scripted}}
    machine.write_home("instar.json", json.dumps({"provider": named, "model": "scripted/judge"}))
    machine.rules({"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "p", "model": "judge"}]}]})
    machine.script(LS)
    machine.environment["INSTAR_TRUST"] = "all"
    assert "by the judge" in machine.run("go").stdout
