"""Children: output, limits, and that nothing of a run is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.running import lives
from tests.waiting import SOON, quickest

from instar.process import Ending, ProcessError, Processes, Wrapped, child
from instar.process import processes as processes_module


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        await asyncio.sleep(0.005)


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


async def test_a_child_prints_to_both_streams_and_its_exit_code_is_kept(
    processes: Processes, tmp_path: Path
) -> None:
    output = await processes.run(["sh", "-c", "echo out; echo err >&2; pwd; exit 3"], cwd=tmp_path)
    assert (output.code, output.signal) == (3, None)
    assert output.stdout == f"out\n{tmp_path}\n".encode()
    assert output.stderr == b"err\n"
    assert not output.timed_out
    assert not output.truncated
    assert 0 < output.duration < SOON
    assert output.size == len(output.stdout)


async def test_merged_streams_keep_the_order_of_writing(processes: Processes, tmp_path: Path) -> None:
    output = await processes.run(["sh", "-c", "echo 1; echo 2 >&2; echo 3"], cwd=tmp_path, merge=True)
    assert (output.stdout, output.stderr) == (b"1\n2\n3\n", b"")


async def test_the_environment_is_the_one_given_or_our_own(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "mine")
    ask = ["sh", "-c", "echo $OURS-$GIVEN"]
    assert (await processes.run(ask, cwd=tmp_path)).stdout == b"mine-\n"
    given = {"PATH": os.environ["PATH"], "GIVEN": "yours"}
    assert (await processes.run(ask, cwd=tmp_path, env=given)).stdout == b"-yours\n"


async def test_a_child_without_stdin_reads_the_end_at_once(processes: Processes, tmp_path: Path) -> None:
    assert (await processes.run(["cat"], cwd=tmp_path, timeout=20)).stdout == b""


async def test_ten_megabytes_go_both_ways_without_a_deadlock(processes: Processes, tmp_path: Path) -> None:
    data = os.urandom(10 << 20)
    output = await processes.run(["cat"], cwd=tmp_path, stdin=data, limit=len(data), timeout=20)
    assert output.stdout == data
    assert not output.truncated


async def test_a_child_that_closes_its_stdin_early_is_no_error(processes: Processes, tmp_path: Path) -> None:
    output = await processes.run(
        ["sh", "-c", "exec 0<&-; echo done"], cwd=tmp_path, stdin=b"x" * (4 << 20), timeout=20
    )
    assert (output.code, output.stdout) == (0, b"done\n")


async def test_a_child_can_be_given_an_open_descriptor_to_read_from(
    processes: Processes, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    heard: list[bytes] = []
    running = asyncio.create_task(
        processes.run(["cat"], cwd=tmp_path, stdin=reading, timeout=20, on_output=heard.append)
    )
    for word in (b"one", b"two"):
        os.write(writing, word)
        await until(lambda word=word: heard[-1:] == [word])  # type: ignore[misc]
    os.close(writing)
    assert (await running).stdout == b"onetwo"
    os.close(reading)


async def test_a_script_can_open_its_stdin_again_by_name(processes: Processes, tmp_path: Path) -> None:
    assert (await processes.run(["cat", "/dev/stdin"], cwd=tmp_path, stdin=b"{}", timeout=20)).stdout == b"{}"


async def test_a_flood_is_kept_up_to_the_limit_and_counted(processes: Processes, tmp_path: Path) -> None:
    flood = ["sh", "-c", "head -c 3000000 /dev/zero; head -c 5000 /dev/zero >&2"]
    output = await processes.run(flood, cwd=tmp_path, limit=1000)
    assert (len(output.stdout), len(output.stderr)) == (1000, 1000)
    assert (output.code, output.truncated, output.size) == (0, True, 3_000_000)


async def test_output_is_seen_as_it_comes(processes: Processes, tmp_path: Path) -> None:
    seen: list[bytes] = []
    fifo = tmp_path / "go"
    os.mkfifo(fifo)

    def on_output(data: bytes) -> None:
        seen.append(data)
        if data == b"first\n":  # the child waits for this: it would hang if output came only at the end
            os.close(os.open(fifo, os.O_WRONLY))

    await processes.run(
        ["sh", "-c", "echo first; cat go; echo second"], cwd=tmp_path, on_output=on_output, timeout=20
    )
    assert b"".join(seen) == b"first\nsecond\n"


async def test_an_observer_that_raises_ends_the_child(processes: Processes, tmp_path: Path) -> None:
    def on_output(data: bytes) -> None:
        raise KeyError(data.decode().strip())

    with pytest.raises(KeyError) as raised:
        await processes.run(["sh", "-c", "echo $$; sleep 60"], cwd=tmp_path, on_output=on_output)
    await until(lambda: not lives(int(raised.value.args[0])))


async def test_a_signal_death_is_told_apart_from_an_exit_code(processes: Processes, tmp_path: Path) -> None:
    output = await processes.run(["sh", "-c", "kill -SEGV $$"], cwd=tmp_path)
    assert (output.code, output.signal, output.timed_out) == (None, signal.SIGSEGV, False)


@pytest.mark.slow
async def test_a_hang_is_ended_with_its_grandchildren_and_keeps_its_output(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program that a busy machine holds up is not killed before it has heard SIGTERM.
    monkeypatch.setattr("instar.process.child.GRACE", SOON)
    began = time.monotonic()
    output = await processes.run(["sh", "-c", "echo $$; sleep 60 & echo $!; wait"], cwd=tmp_path, timeout=3)
    assert time.monotonic() - began < SOON
    assert output.timed_out
    assert (output.code, output.signal) == (None, signal.SIGTERM)
    assert not any(lives(int(pid)) for pid in output.stdout.split())


@pytest.mark.slow
async def test_a_child_that_ignores_sigterm_is_killed(processes: Processes, tmp_path: Path) -> None:
    ignore = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    began = time.monotonic()
    output = await processes.run(["sh", "-c", ignore], cwd=tmp_path, timeout=3)
    assert time.monotonic() - began < SOON
    assert (output.timed_out, output.signal) == (True, signal.SIGKILL)
    await until(lambda: not lives(int(output.stdout)))


@pytest.mark.slow
async def test_a_child_gets_a_moment_to_clean_up_before_it_is_killed(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The moment is short: on a busy machine it may be over before the shell runs again.
    monkeypatch.setattr("instar.process.child.GRACE", SOON)
    tidy = "trap 'echo tidy; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    output = await processes.run(["sh", "-c", tidy], cwd=tmp_path, timeout=3)
    assert output.stdout == b"up\ntidy\n"
    assert (output.code, output.timed_out) == (0, True)


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"], ids=["obeys SIGTERM", "ignores SIGTERM"])
async def test_cancelling_ends_the_group_within_a_second_and_is_passed_on(
    processes: Processes, tmp_path: Path, trap: str
) -> None:
    group = f"{trap} (while :; do sleep 0.05; done) & echo $$ $!; wait"

    async def cancelled() -> float:
        seen = bytearray()
        task = asyncio.create_task(processes.run(["sh", "-c", group], cwd=tmp_path, on_output=seen.extend))
        await until(lambda: b"\n" in seen)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.monotonic() - began
        assert not any(lives(int(pid)) for pid in seen.split())
        return took

    assert await quickest(cancelled, 1.0) < 1.0


async def test_cancelling_twice_still_leaves_nothing_running(processes: Processes, tmp_path: Path) -> None:
    seen = bytearray()
    stubborn = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    task = asyncio.create_task(processes.run(["sh", "-c", stubborn], cwd=tmp_path, on_output=seen.extend))
    await until(lambda: b"\n" in seen)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not lives(int(seen)))


async def test_cancelling_while_a_child_starts_leaves_nothing_running(
    processes: Processes, tmp_path: Path
) -> None:
    task = asyncio.create_task(
        processes.run(["sh", "-c", f"echo $$ >{tmp_path}/pid; sleep 60"], cwd=tmp_path)
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else ""
    await until(lambda: not pid or not lives(int(pid)))


async def test_a_grandchild_that_holds_the_pipe_does_not_hang_us(
    processes: Processes, tmp_path: Path
) -> None:
    began = time.monotonic()
    output = await processes.run(["sh", "-c", "sleep 60 & echo $!"], cwd=tmp_path)
    assert time.monotonic() - began < SOON
    assert output.code == 0
    assert not lives(int(output.stdout))


async def test_a_grandchild_in_a_session_of_its_own_does_not_hang_us_either(
    processes: Processes, tmp_path: Path
) -> None:
    began = time.monotonic()
    output = await processes.run(["sh", "-c", "setsid sleep 60 & echo up"], cwd=tmp_path)
    assert time.monotonic() - began < SOON
    assert (output.code, output.stdout) == (0, b"up\n")


async def test_a_silent_background_job_ends_with_its_run(processes: Processes, tmp_path: Path) -> None:
    output = await processes.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], cwd=tmp_path)
    assert not lives(int(output.stdout))


async def test_closing_ends_every_child_and_refuses_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What heeds SIGTERM is not killed because a busy machine is slow to let it.
    monkeypatch.setattr("instar.process.child.GRACE", 10.0)
    processes, seen = Processes(), bytearray()
    runs = [
        asyncio.create_task(
            processes.run(["sh", "-c", "echo $$; sleep 60"], cwd=tmp_path, on_output=seen.extend)
        )
        for _ in range(3)
    ]
    await until(lambda: seen.count(b"\n") == 3)
    await processes.close()
    assert not any(lives(int(pid)) for pid in seen.split())
    assert [output.signal for output in await asyncio.gather(*runs)] == [signal.SIGTERM] * 3
    with pytest.raises(ProcessError, match="shutting down"):
        await processes.run(["true"], cwd=tmp_path)


@pytest.mark.slow
async def test_runs_leave_no_descriptor_and_no_zombie(processes: Processes, tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    def children() -> set[str]:
        found = [
            Path("/proc/self/task", task, "children").read_text() for task in os.listdir("/proc/self/task")
        ]
        return set("".join(found).split())

    # The guard starts with the first child, and stays.
    await processes.run(["true"], cwd=tmp_path)
    # Other tests of this process may have a server of their own running.
    before, others = descriptors(), children()
    for _ in range(200):
        await processes.run(["cat"], cwd=tmp_path, stdin=b"in")
    for _ in range(5):
        await processes.run(["sh", "-c", "sleep 9"], cwd=tmp_path, stdin=b"x" * 200_000, timeout=0.05)
        with pytest.raises(ProcessError):
            await processes.run(["/no/such/program"], cwd=tmp_path, stdin=b"in")
    await until(lambda: descriptors() <= before)
    await until(lambda: children() <= others)


async def test_many_children_run_at_once(processes: Processes, tmp_path: Path) -> None:
    outputs = await asyncio.gather(*(processes.run(["echo", str(n)], cwd=tmp_path) for n in range(30)))
    assert [int(output.stdout) for output in outputs] == list(range(30))


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (None, 0, r"there is no such file"),
        ("#!/bin/sh\n", 0o644, r"it has no run bit \(chmod \+x .*hook\)"),
        ("#!/no/such/python\n", 0o755, r"its interpreter /no/such/python does not exist"),
        ("#!/bin/sh\r\necho\r\n", 0o755, r"carriage return; save the file with LF line endings"),
        ("echo no shebang\n", 0o755, r"it has no #! line"),
    ],
    ids=["missing", "no run bit", "bad shebang", "CRLF shebang", "no shebang"],
)
async def test_a_script_that_cannot_start_says_why(
    processes: Processes, tmp_path: Path, text: str | None, mode: int, said: str
) -> None:
    path = tmp_path / "hook"
    if text is not None:
        script(path, text, mode)
    with pytest.raises(ProcessError, match=said) as raised:
        await processes.run([str(path)], cwd=tmp_path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no-such-program-here"], "no such program on the PATH"),
        (["echo", "a\0b"], "null"),
        (["echo", "x" * (4 << 20)], "too long"),
        ([], "cannot start"),
    ],
    ids=["not on the PATH", "a null byte", "arguments too long", "nothing"],
)
async def test_a_command_that_cannot_start_says_why(
    processes: Processes, tmp_path: Path, argv: list[str], said: str
) -> None:
    with pytest.raises(ProcessError, match=said):
        await processes.run(argv, cwd=tmp_path)


async def test_a_folder_that_is_gone_is_named(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"its folder .*gone does not exist"):
        await processes.run(["true"], cwd=tmp_path / "gone")


async def test_the_event_loop_stays_free_while_a_child_floods(processes: Processes, tmp_path: Path) -> None:
    heard, turns = 0, 0

    def on_output(data: bytes) -> None:
        nonlocal heard
        heard += len(data)

    task = asyncio.create_task(
        processes.run(["yes"], cwd=tmp_path, timeout=20, limit=1000, on_output=on_output)
    )
    while not task.done() and (turns <= 5 or heard <= 1_000_000):
        await asyncio.sleep(0.001)
        turns += 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns > 5
    assert heard > 1_000_000


def test_children_end_when_the_event_loop_is_torn_down(tmp_path: Path) -> None:
    """What Ctrl-C does: the main task is cancelled, and the loop waits for it."""
    seen = bytearray()

    async def main() -> None:
        running = asyncio.create_task(
            Processes().run(["sh", "-c", "echo $$; sleep 60"], cwd=tmp_path, on_output=seen.extend)
        )
        await until(lambda: b"\n" in seen or running.done())

    asyncio.run(main())
    assert not lives(int(seen))


async def test_a_python_child_starts_and_reads_json(processes: Processes, tmp_path: Path) -> None:
    code = "import json, sys; print(json.load(sys.stdin)['hook'])"
    output = await processes.run([sys.executable, "-c", code], cwd=tmp_path, stdin=b'{"hook": "idle"}')
    assert output.stdout == b"idle\n"


DAEMON = (
    "setsid -f sh -c 'echo $$; touch up; exec sleep 60 >/dev/null 2>&1 </dev/null'; "
    "until [ -e up ]; do sleep 0.01; done"
)


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["", "; sleep 60"], ids=["at the exit", "at the time limit"])
async def test_a_descendant_that_left_the_group_ends_too(
    processes: Processes, tmp_path: Path, rest: str
) -> None:
    output = await processes.run(["sh", "-c", DAEMON + rest], cwd=tmp_path, timeout=3 if rest else 20)
    assert output.timed_out == bool(rest)
    await until(lambda: not lives(int(output.stdout)))


async def test_a_descendant_of_one_run_is_not_taken_for_another_s(
    processes: Processes, tmp_path: Path
) -> None:
    seen = bytearray()
    stays = asyncio.create_task(
        processes.run(["sh", "-c", DAEMON + "; sleep 60"], cwd=tmp_path, on_output=seen.extend)
    )
    await until(lambda: b"\n" in seen)
    await processes.run(["true"], cwd=tmp_path)
    assert lives(int(seen))
    stays.cancel()
    await asyncio.wait([stays])
    await until(lambda: not lives(int(seen)))


class Echoes:
    """A confinement that only says that it was there."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        os.write(writing, b"held")
        os.close(writing)
        self.over = 0

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        command = ["sh", "-c", f'cat /dev/fd/{self.reading}; echo " $WRAPPED"; exec "$@"', "sh", *argv]
        return Wrapped(command, {**env, "WRAPPED": str(cwd)}, (self.reading,), self.after)

    def after(self) -> None:
        self.over += 1
        os.close(self.reading)

    def shared(self, env: Mapping[str, str], cwd: Path) -> None:
        return None


