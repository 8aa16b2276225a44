"""A launcher behind the shield: what it starts reaches no more than a child that is confined anew, and ends alike."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.running import arguments, lives, pids
from tests.sandbox.conftest import Home

from instar.process import Output, ProcessError, Processes, fork_server
from instar.process.confine import Confinement
from instar.sandbox.box import Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Copy
from instar.sandbox.shield import Shield


@pytest.fixture
def home(quiet_home: Home) -> Home:
    """The home of these tests: they compare processes that a changed confinement would replace."""
    return quiet_home


ELSEWHERE = 99
BY = f'read name < /proc/$PPID/comm; test "$name" = instar-launcher || exit {ELSEWHERE}; '
"""Goes on only in what a launcher started."""
LAUNCHER = "read -r _ _ _ parent _ < /proc/$PPID/stat; echo $parent"
"""Prints the launcher, which is the parent of a program's anchor."""


class Launched:
    """Children of one home behind one confinement."""

    def __init__(self, processes: Processes, home: Home, confine: Confinement) -> None:
        self.processes = processes
        self.home = home
        self.confine = confine
        self._again = asyncio.Lock()

    async def run(self, argv: Sequence[str], **how: Any) -> Output:
        given = {"cwd": self.home.workspace, "env": self.home.environment(), "timeout": 20, **how}
        return await self.processes.run(argv, confine=self.confine, **given)

    async def sh(self, script: str, **how: Any) -> Output:
        return await self.run(["sh", "-c", script], **how)

    async def by(self, script: str, **how: Any) -> Output:
        """Run `script` by a launcher."""
        output = await self.run(["bash", "-c", BY + script], **how)
        if output.code != ELSEWHERE:
            return output
        # One after another: thirty that try again at once leave a launcher no processor to start on.
        async with self._again:
            end = time.monotonic() + 20
            while (output := await self.run(["bash", "-c", BY + script], **how)).code == ELSEWHERE:
                assert time.monotonic() < end, output
        return output

    async def ready(self) -> int:
        """Return the process id of the launcher, once there is one."""
        return int((await self.by(LAUNCHER)).stdout)


