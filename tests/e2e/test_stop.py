"""`instar stop` in a terminal, while other processes run turns: `instar run` twice and `instar serve`."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests import started
from tests.running import having
from tests.waiting import SOON

from instar.message import Origin, text_of
from instar.plugin import Invalid, PromptBody
from instar.testing import TIMEOUT, Machine

pytest_plugins = ["tests.turn"]

NAP = f"63.{os.getpid()}"
LOOP = f"""
    == when ""
    tool: bash {{"command": "touch began-$$; sleep {NAP}"}}
"""


class Terminals:
    """Where `instar` is started, in the project or elsewhere; what still runs at the end is ended."""

    def __init__(self, house: Machine) -> None:
        self._house = house
        self._started: list[asyncio.subprocess.Process] = []

    async def start(self, *args: str, cwd: Path | None = None) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "instar", *args),
            cwd=cwd or self._house.folder,
            env=self._house.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(child)
        return child

    async def run(self, *args: str, cwd: Path | None = None) -> tuple[int | None, str, str]:
        """Run a command to its end."""
        done = await asyncio.to_thread(
            started.run,
            [*args],
            cwd=cwd or self._house.folder,
            environment=self._house.environment,
            timeout=3 * TIMEOUT,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    async def close(self) -> None:
        for child in self._started:
            if child.returncode is None:
                child.terminate()
                await child.communicate()


@pytest.fixture
async def instar(house: Machine) -> AsyncIterator[Terminals]:
    made = Terminals(house)
    yield made
    await made.close()


async def prompted(url: str) -> str:
    """Begin a turn in a new session of a server; return the session's id."""
    async with httpx2.AsyncClient(base_url=url, timeout=3 * TIMEOUT) as http:
        session = str((await http.post("/session", json={"title": "served"})).json()["id"])
        model = {"providerID": "scripted", "modelID": "x"}
        asked = {"model": model, "parts": [{"type": "text", "text": "go"}]}
        await http.post(f"/session/{session}/prompt_async", json=asked)
    return session


async def began(house: Machine, count: int) -> None:
    async with asyncio.timeout(3 * TIMEOUT):
        while len(list(house.folder.glob("began-*"))) < count:
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_it_ends_every_turn_of_every_process_with_its_commands_and_says_which(
    house: Machine, instar: Terminals
) -> None:
    house.says(LOOP)
    served = await instar.start("serve", "--port", "0", "--grace", "0", "--no-auth")
    assert served.stdout is not None
    line = (await asyncio.wait_for(served.stdout.readline(), 3 * TIMEOUT)).decode()
    runs = [await instar.start("run", "-m", "scripted/x", "--title", name, "go") for name in ("one", "two")]
    session = await prompted(line.rpartition(" ")[2].strip())
    await began(house, 3)
    stopping = time.monotonic()
    code, out, err = await instar.run("stop", "--json")
    assert (code, err) == (0, "")
    ended = [await asyncio.wait_for(run.communicate(), TIMEOUT) for run in runs]
    assert time.monotonic() - stopping < 2 * SOON, "a second, and a process that starts on a busy machine"
    assert having("sleep", NAP) == []
    assert [run.returncode for run in runs] == [1, 1]
    assert all(b"instar stop ended" in said for _, said in ended)
    told = json.loads(out)
    assert {(one["title"], one["pid"], one["ended"]) for one in told["sessions"]} == {
        ("one", runs[0].pid, True),
        ("two", runs[1].pid, True),
        ("served", served.pid, True),
    }
    assert session in {one["id"] for one in told["sessions"]}
    assert served.returncode is None, "the server itself goes on"


@pytest.mark.slow
async def test_it_ends_one_project_and_all_of_them_if_it_is_told_to(
    house: Machine, instar: Terminals, tmp_path: Path
) -> None:
    house.says(LOOP)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = await instar.start("run", "-m", "scripted/x", "--title", "mine", "go")
    await began(house, 1)
    code, out, err = await instar.run("stop", cwd=elsewhere)
    assert (code, out) == (0, f"stopped {elsewhere}: nothing was running\n")
    assert err == "instar: 1 session elsewhere: instar stop --all\n"
    assert run.returncode is None
    code, out, err = await instar.run("stop", "--all", cwd=elsewhere)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == "stopped everything: 1 session in 1 process ended"
    assert second.split()[1:] == ["mine", "(process", f"{run.pid})"]
    await asyncio.wait_for(run.communicate(), TIMEOUT)


