"""Servers to connect to: two written with the official SDK, and a raw one that can misbehave in every way.

The raw one starts in a twentieth of the time, since it imports nothing. Its folder tells it what to do: ``tools.json``
is what it lists, and a line of ``log.jsonl`` is what it was sent.
"""

import asyncio
import json
import os
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.running import lives
from tests.waiting import PATIENCE

from instar.mcp import LOGINS, LaunchContext, Servers
from instar.plugin import Ask
from instar.process import Processes
from instar.settings.config import McpConfig

SDK = """
    import sys
    from mcp.server import MCPServer

    server = MCPServer("calc")

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    @server.tool()
    def fail(why: str) -> str:
        "Fail on purpose."
        raise ValueError(why)

    @server.resource("note://today", mime_type="text/plain")
    def today() -> str:
        "What is on today."
        return "buy milk"

    @server.prompt()
    def greet(name: str) -> str:
        "Greet somebody."
        return f"Say hello to {name}."

    if len(sys.argv) > 1:
        server.run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
"""

RAW = """
    import json, os, subprocess, sys, time

    mode = sys.argv[1] if len(sys.argv) > 1 else "well"

    def send(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        sys.stdout.flush()

    def call(name, arguments, request):
        if name == "die":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if name == "hang":
            return None
        if name == "busy":
            for done in range(4):
                send({"method": "notifications/progress", "params": {
                    "progressToken": request["params"]["_meta"]["progressToken"], "progress": done, "total": 4}})
                time.sleep(0.9)
        if name == "large":
            return {"content": [{"type": "text", "text": "x" * int(arguments["size"])}]}
        if name == "picture":
            return {"content": [{"type": "image", "mimeType": "image/png", "data": "aGk="}, {"type": "what"}]}
        if name == "empty":
            return {}
        if name == "nothing":
            return "done"
        if name == "rename":
            listed = json.load(open("tools.json"))
            listed[0]["description"] = arguments["to"]
            json.dump(listed, open("tools.json", "w"))
            send({"method": "notifications/tools/list_changed"})
        if name == "pid":
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
        return {"content": [{"type": "text", "text": "said " + str(arguments.get("text"))}]}

    if mode == "refuse":
        print("no key in NOTES_KEY", file=sys.stderr)
        sys.exit(7)
    if mode == "garbage":
        print("Welcome to the notes server!", flush=True)
    if mode == "family":
        child = subprocess.Popen(["sleep", "600"])
        open("child.pid", "w").write(str(child.pid))
    for line in sys.stdin:
        request = json.loads(line)
        open("log.jsonl", "a").write(line)
        if "id" not in request or mode in ("garbage", "silent"):
            continue
        method, params = request["method"], request.get("params", {})
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
                      "serverInfo": {"name": "raw", "version": "1"}}
            if mode == "wrong":
                result = {"protocolVersion": 7}
        elif method == "tools/list":
            result = {"tools": json.load(open("tools.json"))}
        elif method == "tools/call":
            result = call(params["name"], params.get("arguments", {}), request)
        else:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
            continue
        if result is not None:
            send({"id": request["id"], "result": result})
"""


def tool(name: str, description: str = "A tool.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


class Pins(dict[str, Any]):
    """What was approved, kept for the test."""

    async def get(self, key: str) -> Any:  # type: ignore[override]
        return super().get(key)

    async def set(self, key: str, value: Any) -> None:
        self[key] = value

    async def list(self, prefix: str = "") -> dict[str, Any]:
        return dict(self)


class Context:
    """What a tool is given when it runs."""

    session_id, message_id, call_id = "ses_1", "msg_1", "call_1"

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def metadata(self, *, title: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        self.shown.append(metadata or {})


class Lab:
    """A folder with servers, and what an instance would do with them."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.processes = Processes()
        self.environment = environment
        self.pins = Pins()
        self.said: list[str] = []
        self.asked: list[Ask] = []
        self.refuse = False
        self.opened: list[Servers] = []
        (folder / "sdk_server.py").write_text(textwrap.dedent(SDK))
        (folder / "raw_server.py").write_text(textwrap.dedent(RAW))
        self.offers(tool("echo"))

    def offers(self, *tools: Any) -> None:
        (self.folder / "tools.json").write_text(json.dumps(tools))

    def raw(self, *arguments: str, **more: Any) -> dict[str, Any]:
        command = [sys.executable, "raw_server.py", *arguments]
        return {"type": "local", "command": command, "timeout": 15000, **more}

    def sdk(self, **more: Any) -> dict[str, Any]:
        return {"type": "local", "command": [sys.executable, "sdk_server.py"], "timeout": 15000, **more}

    def servers(self, taken: tuple[str, ...] = (), **blocks: dict[str, Any]) -> Servers:
        configs = {name: McpConfig(**block) for name, block in blocks.items()}
        context = LaunchContext(self.processes, self.folder, self.environment, self.folder / LOGINS)
        made = Servers(configs, context, self.pins, self._approve, self.said.append, taken)
        self.opened.append(made)
        return made

    async def ready(self, taken: tuple[str, ...] = (), **blocks: dict[str, Any]) -> Servers:
        made = self.servers(taken, **blocks)
        await made.prepare("ses_1", "build")
        return made

    async def call(self, servers: Servers, name: str, **args: Any) -> str:
        return (await self.result(servers, name, **args)).output

    async def result(self, servers: Servers, name: str, context: Context | None = None, **args: Any) -> Any:
        running = servers.tools[name].execute(args, context or Context())  # type: ignore[arg-type]
        return await asyncio.wait_for(running, PATIENCE)

    def sent(self) -> list[dict[str, Any]]:
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def until(self, wanted: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not wanted():
            assert time.monotonic() < end, self.said
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        for made in self.opened:
            await made.close()
        await self.processes.close()

    async def _approve(self, session_id: str, agent: str, ask: Ask) -> None:
        self.asked.append(ask)
        if self.refuse:
            raise PermissionError("nobody is here")


@pytest.fixture
async def lab(tmp_path: Path, clean_environment: dict[str, str]) -> AsyncIterator[Lab]:
    folder = tmp_path / "lab"
    folder.mkdir()
    made = Lab(folder, dict(clean_environment))
    yield made
    await made.close()


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    return lives


@pytest.fixture
def make_tool() -> Callable[..., dict[str, Any]]:
    return tool


@pytest.fixture
def context() -> Context:
    return Context()


class Http:
    """The SDK's server as a process that serves HTTP."""

    def __init__(self, lab_folder: Path, transport: str, port: int, environment: dict[str, str]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/{'mcp' if transport == 'streamable-http' else 'sse'}"
        self._command = [sys.executable, "sdk_server.py", transport, str(port)]
        self._folder, self._environment = lab_folder, environment
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                assert time.monotonic() < end
                await asyncio.sleep(0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@pytest.fixture
async def http(lab: Lab) -> AsyncIterator[Callable[..., Http]]:
    made: list[Http] = []

    def serve(transport: str = "streamable-http") -> Http:
        made.append(Http(lab.folder, transport, free_port(), {**os.environ, **lab.environment}))
        return made[-1]

    yield serve
    for one in made:
        await one.stop()


@pytest.fixture(scope="session", autouse=True)
def _sdk_imported() -> None:
    """The first test should not pay for the import of the SDK alone."""
    import instar.mcp.link  # noqa: F401
