"""What the tests stand on: a real workspace, real scripts, and small concrete hosts for the plugin."""

import asyncio
import json
import shutil
import subprocess
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from instar.message import WithParts, decode_with_parts
from instar.plugin import Host, PluginInput, Project, Registry, ToolResult, points
from instar.plugins.evolve.ledger.own import Unkept
from instar.plugins.evolve.server import server
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

EXAMPLE = Path(__file__).parents[3] / "examples" / "hello"

SEED_MINIMAL = """\
#!/usr/bin/env python3
import json, sys

HOOKS = {}

def hook(fn):
    HOOKS[fn.__name__] = fn
    return fn

@hook
def discover(ctx):
    return {"name": "mybot", "test": "mybot_test.py", "tools": []}

@hook
def mutate_request(ctx):
    return {"system": ["you are a helpful assistant."]}

if __name__ == "__main__":
    h = HOOKS.get(sys.argv[1])
    if not h:
        print(json.dumps({"error": f"unknown hook: {sys.argv[1]}"}))
        sys.exit(1)
    ctx = json.loads(sys.stdin.read() or "{}")
    result = h(ctx)
    for key, value in result.items():
        print(json.dumps({key: value}), flush=True)
"""
"""The minimal Python hook of opencode-evolve's README."""


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """Write an executable file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text))
    path.chmod(mode)
    return path


def shell(root: Path, name: str, **answers: str) -> Path:
    """Write a hook script that answers each hook with the given lines, and knows no other. Quick to start.

    What it was given is kept in ``calls/<script>.<hook>`` beside the workspace, a line per call.
    """
    calls = root.parent / "calls"
    calls.mkdir(exist_ok=True)
    cases = "".join(f"{hook}) cat <<'END'\n{lines}\nEND\n;;\n" for hook, lines in answers.items())
    text = (
        f'#!/bin/sh\n{{ cat; echo; }} >>"{calls}/{name}.$1"\ncase "$1" in\n{cases}'
        """*) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;\nesac\n"""
    )
    return script(root / "hooks", name, text)


def git(root: Path, *args: str) -> str:
    """Run git as a person would."""
    return subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=True).stdout


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its mode and bytes, ``.git`` left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and ".git" not in path.relative_to(root).parts:
            found[str(path.relative_to(root))] = (path.stat().st_mode, path.read_bytes())
    return found


class Kit:
    """The functions of this file, since a test file cannot import it."""

    SEED_MINIMAL = SEED_MINIMAL
    script = staticmethod(script)
    shell = staticmethod(shell)
    git = staticmethod(git)
    files = staticmethod(files)

    @property
    def host(self) -> Any:
        return Peer, Unkept, plugin_input

    user = staticmethod(lambda *args, **fields: user(*args, **fields))
    answer = staticmethod(lambda *args, **fields: answer(*args, **fields))
    context = staticmethod(lambda: Context(Peer()))

    @staticmethod
    def calls(root: Path, name: str, hook: str) -> list[dict[str, Any]]:
        """What a `shell` script was given, call by call."""
        path = root.parent / "calls" / f"{name}.{hook}"
        return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's own git settings, which no test may read from the machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("INSTAR_WORKSPACE", "OPENCODE_EVOLVE_WORKSPACE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace."""
    root = tmp_path / "ws"
    (root / "hooks").mkdir(parents=True)
    return root


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A copy of the example workspace."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "hello"))


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    found = Processes()
    yield found
    await found.close()


class Sessions:
    """Sessions with a fixed history; follow-ups are kept."""

    def __init__(self) -> None:
        self.history: list[WithParts] = []
        self.follow_ups: list[tuple[str, dict[str, Any], str]] = []

    async def messages(self, session_id: str, limit: int | None = None) -> Any:
        return self.history

    async def follow_up(self, session_id: str, body: Any, source: str) -> None:
        self.follow_ups.append((session_id, body, source))


class Peer:
    """The client of a host that does nothing else."""

    def __init__(self) -> None:
        self.session = Sessions()
        self.published: list[Any] = []
        self.permissions: list[Any] = []
        self.titles: list[str] = []

    async def rules(self, agent: str = "", session_id: str = "") -> list[Any]:
        return self.permissions

    async def publish(self, event: Any) -> None:
        self.published.append(event)


class Context:
    """What a running tool is given."""

    def __init__(self, client: Peer, session_id: str = "ses_1") -> None:
        self.session_id, self.message_id, self.call_id, self.agent = session_id, "msg_1", "call_1", "build"
        self.client = client
        self.abort = asyncio.Event()

    def metadata(self, *, title: str) -> None:
        self.client.titles.append(title)


