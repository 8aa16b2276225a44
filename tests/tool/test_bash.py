import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.running import lives

from instar.plugin.tool import ToolFailure
from instar.tool import bash


async def test_a_command_returns_what_it_printed_on_both_streams(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="echo out; echo err >&2")
    assert result.output == "out\nerr\n"
    assert result.metadata == {"output": "out\nerr\n", "exit": 0}
    assert result.title == "echo out; echo err >&2"


async def test_an_exit_code_is_in_the_metadata_and_no_failure(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="exit 3")
    assert (result.output, result.metadata["exit"]) == ("(no output)", 3)


async def test_a_command_runs_in_its_workdir_with_the_hooks_environment(
    ctx: Any, call: Any, project: Path
) -> None:
    (project / "sub").mkdir()
    ctx.extra["FROM_HOOK"] = "hook"
    result = await call(bash.TOOL, ctx, command="pwd; echo $FROM_HOOK", workdir="sub")
    assert result.output == f"{project}/sub\nhook\n"


async def test_stdin_is_empty(ctx: Any, call: Any) -> None:
    assert (await call(bash.TOOL, ctx, command="cat; echo end")).output == "end\n"


async def test_a_missing_workdir_is_named(ctx: Any, call: Any) -> None:
    with pytest.raises(ToolFailure, match="nowhere does not exist"):
        await call(bash.TOOL, ctx, command="true", workdir="nowhere")


async def test_output_is_shown_while_the_command_runs(ctx: Any, call: Any, project: Path) -> None:
    # The command waits until what it printed was shown: the tool must not hold it back to the end.
    def release() -> None:
        (project / ctx.shown[-1]["output"].split()[-1]).touch()

    ctx.on_metadata = release
    wait = "until [ -e {} ]; do sleep 0.01; done"
    text = f"echo first; {wait.format('first')}; echo second; {wait.format('second')}; echo done"
    result = await call(bash.TOOL, ctx, command=text)
    assert result.output == "first\nsecond\ndone\n"
    assert ctx.shown[0] == {"output": "first\n"}


async def test_a_flood_is_shown_at_intervals_and_kept_at_both_ends(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="echo begin; yes 0123456789 | head -c 3000000; echo end")
    assert len(ctx.shown) < 30
    assert result.output.startswith("begin\n0123456789\n")
    assert result.output.endswith("end\n")
    kept = bash.HEAD + bash.TAIL
    assert f"... {3_000_000 + 10 - kept} bytes left out ..." in result.output
    assert len(result.metadata["output"]) == bash.SHOWN + 5
    assert result.metadata["output"].endswith("end\n")


async def test_output_that_is_no_utf_8_is_shown_as_far_as_it_goes(ctx: Any, call: Any) -> None:
    assert (await call(bash.TOOL, ctx, command="printf 'a\\377b'")).output == "a\ufffdb"


@pytest.mark.slow
async def test_a_timeout_ends_the_command_and_keeps_its_output(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="echo begun; sleep 60", timeout=3000)
    assert result.output.startswith("begun\n\n\n<shell_metadata>\nThe command timed out after 3000 ms")
    assert result.output.endswith("</shell_metadata>")
    assert result.metadata["exit"] is None


async def test_a_timeout_is_counted_as_the_longest_when_it_is_longer() -> None:
    assert bash.MAX_TIMEOUT == 600_000
    assert bash.PARAMETERS["properties"]["timeout"]["maximum"] > bash.MAX_TIMEOUT


async def test_a_signal_is_named(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="echo x; kill -9 $$")
    assert "ended by signal 9 (Killed)" in result.output
    assert result.metadata["exit"] is None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "cancel", "exit"])
async def test_nothing_that_a_command_started_is_left_running(ctx: Any, project: Path, how: str) -> None:
    seconds = 3 if how == "timeout" else 30
    text = "sleep 60 >/dev/null 2>&1 & echo $! > pid" + ("" if how == "exit" else "; sleep 60")
    task = asyncio.create_task(bash.execute({"command": text, "timeout": int(seconds * 1000)}, ctx))
    deadline = time.monotonic() + 20
    while not ((project / "pid").exists() and (project / "pid").read_text()) and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    if how == "cancel":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    assert not lives(int((project / "pid").read_text()))


@pytest.mark.parametrize(
    ("command", "patterns", "always"),
    [
        ("git status && rm x", ["git status", "rm x"], ["git status", "rm x"]),
        ("ls", ["ls"], ["ls"]),
    ],
)
def test_permission_is_asked_for_each_simple_command(
    ctx: Any, command: str, patterns: list[str], always: list[str]
) -> None:
    (ask,) = bash.permissions({"command": command}, ctx)
    assert (ask.permission, list(ask.patterns), list(ask.always)) == ("bash", patterns, always)


def test_a_workdir_outside_needs_its_own_permission(ctx: Any, tmp_path: Path) -> None:
    outside, ask = bash.permissions({"command": "ls", "workdir": ".."}, ctx)
    assert (outside.permission, outside.patterns) == ("external_directory", [f"{tmp_path}/*"])
    assert ask.permission == "bash"


async def test_a_description_becomes_the_title(ctx: Any, call: Any) -> None:
    result = await call(bash.TOOL, ctx, command="true", description="Does nothing")
    assert result.title == result.metadata["description"] == "Does nothing"
