"""A plain `ToolContext`: real folders, real children; what a tool shows, asks and publishes is kept."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from instar.event import Event
from instar.event.bus import Bus
from instar.plugin import points
from instar.plugin.door import Plugins
from instar.plugin.tool import Ask, Tool, ToolContext, ToolResult
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths
from instar.tool import search
from instar.tool.call import validate


class Client:
    def __init__(self) -> None:
        self.published: list[Event] = []

    async def publish(self, event: Event) -> None:
        self.published.append(event)


class Context:
    session_id = "ses_1"
    message_id = "msg_1"
    call_id = "call_1"
    agent = "build"
    name = "tool"

    def __init__(self, directory: Path, worktree: Path, process: Children) -> None:
        self.trigger = Plugins(Bus(), points.CORE).trigger
        self.abort = asyncio.Event()
        self.messages: list[Any] = []
        self.directory = directory
        self.worktree = worktree
        self.client: Any = Client()
        self.process = process
        self.shown: list[dict[str, Any]] = []
        self.asked: list[Ask] = []
        self.extra: dict[str, str] = {}
        self.on_metadata = lambda: None

    def metadata(self, *, title: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        self.shown.append(metadata or {})
        self.on_metadata()

    async def ask(self, ask: Ask) -> None:
        self.asked.append(ask)

    async def environment(self, cwd: Path) -> dict[str, str]:
        return {**os.environ, **self.extra}

    @property
    def edited(self) -> list[str]:
        return [event.to_plain()["properties"]["file"] for event in self.client.published]


Call = Callable[..., Awaitable[ToolResult]]


async def _call(tool: Tool, ctx: ToolContext, **args: Any) -> ToolResult:
    """Call a tool as the core does: arguments checked, permissions worked out, then run."""
    assert validate(args, tool.parameters) is None
    assert tool.permissions is not None
    tool.permissions(args, ctx)
    result = await tool.execute(args, ctx)
    assert isinstance(result, ToolResult)
    return result


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Children]:
    """Children of a person whose home is empty."""
    own = Processes()
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    children = Children(own, Paths.from_environment(environment), environment)
    yield children
    await children.close()
    await own.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A worktree; `tmp_path` around it is outside."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def ctx(project: Path, processes: Children) -> Context:
    return Context(project, project, processes)


@pytest.fixture
def call() -> Call:
    return _call


@pytest.fixture(params=["walk", *(["ripgrep"] if search.ripgrep() else [])])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to search, where this machine has both; the answers must be the same."""
    if request.param == "walk":
        monkeypatch.setattr(search, "ripgrep", lambda: None)
    return str(request.param)


def _make(root: Path, files: dict[str, str | bytes]) -> None:
    for age, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


@pytest.fixture
def make() -> Callable[[Path, dict[str, str | bytes]], None]:
    """Make files, the first the newest."""
    return _make