def is_launcher(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "instar-launcher\n"
    except OSError:
        return False


async def gone(*pids: int) -> None:
    end = time.monotonic() + 10
    while any(lives(pid) for pid in pids):
        assert time.monotonic() < end, pids
        await asyncio.sleep(0.01)


@pytest.fixture
async def launched(processes: Processes, home: Home, level: Level) -> Launched:
    made = Launched(processes, home, home.shield(level))
    await made.ready()
    return made


WRITES = (
    'for f in hooks/a.py hooks/new prompts/new .git/config "$DATA/auth.json" "$CONFIG/new" src/free; do'
    ' (echo evil >> "$f") 2>/dev/null && echo "wrote $f"; done; cat "$DATA/auth.json" 2>/dev/null; '
    "mount -t tmpfs none hooks 2>/dev/null && echo mounted; umount hooks 2>/dev/null && echo unmounted; exit 0"
)


async def test_what_a_launcher_starts_reaches_no_more_than_a_fresh_child(launched: Launched) -> None:
    before = launched.home.guarded()
    done = await launched.by(WRITES)
    assert done.stdout == b"wrote src/free\n"
    assert launched.home.guarded() == before


SEES = """
import ctypes, json, os, signal
libc, found = ctypes.CDLL(None), {}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
names = "Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp SigBlk SigIgn SigCgt Uid Gid Umask".split()
found["status"] = {name: status[name].split() for name in names}
found["streams"] = [os.readlink("/proc/self/fd/%d" % fd).split(":")[0] for fd in range(3)]
found["descriptors"] = sorted(map(int, os.listdir("/proc/self/fd")))
found["leads"] = os.getsid(0) == os.getpgid(0)
found["env"] = {name: value for name, value in os.environ.items() if name != "INSTAR_RUN"}
found["mark"] = "INSTAR_RUN" in os.environ
found["cwd"], found["mounts"] = os.getcwd(), len(open("/proc/self/mounts").readlines())
found["nice"], found["limits"] = os.nice(0), open("/proc/self/limits").read()
dies = ctypes.c_int()
libc.prctl(2, ctypes.byref(dies), 0, 0, 0)
found["dies"], found["dumpable"] = dies.value, libc.prctl(3, 0, 0, 0, 0)
print(json.dumps(found))
"""


@pytest.mark.parametrize("fed", [b"", b"words"])
async def test_a_program_finds_what_a_fresh_child_finds(
    processes: Processes, home: Home, level: Level, fed: bytes
) -> None:
    one = Launched(processes, home, home.shield(level))
    argv = [sys.executable, "-I", "-S", "-B", "-c", SEES]
    first = await one.run(argv, stdin=fed)
    await one.ready()
    then = await one.run(argv, stdin=fed)
    assert (then.code, then.stderr) == (0, b"")
    found, expected = json.loads(then.stdout), json.loads(first.stdout)
    if level.name == "landlock":
        # Without a process in between, a fresh child is not told of the death of one.
        expected["dies"] = found["dies"]
    assert found == expected


@pytest.mark.parametrize(
    ("script", "code", "signal"),
    [
        ("kill -9 $$", None, 9),
        ("kill -SEGV $$", None, 11),
        ("kill -RTMAX $$", None, 64),
        ("exit 137", 137, None),
        ("exit 255", 255, None),
        ("sleep 60 & kill -9 $!; wait $!", 137, None),
    ],
)
async def test_a_signal_and_a_code_are_told_exactly(
    launched: Launched, script: str, code: int | None, signal: int | None
) -> None:
    done = await launched.by(script)
    assert (done.code, done.signal, done.timed_out) == (code, signal, False)


async def test_streams_carry_bytes_as_they_are(launched: Launched, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    assert (await launched.run(["cat"], stdin=data)).stdout == data
    (tmp_path / "fed").write_bytes(data)
    with (tmp_path / "fed").open("rb") as file:
        assert (await launched.run(["cat"], stdin=file.fileno())).stdout == data
        assert os.fstat(file.fileno()).st_size == len(data)
    both = await launched.sh("echo out; echo err >&2")
    assert (both.stdout, both.stderr) == (b"out\n", b"err\n")
    merged = await launched.sh("echo out; echo err >&2", merge=True)
    assert (merged.stdout, merged.stderr) == (b"out\nerr\n", b"")


async def test_words_and_variables_arrive_byte_by_byte(launched: Launched) -> None:
    word = os.fsdecode(b"\xff \xc3\xa9 'a\n\"")
    env = {**launched.home.environment(), "WORD": word, "EMPTY": ""}
    done = await launched.run(
        ["sh", "-c", 'printf "%s|" "$1" "$2" "$WORD" "$EMPTY"', "sh", word, ""], env=env
    )
    assert done.stdout == os.fsencode(f"{word}||{word}||")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program"], "no such program on the PATH"),
        (["src/nothing"], "no such file"),
        (["src/main.py"], "no run bit"),
        (["src/odd"], "no #! line"),
        (["src/lost"], "its interpreter /none/such does not exist"),
    ],
)
async def test_a_program_that_does_not_start_is_said_as_without_a_launcher(
    launched: Launched, argv: list[str], message: str
) -> None:
    for name, text in (("odd", "echo x\n"), ("lost", "#!/none/such\n")):
        (launched.home.workspace / "src" / name).write_text(text)
        (launched.home.workspace / "src" / name).chmod(0o755)
    said = []
    for confine in (launched.confine, None):
        with pytest.raises(ProcessError) as caught:
            await launched.processes.run(
                argv, cwd=launched.home.workspace, env=launched.home.environment(), confine=confine
            )
        said.append(str(caught.value))
    assert message in said[0]
    assert said[0] == said[1]


@pytest.mark.parametrize("argv", [["a\0b"], []])
async def test_words_that_are_no_command_start_nothing(launched: Launched, argv: list[str]) -> None:
    with pytest.raises(ProcessError):
        await launched.run(argv)


async def test_a_folder_that_is_not_there_is_said(launched: Launched) -> None:
    with pytest.raises(ProcessError, match=r"its folder .* does not exist"):
        await launched.run(["true"], cwd=launched.home.path / "nowhere")


async def test_words_that_are_too_many_for_a_launcher_are_passed_on_all_the_same(launched: Launched) -> None:
    words = ["x" * 60_000] * 4
    done = await launched.run(["sh", "-c", "echo $#", "sh", *words])
    assert done.stdout == b"4\n"


async def test_what_is_left_running_ends_with_the_run(launched: Launched) -> None:
    done = await launched.by(
        "sleep 60 & echo $!; setsid -f sh -c 'echo $$; touch src/up; exec sleep 60'; "
        "until [ -e src/up ]; do sleep 0.01; done"
    )
    left = [int(word) for word in done.stdout.split()]
    assert len(left) == 2
    await gone(*left)


HOPS = """
import os
os.setsid()
for number in range(100_000):
    if os.fork():
        os._exit(0)
"""
"""A process that is never the same for long."""