class Running:
    """evolve at work in a host: its hooks, as the core would call them."""

    def __init__(self, client: Peer, values: Unkept, hooks: Any, registry: Registry) -> None:
        self.client, self.values, self.hooks, self.registry = client, values, hooks, registry

    @property
    def tools(self) -> Any:
        return self.hooks["tool"]

    @property
    def engine(self) -> Any:
        """The engine, as evolve's commands have it."""
        return self.hooks["dispose"].__self__.engine

    async def accept(self, *paths: str) -> list[str]:
        """Take over what was changed by hand, as ``instar evolve accept`` does; without paths all of it."""
        return list((await self.engine.rollback.accept(paths or None)).files)

    @property
    def problems(self) -> list[str]:
        return self.registry.views["evolve"].children["problems"].read("")  # type: ignore[no-any-return]

    async def step(self, session: str = "ses_1") -> None:
        given = points.StepInput(session_id=session, agent="build", step=1)
        await self.hooks["step.before"](given, points.StepOutput())

    async def system(self, session: str = "ses_1", purpose: str = "turn") -> list[str]:
        """One step's system prompt, from the host's own ``["base"]``."""
        await self.step(session)
        output = points.SystemOutput(system=["base"])
        given = points.SystemInput(session_id=session, model={}, purpose=purpose)
        await self.hooks["experimental.chat.system.transform"](given, output)
        return output.system

    async def end_turn(self, said: WithParts) -> list[Any]:
        """The follow-ups after this last answer."""
        output = points.TurnEndOutput(follow_ups=[])
        given = points.TurnEndInput(
            session_id="ses_1", agent="build", message=said.info, parts=said.parts, continued=0
        )
        await self.hooks["turn.end"](given, output)
        return output.follow_ups

    async def call(self, tool: str, session: str = "ses_1", **args: Any) -> ToolResult:
        context: Any = Context(self.client, session)
        result = await self.tools[tool].execute(args, context)
        assert isinstance(result, ToolResult)
        return result

    def asks(self, tool: str, **args: Any) -> Any:
        context: Any = Context(self.client)
        (ask,) = self.tools[tool].permissions(args, context)
        return ask


def plugin_input(
    client: Any, values: Any, environment: dict[str, str], children: Children, **fields: Any
) -> PluginInput:
    async def trigger(point: Any, given: Any, output: Any) -> Any:
        return output

    flags, trusted = fields.get("flags", {}), fields.get("trusted", lambda folder: False)
    return PluginInput(
        client=client,
        project=Project(id="global", worktree=Path("/"), directory=Path("/")),
        directory=Path("/"),
        worktree=Path("/"),
        server_url=lambda: None,
        shell=None,
        children=children,
        kv=values,
        data=Paths.from_environment(environment).of_plugin("evolve"),
        host=Host("test", "0", frozenset({"follow_ups"})),
        registry=fields.get("registry") or Registry(),
        config={},
        environment=environment,
        flags=flags,
        declare_hook=lambda point: point,
        trigger=trigger,
        trusted=trusted,
        halted=lambda: 0,
    )


Start = Callable[..., Any]


@pytest.fixture
async def children(processes: Processes) -> AsyncIterator[Callable[[dict[str, str]], Children]]:
    """Makes what starts a plugin's children for a person with this environment."""
    made: list[Children] = []

    def make(environment: dict[str, str]) -> Children:
        made.append(Children(processes, Paths.from_environment(environment), environment))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def start(children: Callable[[dict[str, str]], Children]) -> AsyncIterator[Start]:
    """Start evolve on a workspace; `values` carries what a restart finds."""
    started: list[Running] = []

    async def begin(root: Path, values: Unkept | None = None, **environment: str) -> Running:
        client, values, registry = Peer(), values or Unkept(), Registry()
        given = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "INSTAR_WORKSPACE": str(root),
            "HOME": str(root.parent / "home"),
            **environment,
        }
        hooks = await server(plugin_input(client, values, given, children(given), registry=registry), {})
        running = Running(client, values, hooks, registry)
        if hooks:
            started.append(running)
        return running

    yield begin
    for running in started:
        await running.hooks["dispose"]()


def user(text: str, agent: str = "build") -> WithParts:
    """A user message of a session."""
    part = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": text}
    info = {
        "id": "msg_1",
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": 1},
        "agent": agent,
        "model": {"providerID": "scripted", "modelID": "demo"},
    }
    return decode_with_parts({"info": info, "parts": [part]})


def answer(*parts: dict[str, Any], **fields: Any) -> WithParts:
    """An answer of the model."""
    info = {
        "id": "msg_2",
        "sessionID": "ses_1",
        "role": "assistant",
        "time": {"created": 2},
        "parentID": "msg_1",
        "modelID": "demo",
        "providerID": "scripted",
        "mode": "build",
        "agent": "build",
        "path": {"cwd": "/", "root": "/"},
        "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        **fields,
    }
    own = {"sessionID": "ses_1", "messageID": "msg_2"}
    return decode_with_parts(
        {"info": info, "parts": [{"id": f"prt_{n}", **own, **part} for n, part in enumerate(parts)]}
    )
