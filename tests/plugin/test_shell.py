"""A plugin's children: results, failures that say why, and programs that end with their plugin."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from instar.plugin.shell import Shell, ShellError
from instar.process import Processes


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    processes = Processes()
    yield Shell(processes, tmp_path, {"PATH": "/usr/bin:/bin", "WHO": "Ada"}, "mine")
    await processes.close()


async def test_a_command_line_runs_in_the_directory_with_the_instances_environment(
    shell: Shell, tmp_path: Path
) -> None:
    result = await shell("pwd; echo $WHO; echo $MORE", env={"MORE": "and more"})
    assert result.lines() == [str(tmp_path), "Ada", "and more"]
    assert (result.code, result.text().splitlines()) == (0, result.lines())


async def test_words_reach_a_command_line_as_they_are(shell: Shell) -> None:
    assert (await shell('printf %s "$1"', "a'; rm -rf $HOME")).text() == "a'; rm -rf $HOME"


async def test_a_program_reads_what_it_is_given_and_its_json_is_read(shell: Shell) -> None:
    assert (await shell.run(["cat"], stdin='{"n": [1, 2]}')).json() == {"n": [1, 2]}
    with pytest.raises(ShellError, match="`echo hi` printed no JSON"):
        (await shell.run(["echo", "hi"])).json()


async def test_a_failure_says_code_and_stderr_unless_nobody_wants_to_hear_of_it(shell: Shell) -> None:
    with pytest.raises(ShellError, match="failed with code 3: it broke") as failed:
        await shell("echo it broke >&2; exit 3")
    assert failed.value.result is not None
    assert failed.value.result.code == 3
    assert (await shell("exit 3", nothrow=True)).code == 3


@pytest.mark.parametrize(
    ("argv", "options", "why"),
    [
        (["no-such-program-here"], {"nothrow": True}, "no such program on the PATH"),
        (["sleep", "60"], {"timeout": 0.05, "nothrow": True}, "took longer than 0.05 s"),
        (["sh", "-c", "kill -9 $$"], {}, "was ended by signal 9"),
    ],
)
async def test_what_did_not_run_to_its_end_is_always_said(
    shell: Shell, argv: list[str], options: dict[str, float], why: str
) -> None:
    with pytest.raises(ShellError, match=why):
        await shell.run(argv, **options)


async def test_a_background_program_writes_to_the_log_and_ends_when_it_is_told_to(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.plugin")
    server = shell.background([sys.executable, "-uc", "print('ready'); import time; time.sleep(600)"])
    async with asyncio.timeout(10):
        while "line=ready" not in caplog.text:
            await asyncio.sleep(0.005)
    assert server.running
    await server.stop()
    assert not server.running
    assert await server.wait() is None


async def test_a_background_program_that_ends_gives_its_code_and_one_that_cannot_start_says_why(
    shell: Shell,
) -> None:
    assert await shell.background(["sh", "-c", "exit 4"]).wait() == 4
    with pytest.raises(ShellError, match="no such program"):
        await shell.background(["no-such-program-here"]).wait()


async def test_closing_ends_what_runs_in_the_background(shell: Shell) -> None:
    server = shell.background(["sleep", "600"])
    await asyncio.sleep(0)
    await shell.close()
    assert not server.running
