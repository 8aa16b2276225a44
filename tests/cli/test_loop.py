"""What a plugin in Python does to the event loop that it shares with a command."""

import signal
import subprocess
import time

import pytest
from tests.cli.conftest import COMMAND

HOOK = """
import asyncio, time

async def guard(input, options):
    async def before(given, output):
{body}
    return {{"tool.execute.before": before}}
"""
SCRIPT = '== turn\ntool: read {"filePath": "a.txt"}\n\n== turn\ntext: done\n'


@pytest.fixture
def plugin(machine):
    """Write a plugin whose hook does this before each call, and a model that makes one."""

    def written(*body: str):
        machine.write_home("plugin/guard.py", HOOK.format(body="\n".join(f"        {line}" for line in body)))
        machine.script(SCRIPT)
        machine.write("a.txt", "hello")
        return machine

    return written


@pytest.mark.slow
def test_a_plugin_that_makes_the_event_loop_stand_is_named_with_its_line(plugin):
    done = plugin("time.sleep(11)").run("read")

    assert "done" in done.stdout
    (said,) = (line for line in done.stderr.splitlines() if "nothing has gone on for 5 s" in line)
    assert "plugin/guard.py, line 6, in before: time.sleep(11)" in said
    assert "A plugin must not block" in said


@pytest.mark.slow
def test_a_program_that_was_stopped_for_a_while_names_nobody(machine):
    machine.script("== turn\ndelay: 2s\ntext: done\n")
    run = subprocess.Popen(
        [*COMMAND, "run", "-m", "scripted/test", "wait"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(1)
    run.send_signal(signal.SIGSTOP)
    # As long as a plugin would have to block, and twice the time between two looks.
    time.sleep(12)
    run.send_signal(signal.SIGCONT)
    out, error = run.communicate(timeout=60)

    assert b"done" in out
    assert b"nothing has gone on" not in error


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit(3)"])
def test_what_a_task_of_a_plugins_own_raises_ends_no_turn(plugin, raised):
    late = f"async def late(): raise {raised}"
    machine = plugin(late, "asyncio.create_task(late())", "await asyncio.sleep(0.05)")

    done = machine.run("read")

    assert (done.returncode, "done" in done.stdout) == (0, True), done.stderr
    assert f"raised {raised.partition('(')[0]}" in done.stderr