async def test_a_confinement_says_how_a_child_starts_and_hears_of_its_end(
    processes: Processes, tmp_path: Path
) -> None:
    confine = Echoes()
    path = script(tmp_path / "hook.py", f"#!{sys.executable}\nprint('ran')\n")
    output = await processes.run([str(path)], cwd=tmp_path, stdin=b"x", confine=confine, warm=True)
    assert output.stdout == f"held {tmp_path}\nran\n".encode()
    assert confine.over == 1


async def test_a_confinement_is_told_of_the_end_of_a_child_that_never_started(
    processes: Processes, tmp_path: Path
) -> None:
    confine = Echoes()
    with pytest.raises(ProcessError):
        await processes.run(["true"], cwd=tmp_path / "gone", confine=confine)
    assert confine.over == 1


@pytest.mark.parametrize(
    ("ending", "code", "signal"),
    [(Ending(), 137, None), (Ending(signal=9), None, 9)],
    ids=["unknown", "known"],
)
async def test_a_confinement_that_hides_a_signal_can_say_which_it_was(
    processes: Processes, tmp_path: Path, ending: Ending, code: int | None, signal: int | None
) -> None:
    confine = Tells(ending)
    output = await processes.run(["sh", "-c", "exit 137"], cwd=tmp_path, confine=confine)
    assert (output.code, output.signal) == (code, signal)


