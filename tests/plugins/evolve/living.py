"""evolve at work on a workspace, under settings and confinement that a test chooses, with what it told kept."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.confinement import remember
from tests.plugins.evolve.conftest import (
    Context,
    Peer,
    Sessions,
    answer,
    files,
    git,
    plugin_input,
    script,
)

from instar.plugin import Origin, Registry, ToolFailure, ToolResult, points
from instar.plugins.evolve.history.audit_log import AuditEntry
from instar.plugins.evolve.ledger.own import Unkept
from instar.plugins.evolve.server import Evolve
from instar.plugins.evolve.workspace import Workspace
from instar.process import Processes
from instar.sandbox.level import Name
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

HOOKS = {
    "discover": """echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "greet"}]}'""",
    "execute_tool": """echo '{"result": "hello"}'""",
}
"""The hooks that `bot` answers if a test says nothing else: shell code by hook."""
TEST = "#!/bin/sh\ngrep -q wrong hooks/bot.sh && echo 'it is wrong' && exit 7\nexit 0\n"


def bot(more: str = "", **hooks: str) -> str:
    """Return the text of a script that answers these hooks, and those of `HOOKS`, by shell code."""
    cases = "".join(f"{hook}) {code}\n;;\n" for hook, code in (HOOKS | hooks).items())
    unknown = """*) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;\nesac\n"""
    return f'#!/bin/sh\n{more}\ncase "$1" in\n{cases}{unknown}'


def discover(**fields: Any) -> str:
    """Return the shell code of a `discover` with these fields."""
    said = {"name": "bot", "test": "bot_test.sh", "tools": [{"name": "greet"}], **fields}
    return f"cat <<'END'\n{msgspec.json.encode(said).decode()}\nEND"


def workspace(root: Path, text: str | None = None, test: str = TEST) -> Path:
    """Make a workspace with the script `bot.sh`, its test and a prompt."""
    script(root / "hooks", "bot.sh", text or bot())
    script(root / "tests", "bot_test.sh", test)
    script(root / "prompts", "chat.md", "Be kind.\n", 0o644)
    return root


class Ears(Sessions):
    """Sessions that keep what they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Any]] = []

    async def prompt(self, session_id: str, body: Any, origin: Origin | None = None) -> None:
        self.told.append((session_id, body))

    async def origin(self, session_id: str) -> Origin:
        return Origin()


class Living:
    """evolve at work on the workspace `root`."""

    def __init__(self, root: Path, evolve: Evolve, client: Peer, values: Unkept, registry: Registry) -> None:
        self.root, self.client, self.values, self.registry = root, client, values, registry
        self.evolve, self.engine = evolve, evolve.engine
        self.hooks: Any = evolve.hooks()

    @property
    def problems(self) -> list[str]:
        """What the view tells that is wrong."""
        return self.registry.views["evolve"].children["problems"].read("")  # type: ignore[no-any-return]

    @property
    def told(self) -> list[str]:
        """What the session was told."""
        return [part["text"] for _, body in self.client.session.told for part in body.parts]  # type: ignore[attr-defined]

    def events(self, kind: str) -> list[Any]:
        """The properties of the events ``evolve.KIND`` that were published."""
        return [one.properties for one in self.client.published if one.type == f"evolve.{kind}"]

    def audit_log(self, kind: str) -> list[AuditEntry]:
        """The entries of a kind in the chronicle, newest first."""
        return [one for one in self.engine.storage.audit_log.read().entries if one.kind == kind]

    def subjects(self) -> list[str]:
        """The subjects of the workspace's commits, newest first."""
        return git(self.root, "log", "--format=%s").splitlines()

    async def step(self, session: str = "ses_1") -> None:
        """Make a step that ends the turn."""
        await self._begin(session)
        said = answer({"type": "text", "text": "done"})
        ended = points.TurnEndInput(
            session_id=session, agent="build", message=said.info, parts=said.parts, continued=0
        )
        await self.hooks["turn.end"](ended, points.TurnEndOutput(follow_ups=[]))

    async def _begin(self, session: str) -> None:
        given = points.StepInput(session_id=session, agent="build", step=1)
        await self.hooks["step.before"](given, points.StepOutput())

    async def system(self, session: str = "ses_1") -> list[str]:
        """One step's system prompt, from the host's own ``["base"]``."""
        await self._begin(session)
        output = points.SystemOutput(system=["base"])
        given = points.SystemInput(session_id=session, model={}, purpose="turn")
        await self.hooks["experimental.chat.system.transform"](given, output)
        return output.system

    async def call(self, tool: str, **args: Any) -> ToolResult:
        """Call a tool as the model does."""
        context: Any = Context(self.client, "ses_1")
        result = await self.hooks["tool"][tool].execute(args, context)
        assert isinstance(result, ToolResult)
        return result

    async def said(self, tool: str, **args: Any) -> str:
        """Call a tool, and return what the model reads."""
        try:
            return (await self.call(tool, **args)).output
        except ToolFailure as error:
            return str(error)

    async def write(self, content: str, file: str = "bot.sh", **more: Any) -> str:
        """Propose a new text of a script that is installed, and return what the model reads."""
        result = await self.call("evolve_hook_write", hook=file, content=content, **more)
        assert (self.root / "hooks" / file).read_text() == content
        return result.output

    async def refused(
        self, content: str, file: str = "bot.sh", tool: str = "evolve_hook_write", **more: Any
    ) -> str:
        """Propose a new text that is not installed; not one byte may have changed. Return what the model reads."""
        before, head = files(self.root), git(self.root, "rev-parse", "HEAD")
        epoch = self.engine.storage.ledger.epoch
        with pytest.raises(ToolFailure) as error:
            await self.call(tool, **{tool.split("_")[1]: file}, content=content, **more)
        assert files(self.root) == before
        assert git(self.root, "rev-parse", "HEAD") == head
        assert self.engine.storage.ledger.epoch == epoch
        return str(error.value)


@contextlib.asynccontextmanager
async def living(
    root: Path,
    *,
    level: Name = "bubblewrap",
    config: dict[str, Any] | None = None,
    values: Unkept | None = None,
    **environment: str,
) -> AsyncIterator[Living]:
    """Start evolve on a workspace, with ``evolve`` settings `config`, confined at most to `level`."""
    client, values, registry = Peer(), values or Unkept(), Registry()
    client.session = Ears()
    given = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "INSTAR_WORKSPACE": str(root),
        "HOME": str(root.parent / "home"),
        **environment,
    }
    if level == "bubblewrap":
        remember(given)
    processes = Processes()
    children = Children(processes, Paths.from_environment(given), given, at_most=level)
    made = plugin_input(client, values, given, children, registry=registry)
    made = msgspec.structs.replace(made, config={"evolve": config or {}})
    evolve = Evolve(made, Workspace(root))
    await evolve.start()
    found = Living(root, evolve, client, values, registry)
    try:
        yield found
    finally:
        await found.hooks["dispose"]()
        await children.close()
        await processes.close()
