"""Files of rules as Claude Code's and OpenHands' documents write them, unmodified, with the scripts they name."""

import json
from pathlib import Path
from typing import Any

import pytest

CLAUDE = """{
  "permissions": { "allow": ["Bash(npm run lint)"], "deny": ["Read(./.env)"] },
  "env": { "FOO": "bar" },
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          { "type": "command", "if": "Bash(rm *)", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/hooks/block-rm.sh" }
        ]
      },
      {
        "matcher": "Edit|Write",
        "hooks": [{ "type": "command", "command": "python3 .claude/hooks/protect.py", "timeout": 10 }]
      }
    ],
    "PostToolUse": [
      {
        "matcher": "Write|Edit",
        "hooks": [{ "type": "command", "command": "python3 \\"$CLAUDE_PROJECT_DIR/.claude/hooks/style.py\\"" }]
      }
    ],
    "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": "python3 .claude/hooks/prompt.py" }] }],
    "SessionStart": [{ "matcher": "startup|resume", "hooks": [{ "command": "echo 'Branch: main'" }] }],
    "Stop": [{ "hooks": [{ "type": "command", "command": "python3 .claude/hooks/stop.py" }] }],
    "Notification": [{ "matcher": "idle_prompt", "hooks": [{ "type": "command", "command": "touch idle" }] }]
  }
}
"""
BLOCK_RM = """#!/bin/bash
COMMAND=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["tool_input"]["command"])')
if [[ "$COMMAND" == *"rm -rf"* ]]; then
  echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
    "permissionDecisionReason": "rm -rf is blocked"}}'
fi
exit 0
"""
PROTECT = """
import json, sys
data = json.load(sys.stdin)
path = data["tool_input"]["file_path"]
assert data["hook_event_name"] == "PreToolUse" and path.startswith(data["cwd"] + "/"), data
if path.endswith(".env"):
    print(f"{path} is protected", file=sys.stderr)
    sys.exit(2)
"""
STYLE = """
import json, sys
data = json.load(sys.stdin)
if "TODO" in data["tool_input"].get("content", ""):
    print(json.dumps({"decision": "block", "reason": "Resolve the TODO first",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "The style guide is in STYLE.md"}}))
"""
PROMPT = """
import json, sys
data = json.load(sys.stdin)
if "password" in data["prompt"]:
    print(json.dumps({"decision": "block", "reason": "Prompts must hold no password"}))
else:
    print("The time is noon")
"""
STOP = """
import json, sys
data = json.load(sys.stdin)
if not data["stop_hook_active"]:
    print(json.dumps({"decision": "block", "reason": "Run the tests: you said " + data["last_assistant_message"]}))
"""

OPENHANDS = """{
  "session_start": [{ "hooks": [{ "command": "echo started > started.txt" }] }],
  "pre_tool_use": [
    {
      "matcher": "terminal",
      "hooks": [{ "type": "command", "command": ".openhands/hooks/block_dangerous.sh", "timeout": 10 }]
    }
  ],
  "post_tool_use": [{ "matcher": "*", "hooks": [{ "type": "command", "command": ".openhands/hooks/log.sh" }] }],
  "user_prompt_submit": [{ "hooks": [{ "type": "command", "command": ".openhands/hooks/inject.sh" }] }],
  "stop": [{ "hooks": [{ "type": "command", "command": ".openhands/hooks/require_summary.sh", "name": "summary" }] }],
  "session_end": [{ "hooks": [{ "type": "command", "command": "cat > end.json", "async": true }] }]
}
"""
SCRIPTS = {
    "block_dangerous.sh": """#!/bin/bash
input=$(cat)
if [[ "$OPENHANDS_TOOL_NAME" == terminal && "$input" =~ rm\\ -rf ]]; then
    echo '{"decision": "deny", "reason": "Dangerous command blocked"}'
    exit 2
fi
""",
    "log.sh": """#!/bin/sh
cat >> log.jsonl; echo "$OPENHANDS_EVENT_TYPE $OPENHANDS_SESSION_ID" >> log.txt
""",
    "inject.sh": """#!/bin/sh
echo '{"decision": "allow", "additionalContext": "It is the main branch"}'
""",
    "require_summary.sh": """#!/bin/sh
if [ ! -f summary.md ]; then
    echo '{"decision": "deny", "additionalContext": "Create summary.md first"}'
    exit 2
fi
""",
}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_settings_file_of_claude_code_runs_as_it_stands(person: Any) -> None:
    write(person.project / ".claude/settings.json", CLAUDE)
    hooks = {
        "block-rm.sh": BLOCK_RM,
        "protect.py": PROTECT,
        "style.py": STYLE,
        "prompt.py": PROMPT,
        "stop.py": STOP,
    }
    for name, text in hooks.items():
        write(person.project / ".claude/hooks" / name, text)
    ran = person.run(
        """
        == turn
        tool: bash {"command": "cd . && rm -rf build"}
        tool: bash {"command": "echo fine"}
        tool: write {"filePath": ".env", "content": "A=1"}
        tool: write {"filePath": "a.py", "content": "# TODO"}

        == turn
        text: I am done.

        == turn
        text: The tests pass.
        """,
        "--auto",
        INSTAR_TRUST="all",
    )
    assert ran.stdout == "I am done.\nThe tests pass.\n"
    refused, fine, protected, written = person.results()
    assert refused.endswith("rm -rf is blocked")
    assert fine == "fine\n"
    assert protected.endswith(f"{person.project}/.env is protected")
    assert "Resolve the TODO first" in written
    assert "The style guide is in STYLE.md" in written
    assert not (person.project / ".env").exists()
    first, second = person.said()
    assert first.index("hi") < first.index("Branch: main") < first.index("The time is noon")
    assert second.endswith("Run the tests: you said I am done.")
    assert ran.logged("hooks=problem") == []


