"""What a shielded child keeps: everything that is not guarded is as the person has it."""

import os
import shlex
import subprocess
import time

import pytest
from tests.sandbox.conftest import Home, Listeners, shielded

from instar.process import ProcessError, Processes
from instar.sandbox.level import Level
from instar.sandbox.probe import find_level
from instar.sandbox.shield import Shield


async def test_files_beside_what_is_guarded_are_written_as_ever(
    processes: Processes, home: Home, level: Level
) -> None:
    script = (
        "echo new >> src/main.py; echo note > notes/n; cat hooks/a.py; mkdir src/deep; mv src/deep notes/; ls"
    )
    done = await shielded(processes, home, level, script)
    assert done.code == 0, done.stdout
    assert b"as it was" in done.stdout
    assert (home.workspace / "src/main.py").read_text() == "code\nnew\n"
    assert (home.workspace / "notes/deep").is_dir()


async def test_new_files_beside_a_guarded_folder_need_bubblewrap(
    processes: Processes, home: Home, level: Level
) -> None:
    done = await shielded(processes, home, level, "echo x > new; echo y > ../other")
    assert (done.code == 0) is (level.name == "bubblewrap")
    assert (home.workspace / "new").exists() is (level.name == "bubblewrap")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("exit 7", 7, ""),
        ("yes | head -1", 0, "y\n"),
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("pwd", 0, "$WS\n"),
        ("no-such-program 2>/dev/null", 127, ""),
        ("cat; echo -", 0, "-\n"),
        ('echo "$LC_CTYPE-$PYTHONPATH-$VALUE"', 0, "--a b\n"),
        ("ls /proc/self/fd | wc -l", 0, "4\n"),
        ("trap '' PIPE; echo ok", 0, "ok\n"),
        ("test -w /dev/null && echo x > /dev/null && test -r /etc/passwd && echo ok", 0, "ok\n"),
        ("id -u", 0, f"{os.getuid()}\n"),
    ],
)
async def test_a_shielded_command_does_what_it_does_without(
    script: str, code: int, printed: str, processes: Processes, home: Home, level: Level
) -> None:
    done = await shielded(processes, home, level, script, VALUE="a b")
    assert (done.code, done.stdout.decode()) == (code, printed.replace("$WS", str(home.workspace)))


async def test_what_is_fed_is_read_and_bytes_come_back_as_they_are(
    processes: Processes, home: Home, level: Level
) -> None:
    data = os.urandom(200_000)
    done = await processes.run(
        ["cat"], cwd=home.workspace, env=home.environment(), stdin=data, confine=home.shield(level)
    )
    assert done.stdout == data


async def test_processes_outside_are_seen_and_cannot_be_ended(
    processes: Processes, home: Home, level: Level, outside: subprocess.Popen[bytes]
) -> None:
    done = await shielded(processes, home, level, f"ps -p {outside.pid} -o comm= && kill {outside.pid}")
    assert done.code == 1
    assert done.stdout.startswith(b"sleep\n")
    assert b"not permitted" in done.stdout
    assert outside.poll() is None


async def test_the_network_and_the_ssh_agent_stay(
    processes: Processes, home: Home, level: Level, listeners: Listeners
) -> None:
    program = (
        "import os, socket; socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), 5); "
        "socket.socket(socket.AF_UNIX).connect(os.environ['SSH_AUTH_SOCK']); print('both')"
    )
    done = await shielded(
        processes, home, level, f'"$PY" -I -S -c {shlex.quote(program)}', **listeners.environment()
    )
    assert done.stdout == b"both\n"


async def test_a_folder_inside_what_is_hidden_can_be_given_back(
    processes: Processes, home: Home, level: Level
) -> None:
    (home.data / "worktrees/w").mkdir(parents=True)
    (home.data / "tool-output").mkdir()
    (home.data / "tool-output/long").write_text("long")
    shield = Shield(level, (home.data,), (home.data / "tool-output",), (home.data / "worktrees",))
    script = (
        'cd "$DATA"; echo x > worktrees/w/new; cat tool-output/long; echo y > tool-output/long; cat auth.json'
    )
    done = await processes.run(
        ["sh", "-c", script], cwd=home.workspace, env=home.environment(), confine=shield
    )
    assert (done.stdout, done.code) == (b"long", 1)
    assert (home.data / "worktrees/w/new").exists()
    assert (home.data / "tool-output/long").read_text() == "long"


