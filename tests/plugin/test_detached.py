"""What a plugin or an MCP server starts and detaches ends with it, also where children run as they are."""

import shutil
import signal
import sys
from pathlib import Path

import pytest
from tests.running import lives
from tests.server.conftest import PASSWORD, Served
from tests.turn import house
from tests.waiting import until, wait_until

from instar.testing import Machine, results, said

__all__ = ["house"]

PYTHON = """
    import subprocess

    async def p(given, options=None):
        async def complete(given_, output):
            command = 'sleep 600 & echo $! >> "$0"; exec sleep 600'
            child = subprocess.Popen(["sh", "-c", command, str(given.directory / "pids")], start_new_session=True)
            with open(given.directory / "pids", "a") as file:
                file.write(f"{child.pid}\\n")
        return {"text.complete": complete}
"""
JAVASCRIPT = """
import { spawn } from "node:child_process"
export const P = async ({ directory }) => ({ "text.complete": async () => {
  const command = 'echo $$ >> "$0"; (setsid sleep 600 & echo $! >> "$0"); exec sleep 600'
  spawn("sh", ["-c", command, directory + "/pids"], { detached: true, stdio: "ignore" }).unref()
} })
"""
SERVER = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/call":
        command = 'echo $$ >> pids; (setsid sleep 600 & echo $! >> pids); exec sleep 600'
        subprocess.Popen(["sh", "-c", command], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
        if asked["params"]["name"] == "die":
            while not os.path.exists("pids") or len(open("pids").read().split()) < 2:
                time.sleep(0.01)
            sys.exit(3)
    version = asked.get("params", {}).get("protocolVersion")
    initialize = {"protocolVersion": version, "capabilities": {"tools": {}}}
    initialize["serverInfo"] = {"name": "x", "version": "1"}
    tools = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("leave", "die")]}
    result = {"initialize": initialize, "tools/list": tools}.get(asked["method"]) or {"content": []}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
KINDS = ["python", *(["javascript"] if shutil.which("node") else []), "mcp"]


def detaching(house: Machine, kind: str, tool: str = "leave") -> None:
    house.settings(shield={"level": "none"}, permission={"*": "allow"})
    house.says("== turn\ntext: done\n")
    if kind == "python":
        house.plugin(PYTHON)
    elif kind == "javascript":
        house.write(".opencode/plugin/mine.js", JAVASCRIPT)
    else:
        block = {"type": "local", "command": [sys.executable, str(house.write("server.py", SERVER))]}
        house.settings(shield={"level": "none"}, permission={"*": "allow"}, mcp={"x": block})
        house.says(f"== turn\ntool: x_{tool} {{}}\n== turn\ntext: done\n")


def left(folder: Path) -> list[int]:
    """The processes that were detached: two of each."""
    path = folder / "pids"
    found = [int(one) for one in path.read_text().split()] if path.exists() else []
    return found if len(found) >= 2 else []


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_it_ends_with_the_instance(house: Machine, kind: str) -> None:
    detaching(house, kind)
    door = await house.open()
    assert said(await door.ask(await door.session(), "go")) == "done"
    pids = await until(lambda: left(house.folder))
    assert all(map(lives, pids))
    await door.runtime.close()
    await until(lambda: not any(map(lives, pids)))


async def test_it_ends_with_a_server_that_dies(house: Machine) -> None:
    detaching(house, "mcp", "die")
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    assert "exit code 3" in results(await door.stored(session))[0]
    pids = await until(lambda: left(house.folder))
    await until(lambda: not any(map(lives, pids)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_a_server_of_instar(house: Machine, kind: str, how: signal.Signals) -> None:
    detaching(house, kind)
    served = Served([], house.folder, {**house.environment, "INSTAR_SERVER_PASSWORD": PASSWORD})
    try:
        session = served.session()
        served.ask(session, "go")
        pids = wait_until(lambda: left(house.folder))
        assert all(map(lives, pids))
    finally:
        served.stop(how)
    wait_until(lambda: not any(map(lives, pids)))
