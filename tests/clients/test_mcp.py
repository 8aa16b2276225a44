"""MCP with other people's programs: servers of npm and PyPI used by sessions, and the inspector asking instar."""

import base64
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import COMMAND, Machine
from tests.clients.programs import PATIENCE, installed
from tests.server.conftest import LOGIN, PASSWORD, Served

INSPECTOR = "node_modules/@modelcontextprotocol/inspector-cli/build/index.js"
GROWING = """
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context

    server = MCPServer("growing")

    @server.tool()
    async def grow(context: Context) -> str:
        "Learn another tool."
        server.add_tool(grown)
        await context.session.send_tool_list_changed()
        return "grown"

    def grown() -> str:
        "The other tool."
        return "as you see"

    server.run()
"""


def program(name: str) -> str:
    return str(installed() / "node_modules" / ".bin" / name)


@pytest.fixture
def machine(tmp_path: Path, clean_environment: Mapping[str, str]) -> Machine:
    made = Machine(tmp_path, clean_environment)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    made.write("notes.txt", "buy milk\n")
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "the first"]):
        subprocess.run([*git, *command], cwd=made.project, env=made.environment, check=True)
    settings = {"model": "scripted/test", "mcp": servers(made), "permission": {"*": "allow"}}
    made.write_home("instar.json", json.dumps(settings))
    return made


def servers(machine: Machine) -> dict[str, Any]:
    growing = machine.home / "growing.py"
    growing.write_text(textwrap.dedent(GROWING))
    git = [sys.executable, "-m", "mcp_server_git", "--repository", str(machine.project)]
    blocks: dict[str, Any] = {
        "files": {"command": [program("mcp-server-filesystem"), str(machine.project)]},
        "everything": {"command": [program("mcp-server-everything")]},
        "git": {"command": git, "environment": {"PYTHONPATH": str(installed() / "mcp")}},
        "growing": {"command": [sys.executable, str(growing)]},
    }
    return {name: {"type": "local", "timeout": 60_000, **block} for name, block in blocks.items()}


def calling(*calls: tuple[str, dict[str, Any]]) -> str:
    """A story in which the model calls these tools, a step each, and then says what the last one answered."""
    steps = [f"== turn\ntool: {name} {json.dumps(given)}\n" for name, given in calls]
    return "".join([*steps, "== turn\ntext: It says {{tool}}\n"])


def said(machine: Machine, *calls: tuple[str, dict[str, Any]]) -> str:
    machine.script(calling(*calls))
    done = machine.instar("run", "go")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_of_them_connect_after_a_plain_install(machine: Machine) -> None:
    listed = machine.instar("mcp", "list").stdout
    for line in ("files  connected", "everything  connected", "git  connected", "growing  connected"):
        assert line in listed
    for line in ("  files_read_text_file", "  everything_echo", "  /everything:args-prompt", "  git_git_log"):
        assert f"{line}\n" in listed
    assert "left out" not in listed


def test_a_session_writes_and_reads_files_with_server_filesystem(machine: Machine) -> None:
    place = str(machine.project / "made.txt")
    written = ("files_write_file", {"path": place, "content": "buy bread"})
    assert "buy bread" in said(machine, written, ("files_read_text_file", {"path": place}))
    assert Path(place).read_text() == "buy bread"
    outside = said(machine, ("files_read_text_file", {"path": "/etc/hostname"}))
    assert "outside allowed directories" in outside


def test_a_session_reads_and_commits_with_mcp_server_git(machine: Machine) -> None:
    place = str(machine.project)
    assert "the first" in said(machine, ("git_git_log", {"repo_path": place}))
    machine.write("more.txt", "more\n")
    added = ("git_git_add", {"repo_path": place, "files": ["more.txt"]})
    machine.environment |= {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
    machine.environment |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
    said(machine, added, ("git_git_commit", {"repo_path": place, "message": "the second"}))
    assert "the second" in said(machine, ("git_git_log", {"repo_path": place}))


def test_a_session_uses_the_tools_resources_and_prompts_of_server_everything(machine: Machine) -> None:
    assert "42" in said(machine, ("everything_get-sum", {"a": 2, "b": 40}))
    assert "Echo: hi" in said(machine, ("everything_echo", {"message": "hi"}))
    uri = "demo://resource/static/document/features.md"
    assert uri in said(machine, ("list_mcp_resources", {"server": "everything"}))
    read = said(machine, ("read_mcp_resource", {"server": "everything", "uri": uri}))
    assert "Everything Server" in read
    record = machine.home / "record.jsonl"
    machine.environment["INSTAR_SCRIPT_RECORD"] = str(record)
    machine.script("== turn\ntext: Cold.\n")
    done = machine.instar("run", "--command", "everything:args-prompt", "Oslo", "Norway")
    assert (done.returncode, done.stdout) == (0, "Cold.\n")
    assert "What's weather in Oslo, Norway?" in record.read_text()


def test_a_tool_that_a_server_adds_is_there_for_the_next_step(machine: Machine) -> None:
    assert said(machine, ("growing_grow", {}), ("growing_grown", {})) == "It says as you see\n"


@pytest.fixture
def served(machine: Machine) -> Iterator[Callable[[str], Served]]:
    started: list[Served] = []

    def start(story: str) -> Served:
        machine.script(story)
        machine.environment["INSTAR_SERVER_PASSWORD"] = PASSWORD
        started.append(Served([], machine.project, machine.environment))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_how_far_a_call_is_can_be_followed(served: Callable[[str], Served]) -> None:
    slow = ("everything_trigger-long-running-operation", {"duration": 1, "steps": 4})
    server = served(calling(slow, ("everything_get-tiny-image", {})))
    session = server.session()
    with server.events() as events:
        server.ask(session, path="prompt_async")
        states = []
        for event in events:
            if event["type"] == "session.idle":
                break
            part = event["properties"].get("part", {})
            if part.get("type") == "tool":
                states.append(part["state"])
    followed = [state.get("metadata", {}).get("progress") for state in states if state["status"] == "running"]
    assert {1, 2, 3} & set(followed), states
    (picture,) = [one for state in states for one in state.get("attachments", [])][-1:]
    assert picture["mime"] == "image/png"


def inspected(machine: Machine, *arguments: str) -> Any:
    """What the inspector prints."""
    done = subprocess.run(
        ["node", str(installed() / INSPECTOR), *arguments],
        cwd=machine.project,
        env={**os.environ, **machine.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_asks_instar_on_stdio_and_over_http(
    machine: Machine, served: Callable[[str], Served]
) -> None:
    server = served("== turn\ntext: hello\n")
    basic = base64.b64encode(":".join(LOGIN).encode()).decode()
    over_http = (
        f"{server.url}/instar/mcp",
        *("--transport", "http", "--header", f"Authorization: Basic {basic}"),
    )
    for door in ((*COMMAND, "mcp", "serve"), over_http):
        listed = inspected(machine, *door, "--method", "tools/list")["tools"]
        assert [one["name"] for one in listed] == ["start", "continue", "status", "result", "abort"]
        called = inspected(
            machine, *door, "--method", "tools/call", "--tool-name", "start", "--tool-arg", "prompt=go"
        )
        assert called["structuredContent"]["answer"] == "hello", called
        resources = inspected(machine, *door, "--method", "resources/list")["resources"]
        assert [one["uri"] for one in resources] == ["instar://evolve/log"]
