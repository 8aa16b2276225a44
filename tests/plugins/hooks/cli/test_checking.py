"""`instar hooks check`: what is armed, from where, and what is not, and why."""

import json

import pytest
from tests.plugins.hooks.cli.conftest import Ruled

CLAUDE = {
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh", "if": "Bash(rm *)"}]}
        ]
    },
}


def test_every_rule_is_named_with_its_file_line_and_dialect(machine: Ruled) -> None:
    machine.program("guard.sh", "exit 0")
    machine.write("instar.json", '{\n "hooks": {"stop": [{"hooks": [\n  {"command": "true"}]}]}}')
    machine.rules(
        {"PostToolUse": [{"matcher": "/edit|write/", "hooks": [{"command": "true", "timeout": 5}]}]}
    )
    machine.rules(CLAUDE, ".claude/settings.json")
    machine.rules({"hooks": {"stop": [{"hooks": [{"command": "true"}]}]}}, ".openhands/hooks.json")
    lines = machine.hooks("check").splitlines()
    assert lines == [
        "PreToolUse",
        "  .claude/settings.json:12:6 (claude)  command ./guard.sh  "
        "on Bash; if Bash(rm *); 600 s; undecided: allow",
        "PostToolUse",
        "  .instar/hooks.json:6:5 (instar)  command true  on /edit|write/; 5 s; undecided: allow",
        "Stop",
        "  instar.json:3:3 (instar)  command true  60 s; undecided: allow",
        "  .openhands/hooks.json:6:6 (openhands)  command true  60 s; undecided: allow",
        "4 rules of 4 sources are armed",
    ]


def test_what_is_not_understood_is_named_and_its_neighbours_are_armed(machine: Ruled) -> None:
    machine.rules(
        {
            "Stopp": [{"hooks": [{"command": "true"}]}],
            "PreToolUse": [
                {"matcher": "[", "hooks": [{"command": "true"}]},
                {"hooks": [{"type": "comand", "command": "true"}, {"command": "true", "timout": 3}]},
            ],
        }
    )
    said = machine.hooks("check", code=2)
    assert "1 rule of 1 source is armed" in said
    for problem in (
        "/.instar/hooks.json:2:11: Stopp: there is no such event; did you mean Stop?; its rules are not armed",
        "PreToolUse.0.matcher: ",
        "PreToolUse.1.hooks.0.type: expected one of command, http, prompt, agent, found 'comand'",
        "PreToolUse.1.hooks.1.timout: means nothing for a rule of type command; did you mean timeout?",
    ):
        assert problem in said


def test_a_program_that_is_missing_or_has_no_run_bit_is_found_without_running_it(machine: Ruled) -> None:
    machine.write("plain.sh", "#!/bin/sh\n")
    machine.program("there.sh", "touch ran")
    commands = [
        "./gone.sh --now",
        "./plain.sh",
        "no-such-program-anywhere x",
        "python3 gone.py",
        '"$CLAUDE_PROJECT_DIR"/gone.sh',
        "MODE=1 ./there.sh",
        "if true; then ./gone.sh; fi",
        "$HOME/anything",
        "true",
    ]
    rules = [{"command": command} for command in commands]
    machine.rules(
        {
            "PreToolUse": [
                {"hooks": [*rules, {"command": "./there.sh", "args": []}, {"command": "a b", "args": []}]}
            ]
        }
    )
    said = json.loads(machine.hooks("check", "--json", code=2))
    project = machine.project
    assert [rule["problem"] for rule in said["rules"]] == [
        f"there is no file {project}/gone.sh",
        f"{project}/plain.sh has no run bit (chmod +x {project}/plain.sh)",
        "there is no program no-such-program-anywhere on the PATH",
        f"there is no file {project}/gone.py",
        f"there is no file {project}/gone.sh",
        *["", "", "", "", ""],
        "there is no program a b on the PATH",
    ]
    assert said["problems"][0].endswith(f"/.instar/hooks.json:5:5: there is no file {project}/gone.sh")
    assert not (project / "ran").exists()


def test_rules_of_a_folder_that_nobody_trusts_are_said_and_not_armed(machine: Ruled) -> None:
    path = machine.rules({"Stop": [{"hooks": [{"command": "true"}]}]})
    done = machine.instar("hooks", "check")
    assert (done.returncode, done.stdout) == (2, "no rule is armed\n")
    assert f"{path} was not read: nobody trusted the folder (instar trust {machine.project})" in done.stderr


def test_a_file_that_is_no_json_is_named_with_its_place(machine: Ruled) -> None:
    path = machine.rules('{"Stop": [}')
    assert f"instar: {path}:1:11: " in machine.hooks("check", code=2)


def test_agent_rules_before_a_tool_use_are_armed_only_where_the_settings_say_so(machine: Ruled) -> None:
    machine.rules({"PreToolUse": [{"hooks": [{"type": "agent", "prompt": "Look."}]}]})
    assert "runs only with hook_settings.agent_pre_tool_use: true" in machine.hooks("check", code=2)
    machine.write_home("instar.json", '{"hook_settings": {"agent_pre_tool_use": true}}')
    assert "agent Look.  60 s; undecided: deny; reads" in machine.hooks("check")


def test_settings_can_switch_all_rules_off(machine: Ruled) -> None:
    machine.rules({"Stop": [{"hooks": [{"command": "true"}]}]})
    machine.write_home("instar.json", '{"hook_settings": {"enabled": false}}')
    assert machine.hooks("check") == "no rule is armed: hook_settings.enabled is false\n"


@pytest.mark.slow
def test_rules_of_an_agents_file_hold_for_that_agent(machine: Ruled) -> None:
    machine.write(
        ".instar/agent/careful.md",
        "---\ndescription: Careful.\nhooks:\n  PreToolUse:\n    - matcher: bash\n      hooks:\n"
        "        - command: exit 2\n---\nBe careful.\n",
    )
    said = json.loads(machine.hooks("check", "--json"))
    (rule,) = said["rules"]
    assert (rule["text"], "for the agent careful" in rule["options"]) == ("exit 2", True)
    assert "careful.md" in rule["place"]
    refused = machine.tried(
        "PreToolUse", "--tool", "bash", "--input", '{"command": "ls"}', "--agent", "careful", code=1
    )
    assert refused["decision"]["action"] == "deny"
    assert machine.tried("PreToolUse", "--tool", "bash", "--agent", "build")["rules"] == []


def test_tools_that_a_judge_cannot_have_are_found(machine: Ruled) -> None:
    lists = [["file_editor", "Bash(git *)", "LS"], ["reed", "read"], ["task"], None]
    hooks = [
        {"type": "agent", "prompt": "x"} | ({} if tools is None else {"tools": tools}) for tools in lists
    ]
    free = {"type": "agent", "prompt": "x", "tools": ["mine"], "write": True, "network": True}
    machine.rules({"Stop": [{"hooks": [*hooks, free]}]})
    said = json.loads(machine.hooks("check", "--json", code=2))
    assert [rule["problem"].partition(":")[0] for rule in said["rules"]] == [
        "",
        "a judge cannot have the tool reed",
        "a judge cannot have the tool task",
        "",
        "",
    ]
