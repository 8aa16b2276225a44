"""Measure instar alone and print medians: `python -m bench [--json] [--runs N]`.

Absolute figures of a shared machine are noise; compare runs of one day on one machine. Models answer at once, so that
what is measured is instar's own time.
"""

import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench import acting, caching
from bench.figure import Figure, Show, play
from bench.program import Server, environment, model_alone, modelled, serving, spawn, timed

EXAMPLE = Path(__file__).parent.parent / "examples" / "hello"
READ = 'read {"filePath": "small.txt", "limit": NUMBER}'
BASH = 'bash {"command": "true NUMBER"}'
CALLS = 20
"""Sequential tool calls of one measured turn."""
HOOKS = 3
"""Hooks that the example answers around one tool call: `tool_before`, `tool_after` and `observe_message`."""
DELTAS = 4000
"""Text deltas of the long answer."""
LONG = (400, 1000)
"""The turns of a long session that are compared with the tenth."""


def commands(root: Path, runs: int) -> Iterator[Figure]:
    """Cold starts: `--help`, and a one-word answer."""
    env = environment(root / "home")
    for what, arguments in (
        ("instar --help", ["--help"]),
        ("instar run, one word", ["run", "-m", "scripted/echo", "hi"]),
    ):
        costs = [timed(arguments, root, env) for _ in range(runs + 1)][1:]
        yield Figure(f"{what}: wall", [cost.wall * 1000 for cost in costs], "ms")
        yield Figure(f"{what}: CPU", [cost.cpu * 1000 for cost in costs], "ms")
        yield Figure(f"{what}: peak memory", [cost.memory for cost in costs], "MB")


def server(root: Path, runs: int) -> Iterator[Figure]:
    """A server without plugins: start, idle memory, tool calls."""
    ready, idle = [], []
    for _ in range(min(runs, 3)):
        with serving(root, environment(root / "server")) as started:
            ready.append(started.ready * 1000)
            idle.append(started.memory())
    yield Figure("instar serve: first health answer", ready, "ms")
    yield Figure("instar serve: idle memory", idle, "MB")
    for what, call in (("read", READ), ("bash true", BASH)):
        with serving(root, environment(root / what, **scripted(root, call))) as tools:
            yield Figure(f"tool call: {what}", per_call(tools, runs), "ms")


def turns(root: Path, runs: int) -> Iterator[Figure]:
    """Turns over HTTP against a model server of its own process: warm, grown, and streaming a long answer."""
    with (
        modelled(["word", f"deltas-{DELTAS}"]) as (models, url),
        serving(root, environment(root / "turns", **models)) as server,
    ):
        session = server.session()
        took = [server.turn(session) * 1000 for _ in range(max(LONG))]
        small = statistics.median(model_alone(url, 30)) * 1000
        early = took[5:25]
        yield Figure(
            "warm turn over HTTP, the model's time taken off", [value - small for value in early], "ms"
        )
        for turn in LONG:
            large = statistics.median(model_alone(url, turn * 2)) * 1000
            ratio = (statistics.median(took[turn - 20 : turn]) - large) / (statistics.median(early) - small)
            yield Figure(f"growth: turn {turn} against turn 10, the same", [ratio], "×")
        yield Figure("memory after these turns", [server.memory()], "MB")
        with server.listening() as heard:
            used = []
            for _ in range(runs):
                before, seen = server.cpu(), heard()
                server.turn(server.session(), f"deltas-{DELTAS}")
                used.append((server.cpu() - before) * 1_000_000 / DELTAS)
                if heard() == seen:
                    raise RuntimeError("the client of the event stream heard nothing")
            yield Figure("streaming one delta to one client: CPU", used, "µs")


def evolve(root: Path, runs: int) -> Iterator[Figure]:
    """The same with evolve and one hook script, beside a fresh process of that script."""
    workspace = root / "workspace"
    shutil.copytree(EXAMPLE, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    env = environment(root / "evolve", **scripted(root, READ))
    with serving(root, env) as server:
        without = statistics.median(per_call(server, runs))
    with serving(root, {**env, "INSTAR_WORKSPACE": str(workspace)}) as server:
        took = per_call(server, runs)
    yield Figure("tool call: read, with evolve and one hook script", took, "ms")
    each = [(value - without) / HOOKS for value in took]
    yield Figure(f"hook call: one of the {HOOKS} of such a tool call", each, "ms")
    script = str(workspace / "hooks" / "hello.py")
    given = json.dumps({"hook": "tool_before", "tool": "read", "args": {}, "session": {"id": "ses_x"}})
    took = [spawn([script, "tool_before"], given) * 1000 for _ in range(max(runs, 10))]
    yield Figure("hook call: the script alone, a fresh process", took, "ms")


def cached(root: Path, runs: int) -> Iterator[Figure]:
    """What a prompt cache would serve of a session of fifty turns with tools, over both wires."""
    for wire in acting.MODELS:
        file = root / f"{wire}.jsonl"
        with acting.running() as url:
            config = json.dumps({"provider": acting.provider(url)})
            env = environment(root / wire, INSTAR_CONFIG_CONTENT=config, INSTAR_LOG_REQUESTS=str(file))
            with serving(root, env) as server:
                acting.session(server, wire)
        share = caching.replay(caching.read(file)).share
        yield Figure(f"input served from the cache, of what could be: {wire}", [share * 100], "%")


def scripted(root: Path, call: str) -> dict[str, str]:
    """Write a script of `CALLS` steps with one call each, and return the environment that plays it."""
    path = root / f"{call.split()[0]}.txt"
    # Each call differs from the last: three like ones in a row would ask a person (doom_loop).
    steps = [f"== turn\ntool: {call.replace('NUMBER', str(number))}\n\n" for number in range(1, CALLS + 1)]
    path.write_text("".join(steps) + "== turn\ntext: done\n")
    return {"INSTAR_SCRIPT": str(path), "INSTAR_CONFIG_CONTENT": '{"model": "scripted/bench"}'}


def per_call(server: Server, runs: int) -> list[float]:
    """Milliseconds of one tool call and the step that asks for it, one figure a turn."""
    return [server.tool_turn(CALLS) * 1000 / CALLS for _ in range(runs + 1)][1:]


def measure(root: Path, runs: int, show: Show) -> None:
    """Measure everything and show each figure as it comes."""
    (root / "small.txt").write_text("one line\n")
    for part in (commands, server, turns, evolve, cached):
        for figure in part(root, runs):
            show(figure)


def main() -> None:
    """Parse the command line and measure."""
    play("bench", __doc__, measure, runs=(7, "runs of each command"))


if __name__ == "__main__":
    main()
