"""The campaign of kills: it finds what it is there to find, and twenty kills lose nothing."""

import contextlib
import importlib
import json
import random
import sqlite3
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from tests.campaign import kills
from tests.campaign.kills import MARK, Machine

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which one prompt was answered."""
    found = Machine(tmp_path / "machine", random.Random(1))
    command = [sys.executable, "-m", "instar", "run", "--format", "json", "add one"]
    found.told.sent["add one"] = found.told.accepted["add one"] = ""
    done = subprocess.run(
        command, cwd=found.project, env=found.environment, capture_output=True, check=True, timeout=30
    )
    found.told.read(done.stdout)
    assert len(found.told.parts) > 3
    return found


@pytest.mark.parametrize("step", kills.STEPS)
def test_each_named_step_is_a_function(step: str) -> None:
    module, name = kills.STEPS[step]
    assert callable(attrgetter(name)(importlib.import_module(module)))


def change(machine: Machine, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(machine.database)) as store, store:
        assert store.execute(statement).rowcount > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE part SET data = json_set(data, '$.text', 'x') WHERE data LIKE '%all done%'",
            "its last event",
        ),
        ("DELETE FROM part WHERE data LIKE '%all done%'", "its last event"),
        ("DELETE FROM message WHERE data LIKE '%assistant%'", "its last event"),
        ("DELETE FROM event WHERE data LIKE '%done-one%'", "was printed"),
        ("DELETE FROM event WHERE seq = 3", "doubled or lost"),
        ("DELETE FROM part WHERE data LIKE '%add one%'", "the prompt 'add one'"),
        (
            "UPDATE part SET data = json_set(data, '$.text', 'add one') WHERE data LIKE '%all done%'",
            "last event",
        ),
    ],
)
def test_what_is_lost_is_found(machine: Machine, statement: str, said: str) -> None:
    assert list(machine.check()) == []
    change(machine, statement)
    assert said in " ".join(machine.check())


def test_an_effect_that_is_there_twice_and_a_process_that_lives_on_are_found(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.project / "effects.txt"
    assert path.read_text() == "one\n"
    path.write_text("one\none\n")
    assert list(machine.check()) == ["doubled: the effect one is there 2 times"]
    monkeypatch.setattr(kills, "SLOW", 0.1)
    with subprocess.Popen(["sleep", "30"], env={MARK: "r1;"}) as left:
        machine.killed = {"r1": 1.0, "r2": 1.0}
        assert [one.partition(" of ")[0] for one in machine.orphans()] == [f"orphan: process {left.pid}"]
    assert left.returncode < 0
    assert list(machine.orphans()) == []


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for count in (10, 20):
        command = [
            sys.executable,
            "-m",
            "tests.campaign.kills",
            "--json",
            "--seed",
            "7",
            "--state",
            str(state),
        ]
        done = subprocess.run(
            [*command, "--count", str(count)], cwd=ROOT, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["done"], report["findings"]) == (count, [])
    assert report["counts"]["kills of serve"] + report["counts"]["kills of run"] >= 15
