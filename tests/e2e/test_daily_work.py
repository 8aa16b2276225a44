"""What people and programs do every day must not notice how children are confined: files come and go everywhere."""

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from instar.testing import Machine

LEVELS = ["landlock", pytest.param("bubblewrap", marks=pytest.mark.slow)]
DOCS = Path(__file__).parents[2] / "docs/guides/rules.md"
WORK = "touch new && mkdir sub && mv a.txt b.txt && rm -rf build && sed -i s/a/c/ b.txt && echo all done"


@pytest.fixture(params=LEVELS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    made = Machine(tmp_path, trusted=False)
    made.settings(shield={"level": request.param})
    made.write("a.txt", "a\n")
    made.write("build/out.o", "o\n")
    return made


def rules(command: str, event: str = "PreToolUse", **more: object) -> str:
    return json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command, **more}]}]}})


def run(machine: Machine, command: str = WORK) -> CompletedProcess[str]:
    """Let the model call bash with this command, and tell what came of it."""
    machine.says(
        f"== turn\ntool: bash {json.dumps({'command': command})}\n== turn\ntext: {{{{last.tool.output}}}}\n"
    )
    return machine.run("run", "--auto", "--model", "scripted/x", "go")


def assert_worked(machine: Machine, done: CompletedProcess[str]) -> None:
    assert "all done" in done.stdout, done.stdout + done.stderr
    there = {path.name for path in machine.folder.iterdir()}
    assert {"new", "sub", "b.txt"} <= there
    assert not {"a.txt", "build"} & there
    assert (machine.folder / "b.txt").read_text() == "c\n"


FILES = {
    ".claude/settings.json": json.dumps({"permissions": {"allow": []}}),
    ".claude/settings.local.json": rules("true"),
    ".instar/hooks.json": rules("./guard.sh"),
    "instar.json": rules("./guard.sh"),
    ".openhands/hooks.json": rules("sh guard.sh"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("trusted", ["trusted", "untrusted", "all"])
def test_files_come_and_go_in_the_root_of_a_project_with_rules(
    machine: Machine, name: str, trusted: str
) -> None:
    machine.write(name, FILES[name])
    machine.write("guard.sh", "#!/bin/sh\ntrue\n").chmod(0o755)
    if trusted == "trusted":
        machine.trust()
    elif trusted == "all":
        machine.environment["INSTAR_TRUST"] = "all"
    assert_worked(machine, run(machine))


def test_a_rule_that_logs_to_the_root_of_the_project_refuses_nothing(machine: Machine) -> None:
    machine.write(".instar/hooks.json", rules("cat >> log.jsonl && touch $INSTAR_HOOK_EVENT"))
    machine.trust()
    assert_worked(machine, run(machine))
    assert json.loads((machine.folder / "log.jsonl").read_text())["tool_name"] == "bash"
    assert (machine.folder / "PreToolUse").exists()


def test_the_first_example_of_the_hooks_page_works_as_written(machine: Machine) -> None:
    blocks = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    for name, text in blocks:
        machine.write(name, text)
    (machine.folder / "guard.sh").chmod(0o755)
    machine.trust()
    done = machine.run("run", "Tidy up")
    assert done.stdout == "Then I leave it. I am done.\nNow I am done.\n", done.stderr


def test_an_agent_rule_that_may_write_creates_files(machine: Machine) -> None:
    judge = {"type": "agent", "prompt": "Format it all.", "tools": ["bash"], "write": True}
    machine.write(".instar/hooks.json", json.dumps({"Stop": [{"hooks": [judge]}]}))
    machine.trust()
    machine.says(
        f"""
        == when "^Go"
        text: done

        == when "Format it all"
        tool: bash {json.dumps({"command": WORK})}

        == when "all done"
        tool: decide {{"decision": "allow", "reason": "formatted"}}

        == when "."
        tool: decide {{"decision": "deny", "reason": "it failed"}}
        """
    )
    done = machine.run("run", "--auto", "--model", "scripted/x", "Go")
    assert (machine.folder / "new").exists(), done.stderr
    assert not (machine.folder / "build").exists()


def test_the_folders_that_programs_have_in_a_fresh_home_can_be_filled(
    machine: Machine, tmp_path: Path
) -> None:
    home = Path(machine.environment["HOME"])
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("npm", "cargo", "go", "uv", "pip"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    machine.environment["PATH"] += f":{programs}"
    made = (".npm", ".cargo", "go/pkg", ".cache/go-build", ".cache/uv", ".cache/pip", ".local/lib/python3")
    done = run(machine, "; ".join(f"mkdir -p ~/{name} && touch ~/{name}/x" for name in made))
    assert [name for name in made if (home / name / "x").exists()] == list(made), done.stdout


def test_no_call_changes_the_persons_own_rules_and_their_programs(machine: Machine) -> None:
    home = Path(machine.environment["HOME"])
    guard = home / ".claude/hooks/guard.sh"
    guard.parent.mkdir(parents=True)
    guard.write_text("#!/bin/sh\ntrue\n")
    guard.chmod(0o755)
    settings = home / ".claude/settings.json"
    settings.write_text(rules("$HOME/.claude/hooks/guard.sh"))
    run(
        machine,
        f"echo evil > {guard}; echo evil > {settings}; rm -f {guard}; mv ~/.claude ~/.x; chmod 777 {guard}",
    )
    assert guard.read_text() == "#!/bin/sh\ntrue\n"
    assert settings.read_text() == rules("$HOME/.claude/hooks/guard.sh")
