"""The sandbox: what a candidate has, and the limits that end it."""

import os
import sys
from pathlib import Path

import pytest
from tests.sandbox.conftest import KEY, NAP, Home, assert_nothing_runs, sandboxed
from tests.waiting import SOON

from instar.process import ProcessError, Processes
from instar.sandbox.box import Limits, Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Copy, copy_of
from instar.sandbox.probe import find_level

# The kernel does not count root's processes: as root a real bomb would be the machine's, until the time is over.
BOMB = (
    ":(){ :|:& };:; sleep 4711" if os.getuid() else "for i in $(seq 200); do setsid sleep 4711 & done; wait"
)


async def test_a_candidate_works_on_its_copy_and_the_original_stays(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    (copied.changes / "hooks").mkdir(exist_ok=True)
    (copied.changes / "hooks/b.py").write_text("print('candidate')\n")
    script = (
        '"$PY" hooks/b.py; cat src/main.py; echo changed > src/main.py; rm -r tests; echo made > made; ls'
    )
    done = await sandboxed(processes, home, copied, level, script)
    assert done.code == 0, done.stdout
    assert done.stdout.decode().splitlines() == ["candidate", "code", "hooks", "made", "notes", "src"]
    assert (copied.changes / "made").read_text() == "made\n"
    again = await sandboxed(processes, home, copied, level, "cat src/main.py; test -e tests")
    assert (again.code, again.stdout) == (1, b"changed\n")
    assert (home.workspace / "src/main.py").read_text() == "code\n"
    assert not (home.workspace / "made").exists()
    assert not (home.workspace / "hooks/b.py").exists()


async def test_a_candidate_sees_the_workspace_at_its_own_path_behind_mounts(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    done = await processes.run(
        ["pwd"], cwd=home.workspace / "src", env=home.environment(), confine=Sandbox(level, copied)
    )
    assert done.stdout.decode() == f"{copied.folder / 'src'}\n"
    assert (copied.folder == home.workspace) is (level.name == "bubblewrap")


async def test_the_environment_is_what_was_named(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    env = {**home.environment(), "LANG": "C.UTF-8", "MINE": "1", "API_KEY": KEY, "SECRET": KEY}
    sandbox = Sandbox(level, copied, keep=frozenset(("MINE",)))
    done = await processes.run(["env"], cwd=home.workspace, env=env, confine=sandbox)
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert names - {"OLDPWD", "PWD"} == {"PATH", "LANG", "MINE", "HOME", "TMPDIR", "INSTAR_RUN"}


async def test_this_python_and_its_packages_run(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    program = (
        "import json, ssl, sqlite3, subprocess, tempfile, asyncio; "
        "asyncio.run(asyncio.sleep(0)); print(tempfile.mkdtemp())"
    )
    sandbox = Sandbox(level, copied, Limits(memory=4 << 30))
    done = await processes.run(
        [sys.executable, "-c", program], cwd=home.workspace, env=home.environment(), confine=sandbox
    )
    assert done.code == 0, done.stderr.decode()
    folder = "/tmp" if level.name == "bubblewrap" else str(copied.scratch / "tmp")
    assert done.stdout.decode().startswith(folder)
    assert not Path(done.stdout.decode().strip()).exists() or level.name == "landlock"


async def test_a_named_folder_can_be_read(
    processes: Processes, home: Home, level: Level, copied: Copy, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/f").write_text("shared")
    sandbox = Sandbox(level, copied, readable=(tmp_path / "shared",))
    script = f"cat {tmp_path}/shared/f; echo x > {tmp_path}/shared/f"
    done = await processes.run(
        ["sh", "-c", script], cwd=home.workspace, env=home.environment(), confine=sandbox
    )
    assert done.stdout == b"shared"
    assert (tmp_path / "shared/f").read_text() == "shared"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "timeout"),
    [
        ("while :; do :; done", 60.0),
        ("sleep 4711", 0.3),
        ("for i in $(seq 20); do sleep 4711 & done; wait", 0.3),
        ("trap '' TERM INT HUP; while :; do sleep 0.1; done", 0.5),
        (BOMB, 1.0),
    ],
    ids=["a loop", "waiting", "many", "deaf", "a fork bomb"],
)
async def test_a_candidate_that_does_not_end_is_ended(
    script: str, timeout: float, processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    done = await sandboxed(processes, home, copied, level, script, timeout)
    assert done.timed_out or done.code != 0
    # A second of processor time may take a while: the loop has a minute, and needs none of it to be ended.
    assert done.duration < 2 * SOON


@pytest.mark.slow
async def test_a_flood_of_output_is_cut_and_does_not_fill_anything(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    done = await sandboxed(processes, home, copied, level, "head -c 30000000 /dev/zero")
    assert (len(done.stdout), done.truncated, done.size) == (1 << 16, True, 30_000_000)


async def test_memory_backed_folders_have_a_size(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    if level.name == "landlock":
        return
    script = (
        "ulimit -f unlimited; for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > /tmp/$i || exit 9; done"
    )
    done = await sandboxed(processes, home, copied, level, script)
    assert done.code == 9
    assert b"No space left" in done.stdout


async def test_without_a_level_nothing_is_run(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    none = Level("none", missing="bubblewrap is not installed", todo="apt install bubblewrap")
    with pytest.raises(
        ProcessError, match="no sandbox on this machine: bubblewrap is not installed; apt install"
    ):
        await processes.run(["touch", "ran"], cwd=home.workspace, confine=Sandbox(none, copied))
    assert not (home.workspace / "ran").exists()


async def test_a_folder_outside_the_copy_is_refused(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    with pytest.raises(ProcessError, match="lies outside"):
        await processes.run(["true"], cwd=home.path, confine=Sandbox(level, copied))


async def test_a_child_that_leaves_every_trace_behind_still_ends_with_the_sandbox(
    processes: Processes, home: Home
) -> None:
    level = await find_level(processes, os.environ)
    with copy_of(home.workspace, level) as copied:
        script = 'env -i setsid -f /bin/sleep "$NAP" </dev/null >/dev/null 2>&1; echo started'
        done = await sandboxed(processes, home, copied, level, script)
    assert done.stdout == b"started\n"
    assert_nothing_runs(f"/bin/sleep {NAP}")