async def test_a_daemon_of_one_run_ends_with_it_and_not_with_another_s(launched: Launched) -> None:
    said = bytearray()
    daemon = "env -i setsid -f sh -c 'echo $$; exec sleep 60'; "
    stays = asyncio.ensure_future(launched.by(daemon + "sleep 60", on_output=said.extend))
    while b"\n" not in said:
        await asyncio.sleep(0.005)
    done = await launched.by(daemon + "sleep 0.2")
    await gone(int(done.stdout))
    assert lives(int(said))
    stays.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stays
    await gone(int(said))


@pytest.mark.slow
async def test_a_daemon_that_forks_without_end_is_caught(launched: Launched) -> None:
    program = launched.home.workspace / "src/hops.py"
    program.write_text(HOPS)
    await launched.by(f"{sys.executable} -I -S {program} & sleep 0.3", merge=True)
    end = time.monotonic() + 10
    while any(str(program).encode() in one for pid in pids() for one in [arguments(pid)]):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_a_call_signals_what_is_its_own(launched: Launched) -> None:
    done = await launched.by(
        "sleep 61 & kill %1; wait %1; echo $?; timeout -s INT 0.1 sleep 61; echo $?;"
        " sleep 61.5 & pkill -P $$ sleep; wait $!; echo $?; setsid -f sleep 61.6;"
        " until pkill -xf 'sleep 61.6'; do sleep 0.01; done; echo $?;"
        " kill -0 $PPID; echo $?; trap 'echo heard' USR1; kill -USR1 0; kill -KILL -$$"
    )
    assert done.stdout.decode().split() == ["143", "124", "143", "0", "1", "heard"]
    assert done.signal == signal.SIGKILL


@pytest.mark.slow
async def test_a_timeout_and_a_cancel_end_the_group(launched: Launched) -> None:
    done = await launched.sh("sleep 60 & echo $!; trap '' TERM; wait; wait", timeout=3)
    assert done.timed_out
    await gone(int(done.stdout))
    heard: list[bytes] = []
    running = asyncio.ensure_future(launched.sh("echo $$; sleep 60", on_output=heard.append))
    while not heard:
        await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(int(heard[0]))


async def test_when_the_launcher_is_killed_what_it_started_is_over_and_another_takes_its_place(
    launched: Launched,
) -> None:
    first, said = await launched.ready(), bytearray()
    running = asyncio.ensure_future(launched.sh("echo $$ $PPID; sleep 60", on_output=said.extend))
    while not said.endswith(b"\n"):
        await asyncio.sleep(0.005)
    os.kill(first, signal.SIGKILL)
    assert (await running).signal == signal.SIGKILL
    await gone(first, *map(int, said.split()))
    assert (await launched.sh("echo again")).stdout == b"again\n"
    assert await launched.ready() != first


async def test_a_launcher_that_does_not_answer_is_given_up_and_the_program_runs_once(
    launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "_BEGIN", 0.2)
    first = await launched.ready()
    os.kill(first, signal.SIGSTOP)
    running = asyncio.ensure_future(launched.sh("echo ran >> src/log; echo ran"))
    assert (await running).stdout == b"ran\n"
    os.kill(first, signal.SIGCONT)
    await gone(first)
    assert (launched.home.workspace / "src/log").read_text() == "ran\n"
    assert await launched.ready() != first


@pytest.mark.slow
async def test_programs_run_beside_each_other(launched: Launched) -> None:
    done = await asyncio.gather(*(launched.by(f"read x; echo $x {n}", stdin=b"in\n") for n in range(64)))
    assert [one.stdout for one in done] == [f"in {n}\n".encode() for n in range(64)]


async def test_a_program_can_neither_trace_the_launcher_nor_read_it_nor_another_program(
    launched: Launched,
) -> None:
    heard: list[bytes] = []
    other = asyncio.ensure_future(launched.sh("echo $$; exec sleep 60", on_output=heard.append))
    while not heard:
        await asyncio.sleep(0.005)
    script = (
        "import ctypes, os\n"
        f"for pid in os.getppid(), {int(heard[0])}:\n"
        "    print(ctypes.CDLL(None).ptrace(16, pid, 0, 0))\n"
        "    for name in 'mem', 'environ', 'fd/0', 'root':\n"
        "        try: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY)); print(name)\n"
        "        except OSError: pass\n"
    )
    done = await launched.run([sys.executable, "-I", "-S", "-c", script])
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert (done.stdout, done.stderr) == (b"-1\n-1\n", b"")


