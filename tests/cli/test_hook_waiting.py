"""A hook that takes long is named: in the rows of a terminal, or in a line on standard error."""

import json
import shutil

import pytest

NAP = 2.6
"""Seconds that a hook here takes."""
PYTHON = f"""
import asyncio

async def server(input, options=None):
    async def nap(given, output):
        await asyncio.sleep({NAP})
    return {{"tool.execute.after": nap}}
"""
JAVASCRIPT = f"""
export default async () => ({{
  "chat.message": async () => {{ await new Promise((done) => setTimeout(done, {NAP * 1000})) }},
}})
"""
SCRIPT = f"""#!/bin/sh
if test "$1" = tool_before; then sleep {NAP}; fi
if test "$1" != discover; then echo '[]'; fi
"""
CALL = '== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: done\n'


@pytest.fixture
def slow_rule(machine):
    """A rule that naps before each call."""
    rules = {"PreToolUse": [{"hooks": [{"command": f"sleep {NAP}", "name": "lint.sh"}]}]}
    machine.write_home("instar.json", json.dumps({"hooks": rules}))
    machine.script(CALL)


@pytest.mark.slow
def test_each_kind_of_hook_is_named_once_in_a_pipe(machine, slow_rule, tmp_path):
    script = tmp_path / "mine/workspace/hooks/lint.sh"
    machine.instar("init", str(tmp_path / "mine"))
    (script.parent / "own.py").unlink()
    script.write_text(SCRIPT)
    script.chmod(0o755)
    machine.write_home("plugins/nap.py", PYTHON)
    named = ["lint.sh (PreToolUse)", "hooks/lint.sh (tool_before)", "nap (tool.execute.after)"]
    if shutil.which("node"):
        machine.write_home("plugins/idle.js", JAVASCRIPT)
        named.insert(0, "idle (chat.message)")
    done = machine.run("--dir", str(tmp_path / "mine"), "hi")
    said = [line for line in done.stderr.splitlines() if "waiting for the hook" in line]
    assert sorted(said) == sorted(f"instar: waiting for the hook {name}" for name in named)
    assert done.stdout == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "chat"])
def test_on_a_terminal_its_seconds_are_counted_while_it_is_waited_for(machine, slow_rule, screen, command):
    terminal = screen(command, "-m", "scripted/test", *(["hi"] if command == "run" else []))
    if command == "chat":
        terminal.wait_until(lambda: any(row.startswith("instar; /help") for row in terminal.rows))
        terminal.type("hi\r")
    terminal.wait_until(lambda: any("hook lint.sh (PreToolUse) 2 s" in row for row in terminal.rows))
    terminal.wait_until(lambda: "done" in terminal.rows)
    assert not any("lint.sh" in row for row in terminal.rows)


def test_a_hook_that_is_quick_is_not_named(machine, screen):
    rules = {"PreToolUse": [{"hooks": [{"command": "true", "name": "lint.sh"}]}]}
    machine.write_home("instar.json", json.dumps({"hooks": rules}))
    machine.script(CALL)
    assert "lint.sh" not in machine.run("hi").stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "chat"])
def test_what_is_said_while_the_event_loop_stands_leaves_no_row_behind(machine, screen, command):
    machine.write_home(
        "plugins/stuck.py",
        PYTHON.replace("await asyncio.sleep", "__import__('time').sleep(10) or await asyncio.sleep"),
    )
    machine.script(CALL)
    terminal = screen(command, "-m", "scripted/test", *(["hi"] if command == "run" else []))
    if command == "chat":
        terminal.wait_until(lambda: any(row.startswith("instar; /help") for row in terminal.rows))
        terminal.type("hi\r")
    terminal.wait_until(lambda: any(row.startswith("instar: nothing has gone on") for row in terminal.rows))
    assert "done" not in terminal.rows
    terminal.wait_until(lambda: "done" in terminal.rows)
    at = next(at for at, row in enumerate(terminal.rows) if row.startswith("instar: nothing has gone on"))
    assert not any("Ctrl-C ends" in row for row in terminal.rows[: at + 1])
