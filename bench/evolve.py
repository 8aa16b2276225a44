"""What a validated write of a hook script costs: `python -m bench.evolve [--json] [--runs N]`.

One change of a Python script with a test, from the call to its answer, in a small workspace and in one of 2,000
files, without records and with 50 to replay. *The test's own time* is that of the test run by itself, *the replay's*
that of its whole stage. *The rest* is what the gate adds: the parse, which runs beside the test, the copies and
sandboxes, the check of the ledger, the install with its commit and a new discover, and what is written down.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.figure import Figure, Show, play
from bench.hooks import tree
from bench.program import environment
from instar.plugin import Means, Project, process
from instar.plugins.evolve import settings
from instar.plugins.evolve.attempt import Installed
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.install import ChangeCause
from instar.plugins.evolve.ledger.own import Unkept
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

SCRIPT = (
    f"#!{sys.executable}"
    + """
import json, sys
def discover(given):
    return {"name": "bot", "test": "bot_test.sh", "tools": [{"name": "add", "description": "Add."}]}
def idle(given):
    return {"continue": "Go on." if "bell" in given["answer"] else ""}
def execute_tool(given):
    return {"result": str(given["args"]["a"] + given["args"]["b"])}
function = {"discover": discover, "idle": idle, "execute_tool": execute_tool}.get(sys.argv[1])
if function is None:
    print(json.dumps({"error": "unknown hook: " + sys.argv[1]}))
    sys.exit(1)
print(json.dumps(function(json.load(sys.stdin))))
"""
)
TEST = """#!/bin/sh
cd "$(dirname "$0")/.."
echo '{"tool": "add", "args": {"a": 20, "b": 3}}' | hooks/bot.py execute_tool | grep -q 23
"""
RECORDS = 50
FILES = 2000


class Writing:
    """An engine on one workspace, and writes of its script."""

    def __init__(self, folder: Path, processes: process.Processes, files: int) -> None:
        self._root = tree(folder / "ws" / "data", files).parent if files else folder / "ws"
        for path, text in (("hooks/bot.py", SCRIPT), ("tests/bot_test.sh", TEST)):
            file = self._root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        (folder / "home").mkdir()
        (folder / "home" / ".gitconfig").write_text("[user]\nname = bench\nemail = bench@example.org\n")
        self._environment = environment(folder / "home")
        paths = Paths.from_environment(self._environment)
        means = Means(
            children=Children(processes, paths, self._environment),
            processes=processes,
            kv=Unkept(),
            data=paths.of_plugin("evolve"),
            config={},
            environment=self._environment,
            messages=_no_messages,
            halted=lambda: 0,
            resume=lambda: None,
            project=Project(id="global", worktree=self._root, directory=self._root),
            directory=self._root,
            trusted=lambda folder: True,
            origins={},
        )
        self.engine = EvolveEngine(means, self._root, processes, _publish, self._refresh)
        self._number = 0

    async def start(self) -> None:
        """Begin, as a start of instar does."""
        self.engine.policy.begin()
        await self.engine.open()
        self.engine.policy.take(settings.EvolveSettings())
        await self._refresh()

    async def record(self, calls: int) -> None:
        """Let the script be called, which leaves records."""
        for number in range(calls):
            await self.engine.scripts.call_all("idle", {"answer": f"The bell rang {number}."})

    async def write(self) -> tuple[float, Installed]:
        """Write the script anew; return the milliseconds that it took, and what was installed."""
        self._number += 1
        text = f"{SCRIPT}# {self._number}\n"
        begun = time.perf_counter()
        installed = await self.engine.evolution.change("hooks/bot.py", lambda before: text, ChangeCause())
        return (time.perf_counter() - begun) * 1000, installed

    def test(self) -> float:
        """Run the test by itself; return the milliseconds that it took."""
        begun = time.perf_counter()
        subprocess.run([self._root / "tests" / "bot_test.sh"], check=True, env=self._environment)
        return (time.perf_counter() - begun) * 1000

    async def _refresh(self) -> None:
        await self.engine.scripts.refresh()


async def figures(root: Path, runs: int, show: Show) -> None:
    """Measure writes in each workspace."""
    for files in (0, FILES):
        for records in (0, RECORDS):
            folder = root / f"{files}-{records}"
            folder.mkdir()
            processes = process.Processes()
            try:
                writing = Writing(folder, processes, files)
                await writing.start()
                await writing.record(records)
                await measure(writing, f"{files or 'few'} files, {records} records", runs, show)
                await writing.engine.close()
            finally:
                await processes.close()


async def measure(writing: Writing, what: str, runs: int, show: Show) -> None:
    """Measure one workspace: the whole, the parts that do not count, and the rest by its parts."""
    await writing.write()
    parts: dict[str, list[float]] = {}
    own = statistics.median(writing.test() for _ in range(runs))
    for _ in range(runs):
        took, installed = await writing.write()
        assert installed.verdict is not None
        stages = {stage.name: float(stage.ms) for stage in installed.verdict.stages}
        replay = stages.get("replay", 0.0)
        made = {
            "whole": took,
            "the test's own": own,
            "the replay's own": replay,
            "the rest": took - own - replay,
            "of it the parse and the sandboxes": stages["parse"] + stages["test"] - own,
            "of it all else": took - sum(stages.values()),
        }
        for name, value in made.items():
            parts.setdefault(name, []).append(value)
    for name, values in parts.items():
        show(Figure(f"{what}: {name}", values, "ms"))


async def _publish(properties: Any) -> None:
    """Nobody listens."""


async def _no_messages(session_id: str) -> Any:
    return []


def main() -> None:
    """Parse the command line and measure."""
    play("bench.evolve", __doc__, figures, runs=(9, "writes in each workspace"))


if __name__ == "__main__":
    main()