async def test_a_hidden_file_cannot_be_opened(processes: Processes, home: Home, level: Level) -> None:
    shield = Shield(level, (home.data / "auth.json",))
    done = await processes.run(
        ["sh", "-c", 'cat "$DATA/auth.json"; echo x > "$DATA/auth.json"; mv "$DATA/auth.json" x; echo "$?"'],
        cwd=home.workspace,
        env=home.environment(),
        confine=shield,
    )
    assert done.stdout == b"1\n"
    assert (home.data / "auth.json").read_text().startswith("sk-")


async def test_a_link_that_can_be_replaced_is_named_as_a_gap(home: Home, level: Level) -> None:
    (home.path / "dots").mkdir()
    (home.workspace / "prompts").symlink_to(home.path / "dots")
    found = home.shield(level).guarded()
    assert home.path / "dots" in found.readonly
    assert [gap for gap in found.gaps if f"{home.workspace}/prompts" in gap and "can be replaced" in gap]


async def test_what_a_link_leads_to_is_guarded(processes: Processes, home: Home, level: Level) -> None:
    (home.path / "dots").mkdir()
    (home.workspace / "prompts").symlink_to(home.path / "dots")
    await shielded(processes, home, level, 'echo evil > prompts/x; echo evil > "$HOME/dots/y"')
    assert not list((home.path / "dots").iterdir())


async def test_a_guarded_path_that_cannot_be_made_refuses_the_child(
    processes: Processes, home: Home, level: Level
) -> None:
    shield = Shield(level, (), (home.workspace / "src/main.py/below",))
    if level.name == "landlock":
        assert (await processes.run(["true"], cwd=home.workspace, confine=shield)).code == 0
        return
    with pytest.raises(ProcessError, match=r"cannot guard .*below: it does not exist and cannot be made"):
        await processes.run(["touch", "ran"], cwd=home.workspace, confine=shield)
    assert not (home.workspace / "ran").exists()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("no-such-program", "there is no such program on the PATH"),
        ("src/nothing", "there is no such file"),
        ("src/main.py", "it has no run bit"),
    ],
)
async def test_a_program_that_cannot_be_started_is_said_as_without_a_shield(
    processes: Processes, home: Home, level: Level, program: str, why: str
) -> None:
    said = []
    for confine in (None, home.shield(level)):
        with pytest.raises(ProcessError, match=f"cannot start {program}: {why}") as caught:
            await processes.run([program], cwd=home.workspace, env=home.environment(), confine=confine)
        said.append(str(caught.value))
    assert said[0] == said[1]


async def test_without_a_level_the_command_is_as_it_was(home: Home) -> None:
    shield = home.shield(Level("none"))
    wrapped = shield.wrap(["true"], home.workspace, {"A": "1"})
    assert (wrapped.argv, wrapped.env, wrapped.pass_fds) == (["true"], {"A": "1"}, ())
    raised = shield.shared({}, home.workspace)
    assert raised is not None
    assert raised.policy().data == raised.state(os.getpid()) == b""
    assert raised.alone() is None


@pytest.mark.slow
async def test_no_descriptor_is_left_open_by_many_children(
    processes: Processes, home: Home, level: Level
) -> None:
    await shielded(processes, home, level, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await shielded(processes, home, level, "true")
    assert len(os.listdir("/proc/self/fd")) < before + 10  # each child has two or three


async def test_a_shield_costs_less_than_a_person_notices(processes: Processes, home: Home) -> None:
    level = await find_level(processes, os.environ)

    async def fastest(shield: Shield | None) -> float:
        taken = []
        for _ in range(9):
            started = time.monotonic()
            await processes.run(["true"], cwd=home.workspace, env=home.environment(), confine=shield)
            taken.append(time.monotonic() - started)
        return min(taken)

    # The budget is 15 ms on a quiet machine; tests share theirs.
    assert await fastest(home.shield(level)) - await fastest(None) < 0.06
