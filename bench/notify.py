"""What a notice to many sessions costs: `python -m bench.notify [--json] [--runs N] [--sessions N]`.

One turn whose tool, of a Python hook script, notifies all other sessions, each of which was prompted once and rests.
*The turn* is from its prompt to its answer, with one such session and with many; *all told* is until the last session
has its message, worded by `format_notification`, which the turn does not wait for.
"""

import asyncio
import sys
import time
from pathlib import Path

from bench.figure import Figure, Show, play
from bench.program import environment
from instar.plugin import PromptBody, SessionBody, Value
from instar.runtime import Options, Runtime

SCRIPT = (
    f"#!{sys.executable}"
    + """
import json, sys
hook, given = sys.argv[1], json.load(sys.stdin)
if hook == "discover":
    print(json.dumps({"name": "bot", "tools": [{"name": "tell", "description": "Tells."}]}))
elif hook == "execute_tool":
    print(json.dumps({"result": "told", "notify": [{"type": "changed", "files": ["notes/a.md"]}]}))
elif hook == "format_notification":
    print(json.dumps({"message": "[update] " + json.dumps(given["notifications"])}))
else:
    print(json.dumps({"error": "unknown hook: " + hook}))
    sys.exit(1)
"""
)
STORY = """== when "tell the others"
tool: bot_tell {}
== when "."
text: ok
"""


async def figures(root: Path, sessions: int, runs: int, show: Show) -> None:
    """Measure with one other session, and with many."""
    for count in (1, sessions):
        await measure(root / str(count), count, runs, show)


async def measure(root: Path, sessions: int, runs: int, show: Show) -> None:
    """Measure turns that notify this many other sessions."""
    project, hooks = root / "project", root / "ws" / "hooks"
    for folder in (project, hooks, root / "home"):
        folder.mkdir(parents=True)
    (hooks / "bot.py").write_text(SCRIPT)
    (hooks / "bot.py").chmod(0o755)
    (root / "story.txt").write_text(STORY)
    given = {**environment(root / "home"), "INSTAR_SCRIPT": str(root / "story.txt")}
    flags = {"model": "scripted/x", "workspace": str(root / "ws")}
    runtime = await Runtime.open(Options(project, given, flags))
    try:
        made = [(await runtime.session.create(SessionBody(title="t"))).id for _ in range(sessions + 1)]
        for session in made:
            await runtime.session.prompt(session, PromptBody.text("hello"))
        turn, told = list[float](), list[float]()
        for _ in range(runs):
            begun = time.perf_counter()
            await runtime.session.prompt(made[0], PromptBody.text("tell the others"))
            turn.append((time.perf_counter() - begun) * 1000)
            await _all_told(runtime)
            told.append((time.perf_counter() - begun) * 1000)
            for session in made[1:]:
                # Else they were told often enough, and would wait.
                await runtime.session.prompt(session, PromptBody.text("hello"))
        show(Figure(f"{sessions} sessions: the turn", turn, "ms"))
        show(Figure(f"{sessions} sessions: all told", told, "ms"))
    finally:
        await runtime.close()


async def _all_told(runtime: Runtime) -> None:
    untold = runtime.registry.views["evolve"].children["untold"]
    assert isinstance(untold, Value)
    while True:
        if not untold.read(""):
            return
        await asyncio.sleep(0.002)


def main() -> None:
    """Parse the command line and measure."""
    numbers = {"runs": (5, "turns"), "sessions": (50, "sessions that are told")}
    play("bench.notify", __doc__, figures, **numbers)


if __name__ == "__main__":
    main()
