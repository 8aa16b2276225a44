"""A plugin that guards: that it is skipped is said before the first step, and nothing runs where it is required."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.turn import reload

from instar.testing import Machine

GUARD = """
async def guard(input, options):
    assert options == {"level": 2}
    async def before(given, output):
        raise ValueError("not now")
    return {"tool.execute.before": before}
"""
PLUGINS = {
    "a package that npm does not find": "npm:no-such-guard",
    "a Python package that is not there": "no_such_guard==1.2",
    "a file that is not there": "./gone.py",
    "a file with a mistake": "./broken.py",
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, trusted=False)
    made.environment |= {"npm_config_registry": "http://127.0.0.1:9", "npm_config_fetch_retries": "0"}
    made.write("broken.py", "def guard(:\n")
    made.write("guard.py", GUARD)
    made.says('== turn\ntool: bash {"command": "touch ran"}\n== turn\ntext: {{last.tool.output}}\n')
    return made


def named(machine: Machine, *plugins: Any) -> None:
    machine.write("instar.json", json.dumps({"plugin": plugins, "model": "scripted/x"}))


@pytest.mark.parametrize("what", PLUGINS)
@pytest.mark.parametrize("required", [True, False])
def test_a_plugin_that_is_skipped_is_said_first_and_nothing_runs_where_it_is_required(
    machine: Machine, what: str, required: bool
) -> None:
    named(machine, [PLUGINS[what], {"required": required}])
    machine.environment["INSTAR_TRUST"] = "all"
    done = machine.run("run", "--auto", "go")
    assert (machine.folder / "ran").exists() is not required
    assert done.returncode == int(required), done.stderr
    first = done.stderr.splitlines()[0]
    assert PLUGINS[what].removeprefix("./") in first
    assert ('"required"' if required else "is skipped") in first
    assert "Traceback" not in done.stderr


def test_a_required_plugin_that_was_not_accepted_is_not_there(machine: Machine) -> None:
    named(machine, ["./guard.py", {"required": True, "level": 2}])
    (machine.folder / "guard.py").rename(machine.folder / "later.py")
    machine.trust()
    (machine.folder / "later.py").rename(machine.folder / "guard.py")
    done = machine.run("run", "--auto", "go")
    assert done.returncode == 1
    assert '"required"' in done.stderr
    assert not (machine.folder / "ran").exists()
    machine.trust()
    assert "not now" in machine.run("run", "--auto", "go").stdout


async def test_a_reload_takes_nothing_up_that_leaves_a_required_plugin_out(machine: Machine) -> None:
    machine.environment["INSTAR_TRUST"] = "all"
    named(machine, ["./guard.py", {"required": True, "level": 2}])
    async with machine:
        door = await machine.open()
        named(machine, ["./gone.py", {"required": True}])
        what, (problem,) = await reload(door)
        assert (what, '"required"' in problem) == ([], True)
        await door.ask(await door.session(), "go")
    assert not (machine.folder / "ran").exists()
