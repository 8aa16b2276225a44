"""``instar mcp serve``: another agent's side of it, played by the official client."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from tests.cli.conftest import Machine
from tests.server.conftest import LOGIN
from tests.waiting import SOON, until

ASK = {"permission": {"bash": "ask"}, "model": "scripted/test"}
CALLS = '== turn\ntool: bash {"command": "touch made"}\n== turn\ntext: Done.\n'


@asynccontextmanager
async def connected(
    machine: Machine, *arguments: str, script: str = "== turn\ntext: yes\n", settings: Any = ASK
) -> AsyncIterator[ClientSession]:
    """Start `instar mcp serve`; `script` is what its model says."""
    machine.script(script)
    machine.write_home("instar.json", json.dumps(settings))
    served = StdioServerParameters(
        command=sys.executable,
        args=["-m", "instar", "mcp", "serve", *arguments],
        env=machine.environment,
        cwd=machine.project,
    )
    async with stdio_client(served) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(there: ClientSession, tool: str, **arguments: Any) -> Any:
    """What a tool answers; the words of its error where it has one."""
    found = await there.call_tool(tool, arguments)
    return found.content[0].text if found.is_error else found.structured_content  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_session_is_started_and_gone_on_with(machine: Machine) -> None:
    async with connected(machine, script="== turn\ntext: First.\n== turn\ntext: Second.\n") as there:
        begun = await call(there, "start", prompt="go")
        assert begun["state"] == "idle"
        assert begun["answer"] == "First."
        session = begun["session"]
        assert (await call(there, "continue", session=session, prompt="on"))["answer"] == "Second."
        assert (await call(there, "result", session=session))["answer"] == "Second."
        assert "Session not found" in await call(there, "status", session="ses_none")
        assert "answer" not in [one.name for one in (await there.list_tools()).tools]


@pytest.mark.slow
async def test_what_the_model_asks_is_refused_unless_the_other_agent_may_answer(machine: Machine) -> None:
    async with connected(machine, script=CALLS) as there:
        assert (await call(there, "start", prompt="go"))["answer"] == "Done."
        assert not (machine.project / "made").exists()
    async with connected(machine, "--answers", script=CALLS) as there:
        begun = await call(there, "start", prompt="go")
        (waiting,) = begun["waits_for"]
        assert (begun["state"], waiting["permission"], waiting["shown"]) == ("busy", "bash", "touch made")
        assert not (machine.project / "made").exists()
        await call(there, "answer", request=waiting["request"], allow=True)
        assert (await call(there, "result", session=begun["session"]))["answer"] == "Done."
        assert (machine.project / "made").exists()
        assert "nothing waits" in await call(there, "answer", request=waiting["request"], allow=True)
        # Once is not for ever.
        assert (await call(there, "start", prompt="go"))["waits_for"]


@pytest.mark.slow
async def test_what_steers_is_answered_by_no_other_agent(machine: Machine) -> None:
    settings = {"tools": {"self_evolution": True}, "permission": {"self": "ask"}, "model": "scripted/test"}
    async with connected(
        machine,
        "--answers",
        settings=settings,
        script='== turn\ntool: self {"action": "inspect"}\n== turn\ntext: Done.\n',
    ) as there:
        begun = await call(there, "start", prompt="go")
        (waiting,) = begun["waits_for"]
        assert waiting["permission"] == "self"
        said = await call(there, "answer", request=waiting["request"], allow=True)
        assert "only a person answers it" in said
        assert (await call(there, "status", session=begun["session"]))["waits_for"] == [waiting]


@pytest.mark.slow
async def test_what_would_run_later_is_put_aside_without_asking_the_other_agent(machine: Machine) -> None:
    subprocess.run(["git", "init", "-q", machine.project], check=True, env=machine.environment)
    call_of = json.dumps({"command": "echo lint > .git/hooks/pre-commit"})
    script = f"== turn\ntool: bash {call_of}\n== turn\ntext: Done.\n"
    settings = {"model": "scripted/test"}
    async with connected(machine, "--answers", script=script, settings=settings) as there:
        assert (await call(there, "start", prompt="go"))["answer"] == "Done."
    assert not (machine.project / ".git/hooks/pre-commit").exists()


@pytest.mark.slow
async def test_a_long_task_goes_on_when_the_tool_has_returned_and_is_aborted(machine: Machine) -> None:
    async with connected(
        machine,
        script='== turn\ntool: bash {"command": "sleep 3456.5"}\n',
        settings={"model": "scripted/test"},
    ) as there:
        begun = await call(there, "start", prompt="go", wait=0)
        assert begun["state"] == "busy"
        await until(lambda: machine.runs("sleep 3456.5"))
        assert (await call(there, "status", session=begun["session"]))["state"] == "busy"
        ended = await call(there, "abort", session=begun["session"])
        assert ended["state"] == "idle"
        assert "abort" in ended["error"].lower()
        assert not machine.runs("sleep 3456.5")


@pytest.mark.slow
async def test_a_session_of_another_folder_is_none_of_theirs(machine: Machine) -> None:
    machine.script("== turn\ntext: Elsewhere.\n")
    (other := machine.home / "other").mkdir()
    machine.instar("run", "-m", "scripted/test", "hi", cwd=other)
    (listed,) = json.loads(machine.instar("session", "list", "--json", cwd=other).stdout)
    async with connected(machine, script="== turn\ntext: no\n") as there:
        assert "is one of" in await call(there, "continue", session=listed["id"], prompt="go")
        assert "say PROVIDER/MODEL" in await call(there, "start", prompt="go", model="nonsense")
        assert "no-such" in await call(there, "start", prompt="go", agent="no-such")


@pytest.mark.slow
async def test_evolution_can_be_read(machine: Machine) -> None:
    workspace = machine.home / "workspace"
    machine.instar("init", str(workspace))
    machine.environment["INSTAR_WORKSPACE"] = str(workspace)
    async with connected(machine, script="== turn\ntext: yes\n") as there:
        await call(there, "start", prompt="go")
        assert [str(one.uri) for one in (await there.list_resources()).resources] == ["instar://evolve/log"]
        read = await there.read_resource("instar://evolve/log")  # type: ignore[arg-type]
        changes = json.loads(read.contents[0].text)["changes"]  # type: ignore[union-attr]
        shown = await there.read_resource(f"instar://evolve/log/{changes[0]['commit']}")  # type: ignore[arg-type]
        assert "diff" in json.loads(shown.contents[0].text)  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="nosuch"):
            await there.read_resource("instar://evolve/log/nosuch")  # type: ignore[arg-type]


@pytest.mark.slow
async def test_sessions_of_a_server_are_served(machine: Machine, serve: Callable[..., Any]) -> None:
    server = serve(script="== turn\ntext: From there.\n")
    (server.directory / "opencode.json").write_text('{"model": "scripted/test"}')
    machine.environment["INSTAR_SERVER_PASSWORD"] = LOGIN[1]
    async with connected(machine, "--attach", server.url, "--dir", str(server.directory)) as there:
        assert (await call(there, "start", prompt="go"))["answer"] == "From there."


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["signal", "end"])
async def test_an_agent_that_goes_away_ends_its_turns(machine: Machine, leaves: str) -> None:
    machine.script('== turn\ntool: bash {"command": "sleep 5678.5"}\n')
    machine.write_home("instar.json", '{"model": "scripted/test"}')
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "instar", "mcp", "serve"),
        env=machine.environment,
        cwd=machine.project,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
    )
    assert process.stdin is not None
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    lines = [
        b"garbage",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "start", "arguments":'
        b' {"prompt": "go"}}}',
    ]
    process.stdin.write(b"\n".join(lines) + b"\n")
    await until(lambda: machine.runs("sleep 5678.5"))
    if leaves == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdin.close()
    await asyncio.wait_for(process.wait(), SOON)
    assert not machine.runs("sleep 5678.5")
    process._transport.close()  # type: ignore[attr-defined]


WORDS = """#!/usr/bin/env python3
import json
import sys

