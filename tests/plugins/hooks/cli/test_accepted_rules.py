"""Rules of a trusted project count as a person accepted them."""

import json
from typing import Any

import pytest
from tests.plugins.hooks.cli.conftest import Ruled

ALLOW = json.dumps({"decision": "allow", "hookSpecificOutput": {"updatedInput": {"command": "true"}}})
ALLOWS = {"PreToolUse": [{"hooks": [{"type": "command", "command": f"printf '%s' '{ALLOW}'"}]}]}
DENIES = {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}
CALL = ("--tool", "bash", "--input", '{"command": "rm x"}')


def hooks(machine: Ruled, *arguments: str) -> Any:
    """What `instar hooks … --json` says where only the list of trusted folders counts."""
    machine.environment.pop("INSTAR_TRUST", None)
    done = machine.instar("hooks", *arguments, "--json")
    return json.loads(done.stdout)


def decision(machine: Ruled) -> tuple[str, Any]:
    found = hooks(machine, "test", "PreToolUse", *CALL)["decision"]
    return found["action"], found["updated_input"]


def changes(machine: Ruled) -> list[tuple[str, str]]:
    """What of the project is not as it was accepted."""
    found = json.loads(machine.instar("trust", "diff", "--json").stdout)
    return [(one["file"], one["change"]) for one in found]


def trust(machine: Ruled) -> str:
    done = machine.instar("trust")
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(machine: Ruled, name: str, rules: dict[str, Any]) -> None:
    """Write rules where `name` says: into a file of them, into settings, or into an agent's front matter."""
    if name.endswith(".md"):
        machine.write(name, f"---\ndescription: x\nhooks: {json.dumps(rules)}\n---\nAn agent.\n")
    else:
        machine.rules({"hooks": rules}, name)


FILES = [
    *(".instar/hooks.json", ".openhands/hooks.json", ".claude/settings.json", ".claude/settings.local.json"),
    *("instar.json", ".opencode/opencode.json"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_rule_counts_once_it_was_accepted(machine: Ruled, name: str) -> None:
    trust(machine)
    write(machine, name, ALLOWS)
    assert decision(machine) == ("none", None)
    assert changes(machine) == [(name, "new")]
    assert f"{name}: " in trust(machine)
    assert decision(machine) == ("allow", {"command": "true"})
    assert changes(machine) == []


@pytest.mark.slow
def test_a_rule_that_was_changed_or_taken_away_holds_as_it_was_accepted(machine: Ruled) -> None:
    path = machine.rules({"hooks": {**DENIES, "Stop": DENIES["PreToolUse"]}})
    name = path.relative_to(machine.project).as_posix()
    trust(machine)
    machine.rules({"hooks": ALLOWS})
    assert decision(machine)[0] == "deny"
    assert changes(machine) == [(name, "changed")]
    path.unlink()
    assert decision(machine)[0] == "deny"
    assert changes(machine) == [(name, "gone")]
    trust(machine)
    assert decision(machine)[0] == "none"


@pytest.mark.slow
def test_other_settings_in_the_file_and_its_layout_are_no_change(machine: Ruled) -> None:
    machine.rules({"hooks": ALLOWS}, ".claude/settings.json")
    trust(machine)
    machine.write(".claude/settings.json", json.dumps({"permissions": {}, "hooks": ALLOWS}, indent=7))
    assert decision(machine)[0] == "allow"
    assert changes(machine) == []


@pytest.mark.slow
def test_another_files_text_that_a_rule_brings_counts_as_it_was_accepted(machine: Ruled) -> None:
    machine.write("command.txt", 'echo \'{"decision": "deny"}\'')
    machine.rules({"hooks": {"PreToolUse": [{"hooks": [{"command": "{file:command.txt}"}]}]}}, "instar.json")
    trust(machine)
    machine.write("command.txt", 'echo \'{"decision": "allow"}\'')
    assert decision(machine)[0] == "deny"
    assert changes(machine) == [("command.txt", "changed")]


@pytest.mark.slow
def test_an_agents_rules_are_accepted_with_its_file(machine: Ruled) -> None:
    trust(machine)
    write(machine, ".instar/agent/careful.md", ALLOWS)
    told = (*CALL, "--agent", "careful")
    assert hooks(machine, "test", "PreToolUse", *told)["decision"]["action"] == "none"
    trust(machine)
    assert hooks(machine, "test", "PreToolUse", *told)["decision"]["action"] == "allow"


@pytest.mark.slow
def test_a_persons_own_rules_and_a_machine_that_trusts_all_are_not_asked_about(machine: Ruled) -> None:
    machine.rules({"hooks": ALLOWS}, ".instar/hooks.json")
    assert machine.tried("PreToolUse", *CALL)["decision"]["action"] == "allow"
    (machine.project / ".instar/hooks.json").unlink()
    home = machine.home / ".claude/settings.json"
    home.parent.mkdir(parents=True)
    home.write_text(json.dumps({"hooks": ALLOWS}), "utf-8")
    assert decision(machine)[0] == "allow"


def test_a_projects_rule_takes_the_place_of_the_persons_only_where_it_is_the_same(machine: Ruled) -> None:
    own = {"type": "command", "command": "exit 0"}
    weak = [own | {"once": True}, own | {"on_error": "allow"}, own | {"timeout": 0.01}]
    machine.rules({"hooks": {"Stop": [{"hooks": [*weak, own]}]}}, ".claude/settings.json")
    home = machine.home / ".claude/settings.json"
    home.parent.mkdir(parents=True)
    home.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [own]}]}}), "utf-8")
    assert len(json.loads(machine.hooks("check", "--json"))["rules"]) == 4


@pytest.mark.parametrize(
    "command",
    [
        "./sub/guard.sh",
        "bash sub/guard.sh",
        "cd sub && ./guard.sh",
        "cd sub && bash guard.sh",
        'cd "$CLAUDE_PROJECT_DIR/sub"; ./guard.sh',
    ],
)
def test_a_script_of_the_folder_runs_as_it_was_accepted_wherever_the_command_goes_first(
    machine: Ruled, command: str
) -> None:
    script = machine.write("sub/guard.sh", "#!/bin/sh\necho no >&2\nexit 2\n")
    script.chmod(0o755)
    write(
        machine, ".instar/hooks.json", {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}
    )
    trust(machine)
    assert decision(machine)[0] == "deny"
    script.write_text("#!/bin/sh\nexit 0\n")
    assert decision(machine)[0] == "deny"
    assert changes(machine) == [("sub/guard.sh", "changed")]
