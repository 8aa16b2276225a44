"""A workspace with a person's script, the agent's changes of it, and `instar evolve` as a person types it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests import started
from tests.confinement import remember

from instar.cli.door import Context
from instar.plugin import process
from instar.plugins.evolve import edit
from instar.plugins.evolve.attempt import Installed
from instar.plugins.evolve.cli import group as command
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.evolution import Waits
from instar.plugins.evolve.install import ChangeCause
from instar.plugins.evolve.settings import EvolveSettings
from instar.plugins.evolve.workspace import GUARDED

BOT = """\
#!/bin/sh
case "$1" in
discover) cat <<'END'
{"name": "bot", "test": "bot_test.sh"}
{"tools": [{"name": "greet", "description": "Greets.", "parameters": {"who": "Whom."}, "permission": {"arg": "who"}}]}
END
;;
mutate_request) echo '{"system": ["You are Bot."]}' ;;
execute_tool) echo '{"result": "Hello!"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
TEST = """\
#!/bin/sh
echo '{}' | hooks/bot.sh execute_tool | grep 'Hello' || { echo "it must say Hello"; exit 1; }
"""
GRANT = ', "permission": {"arg": "who"}'
"""What a change must drop to reach more: its tool asks for each name no longer."""

Change = Callable[[str], str]


class Given(Context):
    """What the command line hands to a command, with options that no file gave."""

    options: dict[str, Any]

    def plugin_options(self, name: str) -> dict[str, Any]:
        assert name == "evolve"
        return self.options


class Hand:
    """A person with the workspace `root`. What the agent does goes through the same gate as in a session."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        home = folder / "home"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "INSTAR_DATA": str(folder / "data"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_STATE_HOME": str(home / ".local" / "state"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }
        remember(self.environment)

    # -- a person --------------------------------------------------------------------------------------

    def __call__(self, *args: Any, code: int | None = 0, **environment: str) -> Result:
        """Type ``instar evolve --workspace ROOT ARGS``."""
        given = Given({**self.environment, **environment})
        given.options = {}
        words = ["--workspace", str(self.root), *map(str, args)]
        done = CliRunner().invoke(command, words, obj=given)
        assert code is None or done.exit_code == code, done.output + repr(done.exception)
        return done

    def json(self, *args: Any, code: int | None = 0) -> Any:
        """Type it with ``--json`` and return what it printed."""
        return json.loads(self(*args, "--json", code=code).stdout)

    def instar(self, *args: Any, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run ``instar ARGS`` as a process."""
        done = started.run(
            [*map(str, args)],
            cwd=self.folder,
            environment={**self.environment, **environment},
            timeout=60,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    # -- the agent -------------------------------------------------------------------------------------

    def edit(self, old: str, new: str, path: str = "hooks/bot.sh", cause: str = "wanted") -> Installed:
        """Let the agent replace a text; raises what the gate raises."""
        return self.play(
            lambda engine: engine.evolution.change(
                path,
                lambda text: edit.replace(text, old, new)[0],
                ChangeCause(tool="evolve_hook_edit", session="ses_1", call="call_1", agent="build"),
            )
        )

    def ask_for_more(self, old: str = GRANT) -> str:
        """Let the agent ask for more than it was granted; return the id under which that waits."""
        with pytest.raises(Waits) as raised:
            self.edit(old, "")
        return raised.value.id

    def play(self, work: Callable[[EvolveEngine], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with the engine, as a session's plugin would."""

        async def nothing(*_: Any) -> None:
            pass

        @asynccontextmanager
        async def opened() -> Any:
            async with Context(self.environment).means("evolve") as means:
                engine = EvolveEngine(means, self.root, means.processes, nothing, nothing)
                engine.policy.begin()
                engine.policy.take(EvolveSettings())
                await engine.open()
                await engine.scripts.refresh()
                yield engine
                await engine.close()

        async def do() -> Any:
            async with opened() as engine:
                return await work(engine)

        return asyncio.run(do())

    def behind_the_shield(self, *words: str, **environment: str) -> process.Output:
        """Run ``instar WORDS`` as the model's bash would, but with no word of who started it."""

        async def do() -> process.Output:
            async with Context(self.environment).means("evolve") as means:
                means.children.guard(readonly=[self.root / name for name in GUARDED])
                given = {**self.environment, **environment}
                argv = ["env", "-u", "INSTAR_RUN", sys.executable, "-m", "instar", *words]
                return await means.children.run(argv, cwd=self.folder, env=given, timeout=60)

        return asyncio.run(do())

    # -- what lies there -------------------------------------------------------------------------------

    @property
    def bot(self) -> str:
        """The script as it stands."""
        return (self.root / "hooks" / "bot.sh").read_text()

    def write(self, path: str, text: str, mode: int = 0o755) -> Path:
        """Write a file of the workspace behind the gate's back."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """A person whose workspace has one script with its test, on which evolve has not worked yet."""
    made = Hand(tmp_path, tmp_path / "ws")
    made.write("hooks/bot.sh", BOT)
    made.write("tests/bot_test.sh", TEST)
    made.write("prompts/chat.md", "Be brief.\n", 0o644)
    return made


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """Type ``instar evolve ARGS`` with these options of the plugin and this environment."""

    def call(*args: Any, options: dict[str, Any] | None = None, **environment: str) -> Result:
        given = Given({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), **environment})
        given.options = options or {}
        return CliRunner().invoke(command, [str(arg) for arg in args], obj=given)

    return call
