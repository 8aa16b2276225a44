"""How a confined program ended is seen as if it were not confined, and so is why it did not start."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.sandbox.conftest import Home

from instar.process import Ending, Output, ProcessError, Processes
from instar.process.confine import Confinement
from instar.sandbox import bubblewrap
from instar.sandbox.box import Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Copy, copy_of
from instar.sandbox.probe import find_level

if TYPE_CHECKING:
    from instar.sandbox.shield import Shield

CONFINES = ["shield", "shield without Landlock", "sandbox"]


@pytest.fixture(params=CONFINES)
def confine(request: pytest.FixtureRequest, home: Home, copied: Copy, level: Level) -> Confinement:
    if request.param == "sandbox":
        return Sandbox(level, copied)
    return home.shield(level, inside=request.param == "shield")


async def run(
    processes: Processes, home: Home, confine: Confinement | None, *argv: str, timeout: float = 20
) -> Output:
    environment = home.environment()
    return await processes.run(argv, cwd=home.workspace, env=environment, timeout=timeout, confine=confine)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code", "signal"),
    [
        ("kill -9 $$", None, 9),
        ("kill -SEGV $$", None, 11),
        ("kill -TERM $$", None, 15),
        ("exit 0", 0, None),
        ("exit 137", 137, None),
        ("sleep 60 & kill -9 $!; wait $!", 137, None),
        ("exit 255", 255, None),
    ],
)
async def test_a_signal_and_a_code_that_looks_like_one_are_told_apart(
    processes: Processes, home: Home, confine: Confinement, script: str, code: int | None, signal: int | None
) -> None:
    done = await run(processes, home, confine, "sh", "-c", f"echo said; {script}")
    assert (done.code, done.signal, done.stdout, done.timed_out) == (code, signal, b"said\n", False)


FILES = {
    "no-interpreter": ("#!/none/such -x\n", 0o755),
    "carriage-return": ("#!/bin/sh\r\n", 0o755),
    "no-first-line": ("echo x\n", 0o755),
    "no-run-bit": ("#!/bin/sh\n", 0o644),
}


@pytest.fixture
def files(home: Home) -> Home:
    for name, (text, mode) in FILES.items():
        path = home.workspace / name
        path.write_bytes(text.encode())
        path.chmod(mode)
    return home


@pytest.fixture
def place(files: Home, level: Level) -> Iterator[Copy]:
    with copy_of(files.workspace, level) as made:
        yield made


@pytest.mark.slow
async def test_why_a_program_does_not_start_is_said_in_the_same_words_confined_or_not(
    processes: Processes, files: Home, place: Copy, level: Level
) -> None:
    for confine, folder in (
        (files.shield(level), files.workspace),
        (files.shield(level, inside=False), files.workspace),
        (Sandbox(level, place), place.folder),
    ):
        for name in (*FILES, "gone", "src", "no-run-bit/x"):
            assert await failure(processes, files, confine, str(folder / name)) == (
                await failure(processes, files, None, str(files.workspace / name))
            ).replace(str(files.workspace), str(folder))
        assert await failure(processes, files, confine, "no-such-program") == (
            "cannot start no-such-program: there is no such program on the PATH"
        )


async def failure(processes: Processes, home: Home, confine: Confinement | None, name: str) -> str:
    with pytest.raises(ProcessError) as failed:
        await run(processes, home, confine, name, "an argument")
    assert not failed.value.closing
    return str(failed.value)


async def test_an_interpreter_is_missing_where_the_sandbox_does_not_show_it(
    processes: Processes, home: Home, level: Level, tmp_path: Path
) -> None:
    interpreter = Path(shutil.copy(os.path.realpath("/bin/sh"), tmp_path / "interpreter"))
    script = home.workspace / "hook"
    script.write_text(f"#!{interpreter}\nexit 7\n")
    script.chmod(0o755)
    assert (await run(processes, home, None, str(script))).code == 7
    with copy_of(home.workspace, level) as copy:
        said = await failure(processes, home, Sandbox(level, copy), str(copy.folder / "hook"))
    words = "may not be run here" if level.name == "landlock" else "does not exist"
    assert f"its interpreter {interpreter}" in said
    assert said.endswith(words)


async def test_a_program_dies_with_what_waits_for_it(processes: Processes, home: Home) -> None:
    shield: Shield = home.shield(await find_level(processes, os.environ), inside=False)
    done = await run(processes, home, shield, "sh", "-c", "kill -9 $PPID; sleep 15; echo lived")
    assert (done.stdout, done.timed_out) == (b"", False)
    assert (done.code, done.signal) in [(137, None), (None, 9)]


@pytest.mark.slow
async def test_the_program_cannot_open_what_is_reported_to(processes: Processes, home: Home) -> None:
    shield = home.shield(await find_level(processes, os.environ))
    seek = "for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in /memfd:instar*) echo $f;; esac; done"
    done = await run(processes, home, shield, "sh", "-c", f"({seek}) 2>/dev/null; exit 3")
    assert (done.code, done.stdout) == (3, b"")


@given(some.binary(max_size=60) | some.from_regex(rb"(signal|start) [0-9a-f ]{0,40}", fullmatch=True))
def test_a_report_that_says_nothing_known_says_nothing(said: bytes) -> None:
    descriptor = bubblewrap.memory(b"policy" + said)
    try:
        found = bubblewrap.ending(descriptor, 6, ["x"])
    finally:
        os.close(descriptor)
    assert found == Ending() or said.startswith((b"signal ", b"start "))
    assert found.signal is None or 1 <= found.signal <= 64
    assert not found.failure or found.failure.startswith("cannot start x: ")
