"""What a hook of a JavaScript plugin costs: `python -m bench.jshost [--json] [--runs N] [--messages N]`.

A message transform on a long session that was sent before, in a child that runs: nothing of the session is new, its
last message is new, and the plugin changes that; then a hook with a small output. Beside the time on the clock stands
the processor time of both processes, which other work on the machine does not lengthen.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure, Show, play
from instar.message import WithParts, decode_with_parts
from instar.plugin import points
from instar.runtime import Options, Runtime

PLUGIN = """
export const Bench = async () => ({
  "experimental.chat.messages.transform": async (input, { messages }) => {
    const text = messages.at(-1).parts[0]
    if (text.text.startsWith("change")) text.text += "!"
  },
  "experimental.text.complete": async (input, output) => { output.text += "!" },
})
"""
OUTPUT = "line of a tool's output\n" * 60
Work = Callable[[int], Awaitable[Any]]


async def figures(folder: Path, messages: int, runs: int, show: Show) -> None:
    """Measure in an instance of `folder`, with sessions of so many messages."""
    file = folder / ".opencode" / "plugin" / "bench.js"
    file.parent.mkdir(parents=True)
    file.write_text(PLUGIN)
    environment = {**os.environ, "INSTAR_TRUST": "all"}
    environment |= {f"XDG_{one}_HOME": str(folder / one) for one in ("CONFIG", "DATA", "STATE", "CACHE")}
    async with await Runtime.open(Options(folder, environment, {"model": "scripted/x"})) as runtime:
        if runtime.notices:
            raise SystemExit(runtime.notices[0])
        plugins = runtime.instance.plugins
        print(f"run by {plugins.loaded[0].host.runs}", file=sys.stderr)

        async def transform(messages: list[WithParts]) -> None:
            output = points.MessagesOutput(messages=messages)
            await plugins.trigger(points.MESSAGES, points.Empty(), output)

        async def complete(_: int) -> None:
            output = points.TextOutput(text="word " * 200)
            given = points.TextInput(session_id="ses_1", message_id="msg_1", part_id="prt_1")
            await plugins.trigger(points.TEXT_COMPLETE, given, output)

        history = session(messages)
        ways: dict[str, Work] = {
            "nothing is new": lambda _: transform(history),
            "one message is new": lambda run: transform(
                [*history[:-1], _message(messages - 1, f"run {run}")]
            ),
            "one is changed": lambda run: transform([*history[:-1], _message(messages - 1, f"change {run}")]),
        }
        for what, way in ways.items():
            await measured(f"a transform of {messages} messages, {what}", way, runs, show)
        await measured("a hook with a small output", complete, runs, show)


async def measured(what: str, way: Work, runs: int, show: Show) -> None:
    """Measure one way, after a few calls that do not count."""
    for run in range(-20, 0):
        await way(run)
    taken, child, own = list[float](), _of_children(), time.process_time()
    for run in range(runs):
        started = time.perf_counter()
        await way(run)
        taken.append((time.perf_counter() - started) * 1000)
    own = (time.process_time() - own) * 1000 / runs
    show(Figure(what, taken, "ms"))
    show(Figure(f"{what}: processor, instar", [own], "ms"))
    show(Figure(f"{what}: processor, child", [(_of_children() - child) * 1000 / runs], "ms"))


def session(count: int) -> list[WithParts]:
    """Return so many messages, prompts and answers in turn; an answer has reasoning, a call and a text."""
    return [_message(place, "please do this " * 8) for place in range(count)]


def _message(place: int, text: str) -> WithParts:
    own = {"sessionID": "ses_1", "messageID": f"msg_{place:05}"}
    info: dict[str, Any] = {"id": own["messageID"], "sessionID": "ses_1", "agent": "build"}
    said: dict[str, Any] = {**own, "id": f"prt_{place}_1", "type": "text", "text": text}
    if place % 2 == 0:
        model = {"providerID": "p", "modelID": "m"}
        info |= {"role": "user", "time": {"created": place}, "model": model}
        return decode_with_parts({"info": info, "parts": [said]})
    tokens = {"input": 9, "output": 9, "reasoning": 9, "cache": {"read": 9, "write": 9}}
    info |= {"role": "assistant", "parentID": f"msg_{place - 1:05}", "modelID": "m", "providerID": "p"}
    info |= {"mode": "build", "path": {"cwd": "/x", "root": "/"}, "cost": 0.1, "tokens": tokens}
    info |= {"time": {"created": place, "completed": place}, "finish": "stop"}
    span = {"start": 1, "end": 2}
    state = {"status": "completed", "input": {"command": "ls -l"}, "output": OUTPUT, "title": "ls -l"}
    state |= {"metadata": {"output": "line\n", "exit": 0}, "time": span}
    parts: Sequence[dict[str, Any]] = [
        said,
        {**own, "id": f"prt_{place}_2", "type": "reasoning", "text": "I think. " * 20, "time": span},
        {**own, "id": f"prt_{place}_3", "type": "tool", "callID": "c", "tool": "bash", "state": state},
        {
            **own,
            "id": f"prt_{place}_4",
            "type": "step-finish",
            "reason": "stop",
            "cost": 0.1,
            "tokens": tokens,
        },
    ]
    return decode_with_parts({"info": info, "parts": list(parts)})


def _of_children() -> float:
    """Return the seconds of processor time that this process's children have had so far, theirs too."""
    found, ticks = {os.getpid()}, 0
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda one: int(one.parent.name)):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in found:
            found.add(int(stat.parent.name))
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Parse the command line and measure."""
    numbers = {"runs": (200, "calls of each kind"), "messages": (400, "messages of the session")}
    play("bench.jshost", __doc__, figures, **numbers)


if __name__ == "__main__":
    main()
