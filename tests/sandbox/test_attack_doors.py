"""The attacks as the product meets them: by the model's bash, by a hook script that it made, by a candidate's test."""

import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.sandbox.attacks import CANDIDATES, OF_LIMITS, READS, WAYS, WRITES
from tests.sandbox.conftest import REACHED, Home, Listeners
from tests.sandbox.siege import Siege, by_bash, by_candidate, by_tool, made

from instar.testing import Machine

SHIELDED = WRITES | {f"read {name}": case for name, case in READS.items()} | WAYS
TRIED = {name: script for name, script in CANDIDATES.items() if name not in OF_LIMITS}


@pytest.fixture
def variables(outside: subprocess.Popen[bytes], listeners: Listeners) -> dict[str, str]:
    return {"PID": str(outside.pid), **listeners.environment()}


@pytest.fixture
async def house(tmp_path: Path, clean_environment: Mapping[str, str]) -> AsyncIterator[Machine]:
    made = Machine(tmp_path, clean_environment)
    yield made
    await made.close()


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_a_hook_script_that_the_agent_made_gets_past_no_guard_but_modes_and_times(
    at: str, house: Machine, home: Home, variables: dict[str, str]
) -> None:
    siege = Siege(house, home, at, variables)
    first = made({**home.environment(), **variables})
    found = await siege.run(by_tool, [script for script, _ in SHIELDED.values()], first)
    got = {name for name, one in zip(SHIELDED, found, strict=True) if one.through}
    assert got == ({"change modes", "change times", "change attributes"} if at == "landlock" else set())


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_a_session_gets_past_no_guard_but_those_that_the_page_names(
    at: str, house: Machine, home: Home, variables: dict[str, str]
) -> None:
    siege = Siege(house, home, at, variables)
    found = await siege.run(by_bash, [script for script, _ in SHIELDED.values()])
    got = {name: one for name, one in zip(SHIELDED, found, strict=True) if one.through}
    assert {name: one for name, one in got.items() if SHIELDED[name][1] != at} == {}
    assert got.keys() == {name for name, (_, level) in SHIELDED.items() if level == at}


@pytest.mark.slow
@pytest.mark.parametrize("at", REACHED)
async def test_a_candidates_test_reaches_nothing_but_its_copy(
    at: str, house: Machine, home: Home, variables: dict[str, str]
) -> None:
    siege = Siege(house, home, at, variables)
    inside = {**home.environment(), **variables, "API_KEY": ""}
    found = await siege.run(by_candidate(inside), list(TRIED.values()))
    assert {name: one for name, one in zip(TRIED, found, strict=True) if one.through} == {}
    assert all("siege_test.sh" in one.output for one in found)