async def test_a_program_that_a_confinement_could_not_start_is_an_error(
    processes: Processes, tmp_path: Path
) -> None:
    confine = Tells(Ending(failure="cannot start x: it is Sunday"))
    with pytest.raises(ProcessError, match="cannot start x: it is Sunday") as failed:
        await processes.run(["sh", "-c", "exit 127"], cwd=tmp_path, confine=confine)
    assert not failed.value.closing


class Tells:
    """A confinement that knows how its program ended, until it lets go of it."""

    def __init__(self, ending: Ending) -> None:
        self.ending: Ending | None = ending

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        return Wrapped(argv, env, after=self.after, ending=lambda: self.ending or pytest.fail("too late"))

    def after(self) -> None:
        self.ending = None

    def shared(self, env: Mapping[str, str], cwd: Path) -> None:
        return None


async def test_what_is_refused_because_the_runtime_closes_is_told_from_what_cannot_start(
    tmp_path: Path,
) -> None:
    processes = Processes()
    with pytest.raises(ProcessError) as failed:
        await processes.run(["no-such-program"], cwd=tmp_path)
    assert not failed.value.closing
    await processes.close()
    with pytest.raises(ProcessError, match="shutting down") as failed:
        await processes.run(["true"], cwd=tmp_path)
    assert failed.value.closing