async def test_a_guard_that_changed_has_another_launcher_where_it_is_made_of_mounts(
    launched: Launched, level: Level
) -> None:
    first = await launched.ready()
    dots = launched.home.path / "dots"
    dots.mkdir()
    prompts = launched.home.workspace / "prompts"
    if prompts.is_dir():
        prompts.rmdir()
    prompts.symlink_to(dots)
    before = launched.home.guarded()
    assert b"wrote prompts" not in (await launched.sh(WRITES)).stdout
    assert (await launched.ready() == first) is (level.name == "landlock")
    if level.name == "bubblewrap":
        await gone(first)
    assert b"wrote prompts" not in (await launched.sh(WRITES)).stdout
    assert launched.home.guarded() == before
    assert not list(dots.iterdir())


async def test_a_guarded_folder_that_was_made_anew_is_guarded(launched: Launched) -> None:
    hooks = launched.home.workspace / "hooks"
    hooks.rename(launched.home.path / "old")
    hooks.mkdir()
    (hooks / "a.py").write_text("new\n")
    for _ in range(3):
        assert (await launched.sh(WRITES)).stdout == b"wrote src/free\n"
        await launched.ready()
    assert (hooks / "a.py").read_text() == "new\n"
    assert not (hooks / "new").exists()


async def test_code_that_nobody_has_read_is_never_started_by_a_launcher(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    one = Launched(processes, home, Sandbox(level, copied))
    for _ in range(5):
        assert (await one.sh("echo ran", cwd=copied.folder)).stdout == b"ran\n"
    assert not launchers()


def launchers() -> list[int]:
    """Launchers that descend from this process, without their forks that wait for a call."""
    found = [pid for pid in descendants(os.getpid()) if is_launcher(pid)]
    forks = {fork for pid in found for fork in descendants(pid)}
    return [pid for pid in found if pid not in forks]


def descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from descendants(child)


@pytest.mark.slow
async def test_no_descriptor_and_no_process_is_left(launched: Launched) -> None:
    await launched.ready()
    before = len(os.listdir("/proc/self/fd"))
    parent = await launched.ready()
    theirs = len(os.listdir(f"/proc/{parent}/fd"))
    for _ in range(20):
        await launched.sh("exit 3", stdin=b"x")
        with pytest.raises(ProcessError):
            await launched.run(["no-such-program"])
    then = await launched.ready()
    assert then == parent
    # At the level landlock it keeps the rules of the last eight policies, one descriptor each.
    assert len(os.listdir(f"/proc/{then}/fd")) <= theirs + 9
    while launchers() != [then]:
        await asyncio.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    await launched.processes.close()
    await gone(then)


KILLED = """
import asyncio, os, sys
from pathlib import Path
from instar.process import Processes
from instar.sandbox.probe import find_level
from instar.sandbox.shield import Shield

async def main():
    processes = Processes()
    shield = Shield(await find_level(processes, os.environ, sys.argv[1]), (), (Path("/usr/share"),))
    script = 'read name < /proc/$PPID/comm; test "$name" = instar-launcher && { sleep 60 & echo $PPID $$ $!; wait; }'
    while True:
        await processes.run(["sh", "-c", script], cwd=Path("/"), confine=shield,
            on_output=lambda data: print(data.decode(), end="", flush=True))

asyncio.run(main())
"""


async def test_a_launcher_and_what_it_started_end_when_instar_is_killed(level: Level) -> None:
    instar = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, level.name, stdout=asyncio.subprocess.PIPE
    )
    assert instar.stdout is not None
    pids = [int(word) for word in (await instar.stdout.readline()).split()]
    assert len(pids) == 3
    assert all(lives(pid) for pid in pids)
    instar.kill()
    await instar.wait()
    await gone(*pids)


async def test_nothing_of_the_source_of_a_launcher_stands_in_the_list_of_processes(
    launched: Launched,
) -> None:
    running = asyncio.ensure_future(launched.sh("sleep 60"))
    launcher = await launched.ready()
    listed = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(os.getpid())]
    program = os.fsencode(fork_server.LAUNCHER.arguments[-1])
    assert Path(f"/proc/{launcher}/cmdline").read_bytes().split(b"\0")[1:-1] == [b"-I", b"-S", b"-B", program]
    assert [words for words in listed if program in words]
    assert not [words for words in listed if b"\n" in words]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_closing_ends_also_the_launchers_that_others_have_taken_the_place_of(
    home: Home, level: Level
) -> None:
    processes = Processes()
    for number in range(fork_server.LAUNCHERS + 2):
        (home.workspace / f"guarded{number}").mkdir()
    for number in range(fork_server.LAUNCHERS + 2):
        shield = Shield(level, (), (home.workspace / f"guarded{number}",))
        await Launched(processes, home, shield).ready()
    before = asyncio.all_tasks()
    await processes.close()
    assert not launchers()
    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()
    assert [task for task in before if not task.done()] == [asyncio.current_task()]
