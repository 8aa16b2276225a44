"""A turn as a person meets it: `instar run` as a process, and what it leaves when it is killed."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from instar.message import MessageAbortedError, ToolError
from instar.testing import TIMEOUT, Machine, answer_of, calls_of, results, said, users

pytest_plugins = ["tests.turn"]

LONG = """
    == turn
    text: I will wait.
    tool: bash {"command": "echo $$ > pid.new; mv pid.new pid; sleep 60"}

    == when "next"
    text: next it is
"""


async def start(house: Machine, *args: str) -> asyncio.subprocess.Process:
    """Start `instar run` in the project."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "instar", "run", "--model", "scripted/x", *args),
        cwd=house.folder,
        env=house.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(house: Machine, *args: str) -> tuple[int | None, str, str]:
    """Run it to its end; return its exit code, its stdout and its stderr."""
    child = await start(house, *args)
    out, err = await asyncio.wait_for(child.communicate(), TIMEOUT)
    return child.returncode, out.decode(), err.decode()


async def appears(path: Path) -> Path:
    async with asyncio.timeout(TIMEOUT):
        while not path.exists():
            await asyncio.sleep(0.01)
    return path


async def is_gone(pid: int) -> None:
    """Wait until there is no such process."""
    async with asyncio.timeout(TIMEOUT):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_a_turn_with_a_tool_as_json_lines(house: Machine) -> None:
    house.says("""
        == turn
        text: I look.
        tool: read {"filePath": "a.txt"}

        == turn
        text: It says hello.
    """)
    (house.folder / "a.txt").write_text("hello\n")
    code, out, _ = await run(house, "--format", "json", "what does a.txt say?")
    assert code == 0
    found = lines(out)
    assert [line["type"] for line in found] == [
        *("step_start", "text", "tool_use", "step_finish", "step_start", "text", "step_finish"),
    ]
    assert len({line["sessionID"] for line in found}) == 1
    assert [line["part"]["text"] for line in found if line["type"] == "text"] == ["I look.", "It says hello."]
    (call,) = [line["part"] for line in found if line["type"] == "tool_use"]
    assert (call["tool"], call["state"]["status"]) == ("read", "completed")
    assert "1: hello" in call["state"]["output"]


@pytest.mark.slow
async def test_a_session_goes_on_in_a_process_of_its_own_with_the_same_bytes_in_front(house: Machine) -> None:
    house.says('== when ""\ntext: re: {{user}}\n')
    assert (await run(house, "one"))[:2] == (0, "re: one\n")
    (house.folder / "AGENTS.md").write_text("Use tabs.")
    assert (await run(house, "--continue", "two"))[:2] == (0, "re: two\n")
    first, second = house.requests()
    assert json.dumps(second["system"]) == json.dumps(first["system"])
    assert json.dumps(second["tools"]) == json.dumps(first["tools"])
    assert second["messages"][:1] == first["messages"]
    assert [message["content"] for message in second["messages"]] == ["one", "re: one", "two"]


@pytest.mark.slow
async def test_what_was_announced_survives_a_kill_and_the_open_call_is_marked_interrupted(
    house: Machine,
) -> None:
    house.says(LONG)
    child = await start(house, "--format", "json", "go")
    await appears(house.folder / "pid")
    child.send_signal(signal.SIGKILL)
    out, _ = await child.communicate()
    announced = [line["part"] for line in lines(out.decode())]

    door = await house.open()
    (session,) = await door.client.list()
    user, answer = await door.client.messages(session.id)
    stored = {part["id"]: part for part in answer.to_plain()["parts"]}
    assert announced
    assert all(stored[part["id"]] == part for part in announced)
    assert said(user) == "go"
    state = calls_of(answer)[0].state
    assert isinstance(state, ToolError)
    assert state.metadata is not None
    assert state.metadata["interrupted"] is True
    assert isinstance(answer_of(answer).error, MessageAbortedError)
    assert answer_of(answer).time.completed

    # Its lease would last for half a minute: the dead owner's is taken over at once.
    assert said(await door.ask(session.id, "next")) == "next it is"
    sent = house.requests()[-1]["messages"]
    called = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    assert called == [message["tool_call_id"] for message in sent if message["role"] == "tool"]


@pytest.mark.slow
async def test_a_session_that_another_process_runs_is_refused_with_its_name(house: Machine) -> None:
    house.says(LONG)
    child = await start(house, "--format", "json", "go")
    await appears(house.folder / "pid")
    door = await house.open()
    (session,) = await door.client.list()
    code, _, err = await run(house, "--session", session.id, "me too")
    assert code == 2
    assert f"session {session.id} is running in another process (" in err
    assert f":{child.pid}:" in err
    assert "Traceback" not in err
    child.send_signal(signal.SIGINT)
    await child.communicate()
    assert users(await door.client.messages(session.id)) == ["go"]


@pytest.mark.slow
async def test_an_interrupt_ends_the_turn_and_its_command_within_a_second(house: Machine) -> None:
    house.says(LONG)
    child = await start(house, "go")
    pid = int((await appears(house.folder / "pid")).read_text())
    child.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(child.communicate(), TIMEOUT)
    assert child.returncode == 130
    assert b"Traceback" not in err
    await is_gone(pid)
    door = await house.open()
    (session,) = await door.client.list()
    history = await door.client.messages(session.id)
    assert results(history) == ["Tool execution aborted"]
    assert isinstance(answer_of(history[-1]).error, MessageAbortedError)


BEHIND = """
    == turn
    tool: task {"description": "d", "prompt": "child work", "subagent_type": "general", "background": true}

    == turn
    text: I go on.

    == turn
    text: It found seven.

    == when "child work" once
    tool: bash {"command": "touch new; mv new begun; until [ -e go ]; do sleep 0.05; done; echo was held"}

    == when "was held"
    text: seven
"""


async def test_a_run_waits_for_the_sub_agent_that_it_set_to_work_in_the_background(house: Machine) -> None:
    house.says(BEHIND)
    child = await start(house, "go")
    await appears(house.folder / "begun")
    (house.folder / "go").touch()
    out, _ = await asyncio.wait_for(child.communicate(), TIMEOUT)
    assert child.returncode == 0
    assert out.decode().index("I go on.") < out.decode().index("It found seven.")


async def test_an_interrupt_ends_the_sub_agent_in_the_background_that_a_run_waits_for(house: Machine) -> None:
    house.says(BEHIND)
    child = await start(house, "go")
    assert child.stdout is not None
    await appears(house.folder / "begun")
    await asyncio.wait_for(child.stdout.readuntil(b"I go on."), TIMEOUT)
    child.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(child.communicate(), TIMEOUT)
    assert child.returncode == 130, err
    assert b"Traceback" not in err