@pytest.mark.slow
async def test_without_a_guard_it_is_said_once_that_a_killed_instar_leaves_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("instar.process.processes._SHELL", str(tmp_path / "no-such-shell"))
    processes = Processes()
    for _ in range(2):
        done = await processes.run(["sleep", "0.5"], cwd=tmp_path)
        assert done.code == 0
    await processes.close()
    said = [record.getMessage() for record in caplog.records if "guard=none" in record.getMessage()]
    assert len(said) == 1
    assert "lives on" in said[0]


def test_a_process_that_ends_while_the_table_is_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = os.getpgid(0)
    (tmp_path / "7").symlink_to(
        "x" * 300
    )  # whatever is asked of it fails, as of a process that has just ended
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "stat").write_text(f"8 (a) S 1 {group} 8")
    monkeypatch.setattr("instar.process.child._PROC", tmp_path)
    assert child.lives(group)
    (tmp_path / "8" / "stat").write_text(f"8 (a) Z 1 {group} 8")
    assert not child.lives(group)


@pytest.mark.slow
def test_a_guard_also_ends_what_becomes_its_program_after_instar_was_killed(tmp_path: Path) -> None:
    # Until then a child of instar has instar's own environment, where it is not known by its mark.
    guard = Path(processes_module.__file__).with_name("instar-guard.sh")
    mark = f"{os.urandom(8).hex()}."
    with subprocess.Popen(["/bin/sh", guard, mark, "0.1"], stdin=subprocess.PIPE) as guarding:
        assert guarding.stdin is not None
        guarding.stdin.close()
        time.sleep(0.4)
        with subprocess.Popen(["sleep", "60"], env={**os.environ, child.VARIABLE: f"{mark}1."}) as late:
            assert late.wait(SOON) == -signal.SIGKILL
        assert guarding.wait(SOON) == 0