given = sys.stdin.read()
if sys.argv[1] == "discover":
    tool = {
        "name": "count",
        "description": "Count words.",
        "parameters": {"text": {"type": "string", "description": "The text."}},
    }
    print(json.dumps({"name": "words", "test": "words_test.sh", "hooks": ["execute_tool"], "tools": [tool]}))
elif sys.argv[1] == "execute_tool":
    print(json.dumps({"result": str(len(json.loads(given)["args"]["text"].split()))}))
"""


@pytest.mark.slow
async def test_tools_of_the_workspace_are_offered_where_they_are_asked_for(machine: Machine) -> None:
    workspace = machine.home / "workspace"
    for name, text in (("hooks/words.py", WORDS), ("tests/words_test.sh", "#!/bin/sh\nexit 0\n")):
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    machine.environment["INSTAR_WORKSPACE"] = str(workspace)
    settings = {"model": "scripted/test", "permission": {"words_count": {"*": "allow"}}}
    async with connected(machine, settings=settings) as there:
        assert "words_count" not in [one.name for one in (await there.list_tools()).tools]
        assert "there is no tool" in await call(there, "words_count", text="a b c")
    async with connected(machine, "--tools", settings=settings) as there:
        (tool,) = [one for one in (await there.list_tools()).tools if one.name.endswith("count")]
        assert (tool.name, tool.description) == ("words_count", "Count words.")
        found = await there.call_tool("words_count", {"text": "a b c"})
        assert found.content[0].text == "3"  # type: ignore[union-attr]
        assert "text" in await call(there, "words_count", text=3)
        # What steers is none of them.
        assert "there is no tool" in await call(there, "words_hook_write", file="x")
    settings["permission"] = {"words_count": {"*": "ask"}}
    async with connected(machine, "--tools", settings=settings) as there:
        assert "refused" in await call(there, "words_count", text="a b c")
    async with connected(machine, "--tools", "--answers", settings=settings) as there:
        begun = await call(there, "words_count", text="a b c")
        (waiting,) = begun["waits_for"]
        assert waiting["permission"] == "words_count"
        await call(there, "answer", request=waiting["request"], allow=True)
        assert (await call(there, "result", session=begun["session"]))["answer"] == "3"
