"""What a shielded child, and a candidate in the sandbox, may try: nothing guarded changes and nothing stays behind.

One child a case, as `Processes.run` starts it; `test_attack_doors.py` makes the same attempts through a session.
"""

import subprocess

import pytest
from tests.sandbox.attacks import CANDIDATES, READS, WAYS, WRITES
from tests.sandbox.conftest import KEY, NAP, Home, Listeners, assert_nothing_runs, sandboxed, shielded

from instar.process import Processes
from instar.sandbox.level import Level
from instar.sandbox.place import Copy


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITES)
async def test_nothing_guarded_is_changed_by_a_shielded_child(
    name: str, processes: Processes, home: Home, level: Level, outside: subprocess.Popen[bytes]
) -> None:
    script, open_at = WRITES[name]
    before = home.guarded()
    done = await shielded(processes, home, level, script, PID=str(outside.pid))
    assert not done.timed_out, done.stdout
    assert (home.guarded() == before) is (level.name != open_at), done.stdout.decode()
    assert_nothing_runs(f"sleep {NAP}")


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
async def test_the_key_is_not_read_by_a_shielded_child(
    name: str, processes: Processes, home: Home, level: Level, outside: subprocess.Popen[bytes]
) -> None:
    script, _ = READS[name]
    done = await shielded(processes, home, level, script, PID=str(outside.pid))
    assert KEY.encode() not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
async def test_a_way_around_the_shield_is_closed(
    name: str,
    processes: Processes,
    home: Home,
    level: Level,
    outside: subprocess.Popen[bytes],
    listeners: Listeners,
) -> None:
    script, open_at = WAYS[name]
    more = listeners.environment()
    done = await shielded(processes, home, level, script, PID=str(outside.pid), **more)
    assert (b"OPEN" in done.stdout) is (level.name == open_at), done.stdout.decode()
    assert_nothing_runs(f"sleep {NAP}")


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
async def test_a_candidate_reaches_nothing_but_its_copy(
    name: str,
    processes: Processes,
    home: Home,
    level: Level,
    copied: Copy,
    outside: subprocess.Popen[bytes],
    listeners: Listeners,
) -> None:
    before = home.guarded()
    source = (home.workspace / "src/main.py").read_text()
    more = listeners.environment()
    done = await sandboxed(processes, home, copied, level, CANDIDATES[name], PID=str(outside.pid), **more)
    assert not done.timed_out
    assert b"OPEN" not in done.stdout, done.stdout.decode()
    assert KEY.encode() not in done.stdout
    assert home.guarded() == before
    assert (home.workspace / "src/main.py").read_text() == source
    assert outside.poll() is None
    assert_nothing_runs(f"sleep {NAP}")