@pytest.mark.slow
def test_a_prompt_that_claude_codes_rule_refuses_ends_the_run_with_its_reason(person: Any) -> None:
    write(person.project / ".claude/settings.json", CLAUDE)
    write(person.project / ".claude/hooks/prompt.py", PROMPT)
    person.tell("== turn\ntext: never")
    ran = person.instar("run", "-m", "scripted/x", "my password is x", code=None, INSTAR_TRUST="all")
    assert ran.code != 0
    assert "Prompts must hold no password" in ran.stderr
    assert person.requests() == []


@pytest.mark.slow
def test_a_hooks_file_of_openhands_runs_as_it_stands(person: Any) -> None:
    write(person.project / ".openhands/hooks.json", OPENHANDS)
    for name, text in SCRIPTS.items():
        write(person.project / ".openhands/hooks" / name, text)
    ran = person.run(
        """
        == turn
        tool: bash {"command": "rm -rf build"}

        == turn
        text: I am done.

        == turn
        tool: write {"filePath": "summary.md", "content": "All is well."}

        == turn
        text: There it is.
        """,
        "--auto",
        INSTAR_TRUST="all",
    )
    assert ran.stdout == "I am done.\nThere it is.\n"
    assert person.results()[0].endswith("Dangerous command blocked")
    first, second = person.said()
    assert "It is the main branch" in first
    assert "Create summary.md first" in second
    (logged,) = lines(person.project / "log.jsonl")
    assert logged["event_type"] == "PostToolUse"
    assert logged["tool_name"] == "file_editor"
    assert logged["tool_input"]["path"] == str(person.project / "summary.md")
    assert logged["tool_response"]["is_error"] is False
    assert (person.project / "log.txt").read_text().startswith("PostToolUse ses_")
    assert (person.project / "started.txt").read_text() == "started\n"
    assert json.loads((person.project / "end.json").read_text())["event_type"] == "SessionEnd"


def test_rules_of_a_folder_that_is_not_trusted_are_named_and_do_not_run(person: Any) -> None:
    write(person.project / ".openhands/hooks.json", '{"stop": [{"hooks": [{"command": "touch ran"}]}]}')
    ran = person.run("== turn\ntext: done", INSTAR_TRUST="none")
    assert not (person.project / "ran").exists()
    assert ran.logged("hooks=problem", "nobody trusted the folder")


@pytest.mark.slow
def test_a_rule_of_evolve_refuses_a_candidate_before_it_is_installed(person: Any) -> None:
    rule = {
        "matcher": "hooks/bot.sh",
        "hooks": [{"command": "cat > told.json; echo 'not on a Sunday' >&2; exit 2"}],
    }
    person.config(evolve={"unsafe": True, "create": "allow"}, hooks={"Evolve": [rule]})
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    person.commit_all()
    said = '{"name": "bot", "test": "bot_test.sh", "tools": []}'
    unknown = """echo '{"error": "unknown hook: '$1'"}'; exit 1"""
    content = json.dumps(f"#!/bin/sh\ncase $1 in\ndiscover) echo '{said}';;\n*) {unknown};;\nesac\n")
    person.run(
        f"""
        == turn
        tool: evolve_hook_write {{"hook": "bot.sh", "content": {content}}}

        == turn
        text: done
        """,
        "--auto",
    )
    (result,) = person.results()
    assert "not on a Sunday" in result
    assert not (person.root / "hooks/bot.sh").exists()
    told = json.loads((person.project / "told.json").read_text())
    assert (told["files"], told["before"], told["after"]) == (["hooks/bot.sh"], None, json.loads(content))
    assert told["tool"] == "evolve_hook_write"