@pytest.mark.slow
async def test_a_process_that_does_not_listen_is_named(house: Machine, instar: Terminals) -> None:
    house.says(LOOP)
    run = await instar.start("run", "-m", "scripted/x", "--title", "stuck", "go")
    await began(house, 1)
    os.kill(run.pid, signal.SIGSTOP)
    try:
        code, out, _ = await instar.run("stop")
        assert code == 1
        assert f"stuck  STILL RUNS: end process {run.pid} on " in out
    finally:
        os.kill(run.pid, signal.SIGCONT)
    await asyncio.wait_for(run.communicate(), TIMEOUT)
    assert run.returncode == 1, "it stops as soon as it can listen"


async def test_what_waits_is_told(house: Machine, instar: Terminals) -> None:
    house.says('\n    == when ""\n    text: hello\n')
    door = await house.open()
    session = await door.session()
    await instar.run("stop")
    from_plugin = [{"type": "text", "text": "on"}]
    await door.runtime.instance.sessions.queue(session, "evolve.idle", {"parts": from_plugin}, Origin())
    _, out, _ = await instar.run("stop")
    assert f"  {session}  1 prompt of evolve.idle waits until you prompt the session" in out
    _, out, _ = await instar.run("session", "show", session)
    assert out.endswith("\n-- waits in the queue (evolve.idle): on\n")


async def test_an_unreadable_list_of_stops_is_put_right(house: Machine, instar: Terminals) -> None:
    house.says('\n    == when ""\n    text: hello\n')
    kept = house.data / "halt" / "stops.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("nonsense")
    code, _, err = await instar.run("run", "-m", "scripted/x", "hi")
    assert code != 0
    assert f"{kept} cannot be read" in err
    assert "run instar stop, which writes it anew" in err
    code, out, err = await instar.run("stop")
    assert (code, out) == (0, "stopped everything: nothing was running\n")
    assert "could not be read, so everything was stopped" in err
    assert (await instar.run("run", "-m", "scripted/x", "hi"))[:2] == (0, "hello\n")


async def test_a_stop_that_cannot_be_written_is_a_failure(house: Machine, instar: Terminals) -> None:
    house.data.mkdir(parents=True)
    (house.data / "halt").write_text("a file in the way")
    code, _, err = await instar.run("stop")
    assert (code, err.startswith("instar: nothing was stopped: ")) == (1, True)


async def test_a_damaged_database_does_not_keep_it_from_stopping(house: Machine, instar: Terminals) -> None:
    house.data.mkdir(parents=True)
    (house.data / "instar.db").write_bytes(b"no database" * 100)
    code, out, err = await instar.run("stop", "--json")
    assert code == 0
    assert json.loads(out)["problem"]
    assert (house.data / "halt" / "stops.json").exists()
    code, out, err = await instar.run("stop")
    assert "stopped, but what ran is not known: " in err


async def test_options_that_exclude_each_other_are_bad_usage(house: Machine, instar: Terminals) -> None:
    code, _, err = await instar.run("stop", "--all", "--dir", ".")
    assert (code, err) == (2, "instar: --all and --dir exclude each other (see: instar stop --help)\n")


@pytest.mark.slow
async def test_a_run_that_was_starting_when_the_stop_came_does_not_begin(
    house: Machine, instar: Terminals
) -> None:
    house.says('\n    == when ""\n    text: hello\n')
    house.plugin("""
        import subprocess, sys
        async def server(input, options):
            subprocess.run([sys.executable, "-m", "instar", "stop"], env=dict(input.environment), check=True)
    """)
    code, out, err = await instar.run("run", "-m", "scripted/x", "hi")
    assert (code, "hello" in out) == (1, False)
    assert "instar stop came while this began: run it again if you still want it" in err
    assert house.requests() == []


async def test_resuming_lets_what_is_automatic_go_on(house: Machine, instar: Terminals) -> None:
    house.says('\n    == when ""\n    text: {{user}}\n')
    door = await house.open()
    session = await door.session()
    await instar.run("stop")
    beat = Origin("action", "1")
    with pytest.raises(Invalid, match="instar stop --resume lets what is automatic go on"):
        await door.client.prompt(session, PromptBody.text("beat"), beat)
    assert await instar.run("stop", "--resume") == (
        0,
        f"heartbeats and plugins may begin turns again: {house.folder}\n",
        "",
    )
    assert text_of(await door.client.prompt(session, PromptBody.text("beat"), beat)) == "beat"
    (house.data / "halt" / "stops.json").write_text("")
    code, _, err = await instar.run("stop", "--resume")
    assert (code, err.endswith("run instar stop, which writes it anew\n")) == (1, True)
