"""What a hook script costs, started plainly and warm, what a shield and a sandbox add, and what a rule of hooks does.

`python -m bench.hooks [--json] [--runs N]`. A call is one hook of one script, as evolve makes it; a step is the four
hooks of a step with one tool call (`tool_before`, `tool_after`, `observe_message`, `idle`) on each script, one after
another. Ratios are of medians of one run.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.figure import Figure, Show, play
from instar.event import HooksRan
from instar.plugin import process, sandbox
from instar.plugins.evolve import script
from instar.plugins.hooks import match, outcome, record, runner
from instar.plugins.hooks.parse import ParsedRules, RuleSource, parse
from instar.plugins.hooks.rule import HookEvent, ToolUse
from instar.plugins.hooks.sources import ActiveRules
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

HOOKS = ("tool_before", "tool_after", "observe_message", "idle")
SCRIPTS = {
    "json and sys": "import json, sys\n",
    "six more modules": "import argparse, dataclasses, json, pathlib, re, subprocess, sys, typing\n",
}
ANSWER = 'given = json.load(sys.stdin)\nprint(json.dumps({"log": given["hook"]}))\n'
GIVEN = {"session": {"id": "ses_x"}, "tool": "read", "args": {}, "answer": "word " * 200}
GUARDED = ("hooks", "prompts", "tests", "evals", "config", ".git")
FILES = 2000
"""Files of the workspace that a sandbox has a copy of."""
STARTS = {
    "env python3": "/usr/bin/env python3",
    "this python": sys.executable,
}


Levels = Sequence[sandbox.Level]


async def figures(root: Path, runs: int, show: Show) -> None:
    """Measure every script with every first line, each way; then what confines."""
    processes = process.Processes()
    try:
        for what, imports in SCRIPTS.items():
            for line, interpreter in STARTS.items():
                paths = [write(root / f"{n}.py", interpreter, imports) for n in range(5)]
                for warm in (False, True):
                    await measure(
                        processes, paths, f"{what}, {line}, {'warm' if warm else 'plain'}", warm, runs, show
                    )
        found = [await sandbox.find_level(processes, os.environ, name) for name in ("bubblewrap", "landlock")]
        reached = [
            one for number, one in enumerate(found) if one.name != "none" and one not in found[:number]
        ]
        await shielded(processes, root, reached, runs, show)
        await confined(processes, root, reached, runs, show)
        for level in found[:1]:
            await ruled(processes, root, level, runs, show)
    finally:
        await processes.close()


async def shielded(processes: process.Processes, root: Path, levels: Levels, runs: int, show: Show) -> None:
    """Measure a call of one script free and behind a shield at each level, plainly and warm."""
    path = write(root / "0.py", STARTS["this python"], SCRIPTS["json and sys"])
    ways = {"free": None} | {f"shield, {level.name}": shield(root, level) for level in levels}
    plain = 0.0
    for what, confine in ways.items():
        for warm in (False, True):
            place = script.ScriptEnvironment(root, dict(os.environ), 30.0, warm, confine)
            if warm:
                await script.call(processes, path, "idle", GIVEN, place)
                await asyncio.sleep(1)
            calls = [
                await took(lambda place=place: script.call(processes, path, "idle", GIVEN, place))  # type: ignore[misc]
                for _ in range(runs * 3)
            ]
            name = f"a call, {what}, {'warm' if warm else 'plain'}"
            show(Figure(name, calls, "ms"))
            plain = plain or statistics.median(calls)
            show(Figure(f"{name} / plain, free", [statistics.median(calls) / plain], "x"))


async def confined(processes: process.Processes, root: Path, levels: Levels, runs: int, show: Show) -> None:
    """Measure a child that does nothing: free, behind a shield, and in a sandbox with its copy of a workspace."""
    workspace = tree(root / "tree", FILES)

    async def child(confine: process.Confinement | None) -> None:
        await processes.run(["/bin/true"], cwd=workspace, env=os.environ, confine=confine)

    async def boxed(level: sandbox.Level) -> None:
        with sandbox.copy_of(workspace, level) as copy:
            await child(sandbox.Sandbox(level, copy))

    ways: dict[str, Callable[[], Awaitable[None]]] = {"free": lambda: child(None)}
    for level in levels:
        name = level.name
        guarding = shield(root, level)
        ways[f"shield, {name}"] = lambda guarding=guarding: child(guarding)  # type: ignore[misc]
        if level.overlay:
            ways[f"sandbox, {name}, overlay"] = lambda level=level: boxed(level)  # type: ignore[misc]
        copied = msgspec.structs.replace(level, overlay=False)
        ways[f"sandbox, {name}, {FILES} files copied"] = lambda level=copied: boxed(level)  # type: ignore[misc]
    free = 0.0
    for what, way in ways.items():
        if what.startswith("shield"):
            show(Figure(f"a child, {what}: the first", [await took(way)], "ms"))
        taken = [await took(way) for _ in range(runs * 3)]
        show(Figure(f"a child, {what}", taken, "ms"))
        free = free or statistics.median(taken)
        show(Figure(f"a child, {what}: more than free", [statistics.median(taken) - free], "ms"))


async def ruled(
    processes: process.Processes, root: Path, level: sandbox.Level, runs: int, show: Show
) -> None:
    """Measure a command rule that does nothing beside its bare process, and an event that no rule is meant for."""
    home = root / "rules"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)}
    children = Children(processes, Paths.from_environment(environment), environment, at_most=level.name)
    means = runner.EvaluationContext(children, ActiveRules(home, home, home, environment))
    event = HookEvent("PreToolUse", "ses_bench", home, ToolUse("bash", {"command": "ls"}))
    found = ParsedRules()
    data = {"PreToolUse": [{"matcher": "bash", "hooks": [{"command": "true"}]}]}
    parse(RuleSource(data, "x"), found)
    (rule,) = found.rules
    other = msgspec.structs.replace(rule, matcher="edit|write")
    files = record.RunRecords(home)

    async def bare() -> None:
        variables = children.environment(environment)
        await children.run(
            ["sh", "-c", "true"], cwd=home, env=variables, stdin=b"{}", timeout=60, limit=1 << 20
        )

    async def judged(rules: Sequence[Any]) -> None:
        met = match.matched(rules, event, home)
        found = [outcome.settle(await runner.evaluate(one.rule, event, means), one.rule) for one in met]
        outcome.combine(found, {"command": "ls"})
        for one in met:
            files.add(_ran(one.rule))

    for way in (bare, lambda: judged([rule])):
        await took(way)  # a launcher starts, modules are imported
    await asyncio.sleep(1)
    pairs = [(await took(bare), await took(lambda: judged([rule]))) for _ in range(runs * 10)]
    show(Figure(f"a rule's bare process, {level.name}", [plain for plain, _ in pairs], "ms"))
    show(Figure(f"a command rule, {level.name}", [full for _, full in pairs], "ms"))
    more = statistics.median(full for _, full in pairs) - statistics.median(plain for plain, _ in pairs)
    show(Figure(f"a command rule, {level.name}: more than its process", [more], "ms"))
    none = [await took(lambda: judged([other] * 100)) * 10 for _ in range(runs * 10)]
    show(Figure("a rule that the event does not meet", none, "µs"))


def _ran(rule: Any) -> Any:
    """What is recorded of a run."""
    said = {"session_id": "ses_bench", "event": rule.event, "rule": rule.label, "place": rule.place}
    said |= {"evaluator": rule.evaluator, "dialect": rule.dialect, "action": "none", "undecided": False}
    return HooksRan(**said, reason="", error="", messages=[], duration=1)


def shield(root: Path, level: sandbox.Level) -> sandbox.Shield:
    """Return a shield as of a workspace: a hidden folder and some read-only ones."""
    for name in ("data", *GUARDED):
        (root / name).mkdir(exist_ok=True)
    return sandbox.Shield(level, (root / "data",), tuple(root / name for name in GUARDED))


def tree(root: Path, files: int) -> Path:
    """Write a workspace of so many small files, fifty in a folder."""
    for number in range(files):
        folder = root / str(number // 50)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text("line\n" * 20)
    return root


async def measure(
    processes: process.Processes,
    paths: list[Path],
    what: str,
    warm: bool,
    runs: int,
    show: Show,
) -> None:
    """Measure a call, and a step with one script and with five."""
    place = script.ScriptEnvironment(paths[0].parent, dict(os.environ), 30.0, warm)

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


async def took(work: Callable[[], Awaitable[Any]]) -> float:
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
    play("bench.hooks", __doc__, figures, runs=(7, "steps of each kind"))


if __name__ == "__main__":
    main()
