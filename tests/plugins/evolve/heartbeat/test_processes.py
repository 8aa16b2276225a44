"""Several instars on one workspace, in real processes that are killed: one beats at a time, and no beat twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.owner import Owner

PROCESS = """\
import asyncio, os, pathlib, signal, sys
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome
from instar.plugins.evolve.heartbeat.scheduler import Scheduler, SystemClock

folder = pathlib.Path(sys.argv[1])
# A shell's background command, as this run of the tests may be one, ignores it, and a child would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def beat(begun):
    handle = os.open(folder / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{begun.number} {os.getpid()}\\n".encode())
    os.close(handle)
    await asyncio.sleep(0.002)
    return BeatOutcome("ses_1", 1)

async def free():
    return ""

book = HeartbeatBook(Database(folder, durable=False))
asyncio.run(Scheduler(book, Owner(folder), beat, lambda: 5, free, SystemClock(), 0.02).run())
"""


@pytest.fixture
def start(tmp_path):
    children = []

    def begin():
        child = subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path)])
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            child.kill()
        child.wait()


def runs(folder: Path) -> list[tuple[int, int]]:
    try:
        lines = (folder / "runs").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


@pytest.mark.slow
def test_one_beats_another_takes_over_when_it_is_killed_and_no_beat_runs_twice(start, tmp_path):
    children = {child.pid: child for child in (start() for _ in range(3))}
    killed = set()
    while len(killed) < 3:
        # Each owner beats a while before it dies in the middle of something.
        wait_until(lambda: len([pid for _, pid in runs(tmp_path) if pid not in killed]) >= 20)
        owner = Owner(tmp_path).who()
        if owner in children and owner not in killed:
            os.kill(owner, signal.SIGKILL)
            children[owner].wait()
            killed.add(owner)
    numbers = [number for number, _ in runs(tmp_path)]
    assert numbers == sorted(set(numbers))
    assert len({pid for _, pid in runs(tmp_path)}) == 3
    last = start()
    wait_until(lambda: any(pid == last.pid for _, pid in runs(tmp_path)))
    last.send_signal(signal.SIGINT)
    last.wait(30)
    entries = HeartbeatBook(Database(tmp_path)).entries()
    spans = [number for entry in entries for number in range(entry.number, entry.number + entry.times)]
    assert spans == list(range(spans[0], spans[-1] + 1))
    ran = {entry.number for entry in entries if entry.kind in ("ran", "interrupted", "failed")}
    assert {number for number, _ in runs(tmp_path) if number >= spans[0]} <= ran
    assert HeartbeatBook(Database(tmp_path)).state.beat is None
    assert Owner(tmp_path).who() is None
