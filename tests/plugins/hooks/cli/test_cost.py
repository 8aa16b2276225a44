"""With no rules, nothing of hooks costs time; a command rule costs no more than its process."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.plugins.hooks.cli.conftest import Ruled
from tests.plugins.hooks.making import event, rule

from instar.plugins.hooks import match
from instar.plugins.hooks.runner import EvaluationContext, evaluate
from instar.plugins.hooks.sources import ActiveRules
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths


def modules(machine: Ruled) -> set[str]:
    """The modules of the plugin that a run loads."""
    machine.environment["INSTAR_TRUST"] = "all"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "instar", "run", "-m", "scripted/echo", "hi"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout.strip() == "hi"
    loaded = (line.rpartition("|")[2].strip() for line in done.stderr.splitlines())
    return {name for name in loaded if name.startswith("instar.plugins.hooks")}


@pytest.mark.slow
def test_without_rules_nothing_of_the_plugin_is_loaded(machine: Ruled) -> None:
    machine.write(".claude/notes.md", "no rules")
    assert modules(machine) == set()
    machine.rules({"Stop": [{"hooks": [{"command": "true"}]}]})
    assert "instar.plugins.hooks.sources" in modules(machine)


def test_rules_that_an_event_does_not_meet_take_microseconds() -> None:
    rules = [rule(matcher="edit|write"), rule("PostToolUse")] * 100
    happened = event(tool="bash", input={"command": "ls"})
    took = []
    for _ in range(20):
        began = time.perf_counter()
        assert match.matched(rules, happened, Path("/home")) == []
        took.append(time.perf_counter() - began)
    assert min(took) / len(rules) < 0.0001


@pytest.mark.slow
async def test_a_command_rule_takes_no_more_than_its_process(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    processes = Processes()
    children = Children(processes, Paths.from_environment(environment), environment, at_most="none")
    means = EvaluationContext(children, ActiveRules(tmp_path, tmp_path, tmp_path, environment))
    one = rule(command="true")
    happened = event(tool="bash", input={"command": "ls"}, directory=tmp_path)

    async def bare() -> None:
        await children.run(["sh", "-c", "true"], cwd=tmp_path, env=environment, stdin=b"{}", timeout=60)

    async def judged() -> None:
        found = await evaluate(one, happened, means)
        assert (found.action, found.trace.code) == ("none", 0)

    try:
        pairs = [(await _took(bare), await _took(judged)) for _ in range(40)]
    finally:
        await children.close()
        await processes.close()
    plain, full = (min(column) for column in zip(*pairs, strict=True))
    # Beside its process a rule makes a payload and reads an answer; 10 ms are for a machine that is busy.
    assert full < plain + 0.010


async def _took(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await asyncio.wait_for(work(), 20)
    return time.perf_counter() - began
