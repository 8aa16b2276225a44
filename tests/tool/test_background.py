import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.running import lives

from instar.plugin.tool import ToolFailure
from instar.tool import background

TOOL = background.TOOL


async def pid_of(ctx: Any, call: Any, name: str) -> int:
    found = await call(TOOL, ctx, action="read", id=name, wait=5000)
    return int(found.output.splitlines()[0])


async def test_a_command_runs_on_and_its_new_output_is_read(ctx: Any, call: Any, project: Path) -> None:
    started = await call(
        TOOL, ctx, action="start", command="echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3"
    )
    assert started.metadata == {"id": "bg1"}
    first = await call(TOOL, ctx, action="read", id="bg1", wait=5000)
    assert re.fullmatch(r"one\n\(bg1: running for \d+ s\)", first.output)
    nothing = await call(TOOL, ctx, action="read", id="bg1")
    assert nothing.output.startswith("(no new output)\n(bg1: running")
    (project / "go").touch()
    text = ""
    while "ended" not in text:
        text += (await call(TOOL, ctx, action="read", id="bg1", wait=5000)).output
    assert "two\n" in text
    assert text.endswith("(bg1: ended with exit code 3)")
    assert (await call(TOOL, ctx, action="list")).output.startswith("bg1: ended with exit code 3: echo one")


async def test_stopping_ends_all_that_a_command_started(ctx: Any, call: Any) -> None:
    await call(TOOL, ctx, action="start", command="sleep 60 & echo $!; wait")
    pid = await pid_of(ctx, call, "bg1")
    assert lives(pid)
    stopped = await call(TOOL, ctx, action="stop", id="bg1")
    assert stopped.output.endswith("(bg1: stopped)")
    assert not lives(pid)


async def test_commands_end_with_their_session_and_not_with_another(ctx: Any, call: Any) -> None:
    await call(TOOL, ctx, action="start", command="echo $$; sleep 60")
    pid = await pid_of(ctx, call, "bg1")
    await background.end(ctx.process, "ses_other")
    assert lives(pid)
    await background.end(ctx.process, "ses_1")
    assert not lives(pid)


async def test_commands_end_with_the_runtime(ctx: Any, call: Any) -> None:
    await call(TOOL, ctx, action="start", command="echo $$; sleep 60")
    pid = await pid_of(ctx, call, "bg1")
    await ctx.process.close()
    assert not lives(pid)


async def test_a_read_that_is_cancelled_leaves_the_command_alone(ctx: Any, call: Any) -> None:
    await call(TOOL, ctx, action="start", command="echo $$; sleep 60")
    pid = await pid_of(ctx, call, "bg1")
    reading = asyncio.create_task(call(TOOL, ctx, action="read", id="bg1", wait=60_000))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert lives(pid)


async def test_output_that_nobody_reads_is_bounded(ctx: Any, call: Any) -> None:
    await call(TOOL, ctx, action="start", command="head -c 1000000 /dev/zero | tr '\\0' x; echo end")
    shell = background._of(ctx.process, "ses_1")["bg1"]
    while shell.runs():
        await shell.wait(5)
        await asyncio.sleep(0)
    found = await call(TOOL, ctx, action="read", id="bg1")
    assert found.output.startswith(f"... {1_000_004 - background.KEPT} bytes left out ...\nxxx")
    assert len(found.output) < background.KEPT + 100


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            {"action": "read", "id": "bg7"},
            "There is no background command 'bg7'; there are: none was started",
        ),
        ({"action": "read"}, "There is no background command"),
        ({"action": "start"}, "start needs a command"),
        ({"action": "start", "command": "true", "workdir": "gone"}, "Not a folder"),
    ],
)
async def test_what_cannot_be_done_is_said(ctx: Any, call: Any, args: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        await call(TOOL, ctx, **args)


async def test_only_so_many_run_at_once(ctx: Any, call: Any) -> None:
    for _ in range(background.MOST):
        await call(TOOL, ctx, action="start", command="sleep 60")
    with pytest.raises(ToolFailure, match="8 background commands run already"):
        await call(TOOL, ctx, action="start", command="sleep 60")
    await background.end(ctx.process, "ses_1")


async def test_the_commands_environment_is_that_of_bash(ctx: Any, call: Any) -> None:
    ctx.extra = {"MINE": "set"}
    await call(TOOL, ctx, action="start", command="echo $MINE")
    assert (await call(TOOL, ctx, action="read", id="bg1", wait=5000)).output.startswith("set\n")
    assert "MINE" not in os.environ


def test_starting_needs_what_bash_needs_and_looking_needs_nothing(ctx: Any) -> None:
    (ask,) = background.permissions({"action": "start", "command": "git push"}, ctx)
    assert (ask.permission, list(ask.patterns)) == ("bash", ["git push"])
    assert background.permissions({"action": "read", "id": "bg1"}, ctx) == []
    assert (TOOL.permission, TOOL.repeatable) == ("bash", True)
