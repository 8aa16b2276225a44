"""The terminals of an instance, where a server is not needed to see it."""

import asyncio
import os
from pathlib import Path

import pytest

from instar.plugin import Invalid, NotFound
from instar.process import Processes
from instar.runtime import Runtime
from instar.runtime.plugin_context import Options
from instar.terminal import Full, Terminal, TerminalRequest, described
from instar.testing import Machine

pytest_plugins = ["tests.turn"]

READS = TerminalRequest(command="/bin/sh", args=["-c", "read x"])


@pytest.fixture
async def runtime(house: Machine):
    house.says("== turn\ntext: hi\n")
    async with await Runtime.open(Options(house.folder, house.environment)) as opened:
        yield opened


@pytest.mark.slow
async def test_only_so_many_programs_run_at_once(runtime, monkeypatch):
    monkeypatch.setattr("instar.terminal.MOST", 2)
    made = await asyncio.gather(*(runtime.terminals.create(READS) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in made].count(Invalid) == 1
    await runtime.terminals.remove(runtime.terminals.list()[0].id)
    await runtime.terminals.create(READS)
    assert len(runtime.terminals.list()) == 2


@pytest.mark.slow
async def test_of_those_that_have_exited_the_newest_are_listed(runtime, monkeypatch):
    monkeypatch.setattr("instar.terminal.KEPT", 2)
    open_one = await runtime.terminals.create(READS, lasting=True)
    made = []
    for _ in range(4):
        made.append((await runtime.terminals.create(TerminalRequest(command="true"), lasting=True)).id)
        async with asyncio.timeout(10):
            while runtime.terminals.get(made[-1]).info.status == "running":
                await asyncio.sleep(0)
    assert [one.id for one in runtime.terminals.list()] == [open_one.id, *made[2:]]
    with pytest.raises(NotFound):
        runtime.terminals.get(made[0])


async def test_a_closed_instance_opens_none(runtime):
    made = await runtime.terminals.create(READS)
    await runtime.close()
    assert runtime.terminals.list() == []
    with pytest.raises(ProcessLookupError):
        os.kill(made.pid, 0)
    with pytest.raises(Invalid):
        await runtime.terminals.create(READS)


async def test_a_start_that_is_given_up_leaves_nothing(tmp_path: Path):
    processes, before = Processes(), len(os.listdir("/proc/self/fd"))
    terminal = Terminal(described("pty_1", "", "sleep", ["1000"], tmp_path), lasting=False)
    starting = asyncio.create_task(terminal.start(processes, dict(os.environ), lambda one: None))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert terminal.over
    terminal.write(b"x")
    terminal.resize(1, 1)
    assert await terminal.read(0, 10) == ("", 0)
    await processes.close()
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_what_is_typed_waits_for_the_program_up_to_a_bound(tmp_path: Path):
    processes = Processes()
    script = "stty raw -echo; echo READY; read -r x; wc -c"
    terminal = Terminal(described("pty_1", "", "/bin/sh", ["-c", script], tmp_path), lasting=False)
    await terminal.start(processes, dict(os.environ), lambda one: None)
    text, place = "", 0
    while "READY" not in text:
        piece, place = await terminal.read(place, 100)
        text += piece
    terminal.write(b"a" * 600_000)
    with pytest.raises(Full):
        terminal.write(b"a" * 600_000)
    await terminal.end()
    await processes.close()
    assert terminal.over


async def test_what_was_printed_before_the_exit_is_read_also_when_there_was_no_time_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("instar.terminal._REST", 0)
    monkeypatch.setattr("instar.terminal._AT_ONCE", 8)
    processes, exited = Processes(), asyncio.Event()
    terminal = Terminal(described("pty_1", "", "sh", ["-c", "printf %2000s end"], tmp_path), lasting=True)
    await terminal.start(processes, dict(os.environ), lambda one: exited.set())
    async with asyncio.timeout(10):
        await exited.wait()
    assert (await terminal.read(0, 4000))[0] == " " * 1997 + "end"
    await terminal.end()
    await processes.close()
