"""What a hook script costs, started plainly and warm: `python -m bench.hooks [--json] [--runs N]`.

A call is one hook of one script, as evolve makes it; a step is the four hooks of a step with one tool call
(`tool_before`, `tool_after`, `observe_message`, `idle`) on each script, one after another.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.__main__ import Figure
from bench.program import cores
from instar.plugin import process
from instar.plugins.evolve import script

HOOKS = ("tool_before", "tool_after", "observe_message", "idle")
SCRIPTS = {
    "json and sys": "import json, sys\n",
    "six more modules": "import argparse, dataclasses, json, pathlib, re, subprocess, sys, typing\n",
}
ANSWER = 'given = json.load(sys.stdin)\nprint(json.dumps({"log": given["hook"]}))\n'
GIVEN = {"session": {"id": "ses_x"}, "tool": "read", "args": {}, "answer": "word " * 200}
STARTS = {
    "env python3": "/usr/bin/env python3",
    "this python": sys.executable,
}


async def figures(root: Path, runs: int, show: Callable[[Figure], None]) -> None:
    """Measure every script with every first line, each way."""
    processes = process.Processes()
    try:
        for what, imports in SCRIPTS.items():
            for line, interpreter in STARTS.items():
                paths = [write(root / f"{n}.py", interpreter, imports) for n in range(5)]
                for warm in (False, True):
                    await measure(
                        processes, paths, f"{what}, {line}, {'warm' if warm else 'plain'}", warm, runs, show
                    )
    finally:
        await processes.close()


async def measure(
    processes: process.Processes,
    paths: list[Path],
    what: str,
    warm: bool,
    runs: int,
    show: Callable[[Figure], None],
) -> None:
    """Measure a call, and a step with one script and with five."""
    place = script.Place(paths[0].parent, dict(os.environ), 30.0, warm)

    async def call(path: Path, hook: str) -> None:
        await script.call(processes, path, hook, GIVEN, place)

    async def step(count: int) -> None:
        for hook in HOOKS:
            for path in paths[:count]:
                await call(path, hook)

    if warm:
        show(Figure(f"{what}: the first call", [await took(lambda: call(paths[0], "idle"))], "ms"))
        # The interpreter starts in the background of the first call.
        await asyncio.sleep(1)
    calls = [await took(lambda: call(paths[0], "idle")) for _ in range(runs * 3)]
    show(Figure(f"{what}: a call", calls, "ms"))
    for count in (1, 5):
        steps = [await took(lambda count=count: step(count)) for _ in range(runs)]  # type: ignore[misc]
        show(Figure(f"{what}: a step, {count} script{'s' * (count > 1)}", steps, "ms"))


async def took(work: Callable[[], Awaitable[None]]) -> float:
    """Return the milliseconds that `work` took."""
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


def write(path: Path, interpreter: str, imports: str) -> Path:
    """Write an executable script."""
    path.write_text(f"#!{interpreter}\n{imports}{ANSWER}")
    path.chmod(0o755)
    return path


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.hooks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of the table")
    parser.add_argument("--runs", type=int, default=7, help="steps of each kind (default 7)")
    chosen = parser.parse_args()
    if not chosen.json:
        print(f"Python {sys.version.split()[0]}, {cores()} cores; median (lowest – highest)")
    with tempfile.TemporaryDirectory(prefix="instar-bench-") as folder:
        asyncio.run(
            figures(
                Path(folder),
                chosen.runs,
                lambda one: print(json.dumps(one._asdict()) if chosen.json else one.line(), flush=True),
            )
        )


if __name__ == "__main__":
    main()
