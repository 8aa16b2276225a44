"""What plugins in JavaScript and MCP servers start: it ends with them, and signals nothing of instar's."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.sandbox.conftest import NAP, REACHED, assert_nothing_runs, running_as
from tests.waiting import until

from instar.testing import Machine, results, said

LEAVES = f"""env -i {sys.executable} -c '
import os
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
os.closerange(0, 99)
os.execvp("sleep", ["sleep", "{NAP}"])'
"""
"""Leaves a daemon: forked twice, in a session of its own, without variables and descriptors."""
KILLS = 'kill -9 $PPID; kill -0 "$OUTSIDE" 2>/dev/null && echo OPEN || kill -9 -1'
"""Kills what started it, then all that it may, unless that is too much."""
SERVER = """
import json, os, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/call":
        subprocess.run(["bash", "-c", os.environ["LEAVES"]])
        try:
            os.kill(os.getppid(), 9)
        except PermissionError:
            content = [{"type": "text", "text": "refused"}]
    version = asked.get("params", {}).get("protocolVersion")
    initialize = {"protocolVersion": version, "capabilities": {"tools": {}}}
    initialize["serverInfo"] = {"name": "x", "version": "1"}
    tools = {"tools": [{"name": "leave", "inputSchema": {"type": "object"}}]}
    result = {"initialize": initialize, "tools/list": tools}.get(asked["method"]) or {"content": content}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
PLUGIN = """
import { spawnSync } from "node:child_process"
export const P = async () => ({
  "text.complete": async (input, output) => {
    spawnSync("bash", ["-c", process.env.LEAVES], { stdio: "ignore" })
    try { process.kill(process.ppid, "SIGKILL") } catch (error) { output.text += error.code }
    if (output.text.startsWith("last")) spawnSync("bash", ["-c", process.env.KILLS], { stdio: "ignore" })
  },
})
"""


@pytest.fixture
async def house(tmp_path: Path, clean_environment: Mapping[str, str]) -> AsyncIterator[Machine]:
    made = Machine(tmp_path, clean_environment)
    made.environment |= {"LEAVES": LEAVES, "KILLS": KILLS, "OUTSIDE": str(os.getpid())}
    yield made
    await made.close()


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_a_background_command_ends_with_its_session_and_a_daemon_of_bash_with_its_call(
    at: str, house: Machine
) -> None:
    house.settings(shield={"level": at}, permission={"*": "allow"})
    calls = [
        ("background", {"action": "start", "command": f"env -i setsid sleep {NAP}9; sleep 61"}),
        ("bash", {"command": LEAVES + "sleep 0.2"}),
        ("bash", {"command": KILLS}),
        ("bash", {"command": "echo lives"}),
    ]
    house.says(
        "".join(f"== turn\ntool: {name} {json.dumps(args)}\n" for name, args in calls) + "== turn\ntext: ok\n"
    )
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "go")) == "ok"
    assert "lives" in results(await door.stored(session))[-1]
    assert "OPEN" not in str(results(await door.stored(session)))
    assert_nothing_runs(f"sleep {NAP}")
    await until(lambda: running_as(f"sleep {NAP}9"))
    await door.runtime.close()
    assert_nothing_runs(f"sleep {NAP}9")


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_what_a_javascript_plugin_leaves_ends_with_it(at: str, house: Machine) -> None:
    house.settings(shield={"level": at})
    house.says("== turn\ntext: hi\n== turn\ntext: hi\n== turn\ntext: last\n== turn\ntext: hi\n")
    house.write(".opencode/plugin/mine.js", PLUGIN)
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "go")) == "hiEPERM"
    assert said(await door.ask(session, "go")) == "hiEPERM"
    await until(lambda: len(running_as(f"sleep {NAP}")) == 2)
    # It ends itself with what it started, and nothing else.
    assert said(await door.ask(session, "go")) == "last"
    assert_nothing_runs(f"sleep {NAP}")
    assert said(await door.ask(session, "go")) == "hiEPERM"
    await door.runtime.close()
    assert_nothing_runs(f"sleep {NAP}")


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_what_an_mcp_server_leaves_ends_with_it(at: str, house: Machine) -> None:
    path = house.write("server.py", SERVER)
    block = {"type": "local", "command": [sys.executable, str(path)]}
    house.settings(shield={"level": at}, mcp={"x": block}, permission={"*": "allow"})
    house.says("== turn\ntool: x_leave {}\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    assert results(await door.stored(session)) == ["refused"]
    await until(lambda: running_as(f"sleep {NAP}"))
    await door.runtime.close()
    assert_nothing_runs(f"sleep {NAP}")
